#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A neighbour keeps the file system's journal busy that commits need: slow commits and the stall name its process and file.
A journal that is busy and healthy, or whose device is slow, is none.

  tests/scenarios/journal_neighbour_test.py [--engine postgres15] [--build DIR]
"""
import argparse
import json
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "rig"))
from faults import FAULTS  # noqa: E402
from freeze import OpenSession  # noqa: E402
from measure import measure  # noqa: E402
from session import running  # noqa: E402
from stalls import lower_keys, named, query  # noqa: E402

FAULT = "journal-neighbour"
PROCESS, FILE = "rig-neighbour", "neighbour0"
SESSIONS, SECONDS, FLUSH_MS = 4, 5, 40
OPTIONS = None


class JournalNeighbour(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        session = running(OPTIONS.engine, OPTIONS.fs, OPTIONS.build, OPTIONS.engines, name="neighbour")
        cls.server, _ = session.__enter__()
        cls.addClassCleanup(session.__exit__, None, None, None)

    def journal_stalls(self, result):
        return [stall for stall in result["stalls"] if stall["kind"] == "journal"]

    def test_1_busy_and_healthy_is_none(self):
        """The same neighbour, but the device is as fast as memory."""
        result = measure(self.server, FAULT, 0, SESSIONS, SECONDS)
        self.assertEqual(result["stalls"], [])

    def test_2_stall_and_verdicts_name_the_neighbour(self):
        watcher = Watcher(self.server)
        with watcher:
            result = measure(self.server, FAULT, FAULTS[FAULT].ms, SESSIONS, SECONDS)
        if OPTIONS.json:
            print(json.dumps(result), flush=True)
        self.assertEqual(max(result["paths"], key=result["paths"].get), "journal", result["paths"])
        self.assertEqual([stall["kind"] for stall in result["stalls"]], ["journal"], result["stalls"])
        stall = result["stalls"][0]
        self.assertEqual((stall["device"], stall["culprit"]), (self.server.device.loop, PROCESS))
        self.assertEqual(Path(stall["file"]).name, FILE)
        self.assertGreater(stall["ms"], 0.6 * 1000 * SECONDS)
        self.assertGreater(stall["commits_hit"], 0.3 * result["client_commits"])
        self.assertEqual(stall["sessions_hit"], SESSIONS)
        self.assertIn(PROCESS, result["verdict"])
        self.assertIn(FILE, result["verdict"])
        # while it lasted, to a session that was opened before
        during = [row for row in watcher.rows if row["kind"] == "journal"]
        self.assertTrue(during)
        self.assertEqual({(row["id"], row["culprit"], row["ended_at"]) for row in during}, {(stall["id"], PROCESS, None)})
        self.assertTrue(any(row["commits_waiting"] for row in during))
        self.assertLess(watcher.slowest_s, 0.5)
        # of the commits that mostly waited for the journal, nearly all say whose fault it is
        rows = lower_keys(self.server.sql(f"SELECT stall_id, verdict FROM {self.server.views}slow_commits WHERE path = 'journal' "
                                          "AND journal_ms > 50 AND db_name = 'rig' ORDER BY ended_at DESC LIMIT 20"))
        self.assertGreater(len(rows), 5)
        named_it = [row for row in rows if PROCESS in row["verdict"] and FILE in row["verdict"]]
        self.assertGreaterEqual(len(named_it), 0.9 * len(rows), rows)

    def test_3_it_ends_with_the_neighbour(self):
        time.sleep(2.5)
        rows = named(self.server.sql(query(self.server, "kind = 'journal'")))
        self.assertEqual(len(rows), 1, rows)
        self.assertIsNotNone(rows[0]["ended_at"])
        self.assertEqual(rows[0]["commits_waiting"], 0)

    def test_4_verdicts_name_it_without_a_stall(self):
        """Mostly too short to be a stall, and yet the commit's wait has a reason. (Now and then a few waits in a row are eight times
        the usual: then the stall must name the same.)"""
        result = measure(self.server, FAULT, 8, SESSIONS, SECONDS)
        self.assertEqual([stall["culprit"] for stall in result["stalls"] if stall["culprit"] != PROCESS], [], result["stalls"])
        self.assertIn(PROCESS, result["verdict"])
        self.assertIn(FILE, result["verdict"])

    def test_5_a_slow_flush_is_not_the_journals(self):
        """(The last one: what took so long once is nearer to usual then.)"""
        with self.server.growing_log():
            result = measure(self.server, "flush", FLUSH_MS, SESSIONS, SECONDS, ("--row-bytes", "8192"))
        self.assertEqual(result["top_cause"], "flush")
        self.assertEqual(self.journal_stalls(result), [])


class Watcher:
    """Asks for the stalls that last, in a session of its own, until the block ends."""

    def __init__(self, server):
        self.server, self.session = server, OpenSession(server)
        self.rows, self.slowest_s, self.stop = [], 0, threading.Event()

    def watch(self):
        while not self.stop.wait(0.1):
            began = time.monotonic()
            self.rows += named(self.session.sql(query(self.server, "ended_at IS NULL")))
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    def __enter__(self):
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self.session.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build")
    parser.add_argument("--engines")
    parser.add_argument("--engine", default="postgres15", choices=["postgres15", "postgres18", "mariadb-binlog"])
    parser.add_argument("--fs", default="ext4", choices=["ext4"])
    parser.add_argument("--json", action="store_true", help="print what was measured")
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
