#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Commits that extend the log file wait for the file system's journal: the views must say so, for leaders and followers.

PostgreSQL with wal_init_zero=off and wal_recycle=off on ext4 (data=ordered): each fdatasync of the log commits the journal,
whose commit block is flush, write, flush on a device without FUA.

  tests/scenarios/journal_path_test.py [--build DIR] [--engine postgres15]
"""
import argparse
import re
import subprocess
import sys
import threading
import time
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
        time.sleep(1.2)  # what is read from files is at most a second old
        cls.journal_before = cls.journal(), cls.told()
        cls.result = measure(server, "flush", FLUSH_MS, 4, 4)
        time.sleep(1.2)
        cls.journal_after = cls.journal(), cls.told()
        cls.by_role = {row["role"]: row for row in server.sql(
            "SELECT role, count(*) AS n, avg(duration_ms) AS duration_ms, avg(flush_ms) AS flush_ms, avg(journal_ms) AS journal_ms"
            " FROM flushlight.slow_commits WHERE db_name = 'rig' GROUP BY role")}

    @classmethod
    def journal(cls):
        return cls.server.sql(f"SELECT * FROM flushlight.journals WHERE mount_point = '{cls.server.device.mount}'")[0]

    @classmethod
    def told(cls):
        """Transactions that the file system itself counts."""
        name = Path(cls.server.device.loop).name
        return int(next(Path("/proc/fs/jbd2").glob(f"{name}-*")).joinpath("info").read_text().split()[0])

    def test_the_view_journals_says_the_same(self):
        (before, told_before), (after, told_after) = self.journal_before, self.journal_after
        self.assertEqual((after["file_system"], after["mode"]), ("ext4", "ordered"))
        self.assertEqual(after["journal_device"], after["name"])
        self.assertAlmostEqual(after["commits"] - before["commits"], told_after - told_before, delta=2)
        self.assertGreater(told_after - told_before, 20)
        dump = subprocess.run(["dumpe2fs", "-h", f"/dev/{after['name']}"], capture_output=True, text=True, check=True).stdout
        blocks, block_bytes = (int(re.search(rf"^{name}: +(\d+)", dump, re.M).group(1)) for name in ("Total journal blocks", "Block size"))
        self.assertEqual(after["log_bytes"], blocks * block_bytes)
        # preflush and postflush of the commit block; what came before the load was fast
        held_ms = 2 * self.result["held_ms"]
        self.assertAlmostEqual(after["commit_p95_ms"], held_ms, delta=0.15 * held_ms, msg=after)
        phases = [after[f"{phase}_ms"] for phase in ("starting", "locking", "flushing", "logging")]
        self.assertAlmostEqual(sum(phases), after["commit_mean_ms"], delta=0.001 * after["commit_mean_ms"])
        self.assertEqual(max(phases), after["logging_ms"], after)
        self.assertTrue(1.9 <= after["flushes_per_commit"] <= 2.5, after)
        if after["commit_share"] is not None:  # no other journal was at work
            paths = self.result["paths"]
            self.assertAlmostEqual(after["commit_share"], paths["journal"] / sum(paths.values()), delta=0.1)

    def test_a_frozen_device_shows_its_oldest_request(self):
        name = Path(self.server.device.loop).name
        query = f"SELECT inflight, oldest_request_ms FROM flushlight.devices WHERE name = '{name}'"
        self.server.device.freeze(2500)
        writer = threading.Thread(target=self.server.sql, args=("INSERT INTO segments VALUES (2)",),
                                  kwargs={"database": self.server.system_database})
        writer.start()
        begin = time.monotonic()
        time.sleep(1)
        first = self.server.sql(query)[0]
        time.sleep(0.5)
        second = self.server.sql(query)[0]
        waited_ms = (time.monotonic() - begin) * 1000
        writer.join()
        self.assertGreaterEqual(first["inflight"], 1)
        self.assertTrue(600 < first["oldest_request_ms"] < second["oldest_request_ms"] <= waited_ms + 100, (first, second, waited_ms))
        self.assertGreaterEqual(second["oldest_request_ms"] - first["oldest_request_ms"], 450)
        time.sleep(0.5)
        after = self.server.sql(query)[0]
        self.assertTrue(after["oldest_request_ms"] is None or after["oldest_request_ms"] < 500, after)

    def test_pressure_shows_dirty_memory_and_waiting(self):
        query = "SELECT * FROM flushlight.pressure WHERE scope = 'host'"
        time.sleep(1.2)
        before, bytes_written = self.server.sql(query)[0], 32 << 20
        self.server.device.freeze(3000)
        waiter = threading.Thread(target=self.server.sql, args=("INSERT INTO segments VALUES (3)",),
                                  kwargs={"database": self.server.system_database})
        waiter.start()
        file = Path(self.server.device.mount) / "dirty"
        file.write_bytes(b"x" * bytes_written)  # nobody can write it back now
        time.sleep(1.5)
        meanwhile = self.server.sql(query)[0]
        waiter.join()
        time.sleep(1.2)
        after = self.server.sql(query)[0]
        file.unlink()
        dirty = [row["dirty_bytes"] + row["writeback_bytes"] for row in (before, meanwhile)]
        self.assertGreater(dirty[1] - dirty[0], 0.75 * bytes_written)
        self.assertGreater(after["io_some_ms"] - before["io_some_ms"], 2000, "a task waited for I/O nearly all the time")
        own = self.server.sql("SELECT * FROM flushlight.pressure WHERE scope = 'cgroup'")
        self.assertEqual(len(own), 1, own)
        self.assertTrue(own[0]["name"].startswith("/"), own)

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
