#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The view `replication` says what commits waited for a standby that is stopped again and again, and which standby that is.

  tests/scenarios/replication_test.py --engine postgres18 [--build DIR]
"""
import argparse
import json
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "rig"))
import standby  # noqa: E402
from measure import Load, lower_keys  # noqa: E402
from session import running  # noqa: E402
from witness import held_between  # noqa: E402

SESSIONS = 4
SECONDS = 4
PAUSE_MS = 100
OPTIONS = None
WAITS = ("commits_waited", "commit_wait_ms", "mean_commit_wait_ms", "max_commit_wait_ms", "commits_waiting", "oldest_wait_ms")


class Watcher:
    """Asks for the rows again and again meanwhile."""

    def __init__(self, ask):
        self.rows = []
        self._ask = ask
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._end.wait(0.02):
            self.rows += self._ask()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()


class Replication(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        session = running(OPTIONS.engine, "ext4", OPTIONS.build, OPTIONS.engines, name="replication")
        cls.server, _ = session.__enter__()
        cls.addClassCleanup(session.__exit__, None, None, None)
        cls.is_mariadb = cls.server.product == "mariadb"

    def rows(self, **kw):
        return lower_keys(self.server.sql(f"SELECT * FROM {self.server.views}replication", **kw))

    def check_standby(self, row):
        if self.is_mariadb:
            self.assertEqual((row["sync_mode"], row["name"], row["client_addr"]), ("semi-sync", "server 2", "127.0.0.1"))
            dumps = lower_keys(self.server.sql("SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump'"))
            self.assertEqual([one["id"] for one in dumps], [row["session_id"]])
            self.assertIsNone(row["remote_flush_ms"])
            return
        known = self.server.sql("SELECT pid, application_name FROM pg_stat_replication")[0]
        self.assertEqual((row["sync_mode"], row["state"], row["name"], row["session_id"]),
                         ("sync", "streaming", known["application_name"], known["pid"]))
        self.assertIsNone(row["client_addr"], "a local socket")

    def test_1_what_commits_waited(self):
        load = Load(self.server, SESSIONS, SECONDS)
        with standby.paused(self.server, None, PAUSE_MS) as times:
            self.server.reset_statistics()
            with Watcher(self.rows) as watcher:
                summary, windows = load.go()
            after = self.rows()
            self.assertEqual(len(after), 1)
            self.check_standby(after[0])
        _, held_ms = held_between(times, windows, (summary["begin_ns"], summary["end_ns"]))
        row = after[0]
        if OPTIONS.json:
            print(json.dumps({"held_in_commit_ms": held_ms, "commits": summary["commits"], "row": row}, default=str), flush=True)
        self.assertGreater(held_ms, PAUSE_MS / 5)
        self.assertAlmostEqual(row["commit_wait_ms"] / summary["commits"], held_ms, delta=0.10 * held_ms)
        # (the standby may have answered before its commit asks)
        self.assertTrue(0.85 * summary["commits"] <= row["commits_waited"] <= summary["commits"], row["commits_waited"])
        self.assertAlmostEqual(row["mean_commit_wait_ms"], row["commit_wait_ms"] / row["commits_waited"], places=6)
        self.assertGreaterEqual(row["max_commit_wait_ms"], row["mean_commit_wait_ms"])
        waiting = [one for one in watcher.rows if one["commits_waiting"]]
        self.assertEqual(max(one["commits_waiting"] for one in waiting), SESSIONS)
        oldest = max(one["oldest_wait_ms"] for one in waiting)
        self.assertGreater(oldest, 0.6 * PAUSE_MS)
        self.assertLess(oldest, row["max_commit_wait_ms"] + 20)
        if not self.is_mariadb:
            flush = [one["remote_flush_ms"] for one in watcher.rows if one["remote_flush_ms"]]
            self.assertGreater(max(flush), 0.6 * PAUSE_MS)
            self.assertGreater(max(one["unflushed_bytes"] for one in watcher.rows if one["unflushed_bytes"] is not None), 0)

    def test_2_nobody_connected(self):
        rows = self.rows()
        self.assertEqual(len(rows), 1)
        self.assertEqual([rows[0][name] for name in ("name", "session_id", "sync_mode")], [None] * 3)
        self.assertEqual(rows[0]["commits_waiting"], 0)

    def test_3_nobody_waits_for_an_asynchronous_one(self):
        if self.is_mariadb:
            with standby.mariadb(self.server, "AFTER_COMMIT"):
                self.server.sql("SET GLOBAL rpl_semi_sync_master_enabled = OFF")
                rows = self.rows()
        else:
            with standby.postgresql(self.server), self.server.settings_changed(synchronous_standby_names=""):
                standby.wait_for(lambda: self.rows()[0]["sync_mode"] == "async", 10, "the standby to be asynchronous")
                rows = self.rows()
        self.assertEqual([row["sync_mode"] for row in rows], ["async"])
        self.assertEqual([rows[0][name] for name in WAITS], [None] * len(WAITS))

    def test_4_others_are_not_told_which(self):
        with standby.paused(self.server, None, 1):
            rows = self.rows(user="rig")
        self.assertEqual(len(rows), 1)
        self.assertEqual([rows[0][name] for name in ("client_addr", "state", "sync_mode", "remote_flush_ms")], [None] * 4)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build")
    parser.add_argument("--engines")
    parser.add_argument("--engine", default="postgres15")
    parser.add_argument("--json", action="store_true", help="print what was measured")
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
