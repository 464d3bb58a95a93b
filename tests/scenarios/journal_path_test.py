#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Commits that extend the log file wait for the file system's journal: the views must say so, for leaders and followers.

PostgreSQL with wal_init_zero=off and wal_recycle=off on ext4 (data=ordered): each fdatasync of the log commits the journal,
whose commit block is flush, write, flush on a device without FUA.

  tests/scenarios/journal_path_test.py [--build DIR] [--engine postgres15]
"""
import argparse
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "rig"))
from measure import measure  # noqa: E402
from session import running  # noqa: E402

FLUSH_MS = 30
OPTIONS = None


class JournalPath(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.session = running(OPTIONS.engine, "ext4", OPTIONS.build, OPTIONS.engines, name="journal")
        cls.server, _ = cls.session.__enter__()
        cls.addClassCleanup(cls.session.__exit__, None, None, None)
        server = cls.server
        server.sql("ALTER SYSTEM SET wal_init_zero = off", "ALTER SYSTEM SET wal_recycle = off", "SELECT pg_reload_conf()")
        # Small commits fill a page many times over; with 12 kB each every one of them needs a new page of the file.
        server.sql("CREATE FUNCTION write_12_kb() RETURNS trigger LANGUAGE plpgsql AS "
                   "$$BEGIN PERFORM pg_logical_emit_message(true, 'rig', repeat('x', 12000)); RETURN NULL; END$$",
                   "CREATE TABLE IF NOT EXISTS rig_load (id INT PRIMARY KEY, v BIGINT NOT NULL)",
                   "ALTER TABLE rig_load OWNER TO rig",
                   "CREATE TRIGGER write_12_kb AFTER UPDATE ON rig_load FOR EACH ROW EXECUTE FUNCTION write_12_kb()")
        # Segments that exist already were filled with zeros: use them up, so that the load meets sparse ones only.
        for _ in range(20):
            server.sql("INSERT INTO segments VALUES (1)", "SELECT pg_switch_wal()", database=server.system_database)
        server.sql("CHECKPOINT")
        cls.result = measure(server, "flush", FLUSH_MS, 4, 4)
        cls.by_role = {row["role"]: row for row in server.sql(
            "SELECT role, count(*) AS n, avg(duration_ms) AS duration_ms, avg(flush_ms) AS flush_ms, avg(journal_ms) AS journal_ms"
            " FROM flushlight.slow_commits WHERE db_name = 'rig' GROUP BY role")}

    def test_the_account_closes_on_the_journal(self):
        result = self.result
        self.assertAlmostEqual(result["cause_sum"], 1, delta=0.01)
        self.assertAlmostEqual(result["path_sum"], 1, delta=0.01)
        self.assertGreaterEqual(result["closure"], 0.98)
        self.assertEqual(result["top_cause"], "flush")
        self.assertAlmostEqual(result["account"]["flush"], result["held_in_commit_ms"], delta=0.1 * result["held_in_commit_ms"])
        self.assertEqual(max(result["paths"], key=result["paths"].get), "journal", result["paths"])

    def test_leaders_wait_for_the_journal(self):
        led = self.by_role["led"]
        self.assertGreater(led["n"], 20)
        # both flushes of the journal's commit block
        self.assertGreaterEqual(led["journal_ms"], 2 * FLUSH_MS * 0.95, led)

    def test_followers_inherit_the_journal(self):
        followed = self.by_role["followed"]
        self.assertGreater(followed["n"], 20)
        self.assertGreaterEqual(followed["journal_ms"], 0.6 * followed["duration_ms"], followed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build")
    parser.add_argument("--engines")
    parser.add_argument("--engine", default="postgres15", choices=["postgres15", "postgres18"])
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
