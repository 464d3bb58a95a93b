#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The view `rings` says what programs with io_uring did, by their own count; PostgreSQL 18's own rings are there too.

  tests/scenarios/rings_test.py --engine postgres18 [--build DIR]
"""
import argparse
import json
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "rig"))
from engines import USER  # noqa: E402
from measure import lower_keys  # noqa: E402
from session import running  # noqa: E402
from uring import Program  # noqa: E402

OPTIONS = None
HIDDEN = "<insufficient privilege>"
TABLE_MB = 64


class Rings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        session = running(OPTIONS.engine, "ext4", OPTIONS.build, OPTIONS.engines, name="rings")
        cls.server, _ = session.__enter__()
        cls.addClassCleanup(session.__exit__, None, None, None)

    def rings(self, where="true", user=None):
        return lower_keys(self.server.sql(f"SELECT * FROM {self.server.views}rings WHERE {where}", user=user))

    def program(self, mode, *arguments):
        """(what it did, its row)"""
        with Program(self.server.device.tools, mode, *arguments) as program:
            row = program.row(self.server)
            if OPTIONS.json:
                print(json.dumps({"mode": mode, "did": program.did, "row": row}, default=str), flush=True)
            return program.did, row

    def check(self, did, row, *names):
        for name in ("submissions", "completions", *names):
            self.assertGreater(did[name], 0, name)
            self.assertAlmostEqual(row[name], did[name], delta=0.01 * did[name], msg=name)
        for name in {"failed_submissions", "worker_punts", "cq_overflows", "dropped_submissions", "dropped_completions"} - set(names):
            self.assertEqual(row[name], 0, name)
        self.assertEqual(row["process"], "rig-uring")
        self.assertEqual(row["used_by"], "rig-uring")
        self.assertEqual(row["used_by_id"], did["pid"])
        self.assertIsNone(row["instance"])
        self.assertIsNotNone(row["created_at"])
        self.assertEqual((row["sq_pending"], row["cq_pending"]), (0, 0))

    def test_overflow(self):
        did, row = self.program("overflow", "--count", 4000)
        self.check(did, row, "cq_overflows")
        self.assertEqual((row["sq_entries"], row["cq_entries"]), (2, 2))
        self.assertIn("CQSIZE", row["setup_flags"])
        # what found no room was not timed
        self.assertEqual(row["timed_requests"], did["submissions"] - did["cq_overflows"])

    def test_failed(self):
        self.check(*self.program("failed", "--count", 1000), "failed_submissions")

    def test_punts(self):
        did, row = self.program("punts", "--count", 500, "--folder", self.server.device.mount)
        self.check(did, row, "worker_punts")
        self.assertEqual(row["timed_requests"], did["submissions"])

    def test_latency(self):
        did, row = self.program("latency", "--count", 40, "--ms", 50)
        self.check(did, row)
        self.assertAlmostEqual(row["mean_ms"], did["mean_ms"], delta=0.01 * did["mean_ms"])
        self.assertAlmostEqual(row["p50_ms"], did["mean_ms"], delta=0.15 * did["mean_ms"])
        self.assertIsNone(row["sqpoll"])
        self.assertIsNone(row["sqpoll_starved_ms"])

    def test_starved(self):
        did, row = self.program("starved", "--count", 10, "--ms", 200)
        self.check(did, row, "sqpoll_starved_ms")
        self.assertGreater(did["sqpoll_starved_ms"], 10 * 190)
        self.assertEqual(row["sqpoll_cpu"], 1)
        self.assertEqual(row["sqpoll"], "sleeps")
        self.assertIn("SQPOLL", row["setup_flags"])
        self.assertIsNotNone(row["sqpoll_thread_id"])

    def test_starved_now(self):
        """Seen while it lasts."""
        with subprocess.Popen([str(self.server.device.tools / "rig-uring"), "starved", "--count", "1", "--ms", "800"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            seen = []
            while not seen or (seen[-1] and seen[-1]["completions"] == 0) and process.poll() is None:
                rows = self.rings(f"process_id = {process.pid}")
                seen.append(rows[0] if rows else None)
            process.stdin.close()
            process.wait(20)
        during = [row for row in seen if row and row["sqpoll"] == "waits for a CPU"]
        self.assertTrue(during, seen)
        times = [row["sqpoll_starved_ms"] for row in during]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[-1], 200)

    def test_closed_rings_are_gone(self):
        did, _ = self.program("failed", "--count", 1)
        self.assertEqual(self.rings(f"process_id = {did['pid']}"), [])

    def test_others_are_not_told_whose(self):
        with Program(self.server.device.tools, "failed", "--count", 77):
            rows = [row for row in self.rings(user=USER) if row["failed_submissions"] == 77]
            self.assertEqual(len(rows), 1)
            row = rows[0]
            self.assertEqual((row["process"], row["used_by"]), (HIDDEN, HIDDEN))
            for name in ("process_id", "used_by_id", "descriptor"):
                self.assertIsNone(row[name], name)


class PostgresRings(unittest.TestCase):
    """io_method = io_uring: the postmaster makes the rings, backends use them."""

    @classmethod
    def setUpClass(cls):
        session = running(OPTIONS.engine, "ext4", OPTIONS.build, OPTIONS.engines, name="rings")
        cls.server, cls.daemon = session.__enter__()
        cls.addClassCleanup(session.__exit__, None, None, None)
        cls.server.sql("ALTER SYSTEM SET io_method = 'io_uring'")
        cls.server.sql(f"CREATE TABLE big AS SELECT i, repeat('x', 1000) AS t FROM generate_series(1, {TABLE_MB * 900}) i", "CHECKPOINT")
        cls.server.stop()
        cls.server.launch()

    def mine(self):
        return lower_keys(self.server.sql(f"SELECT * FROM {self.server.views}rings WHERE instance IS NOT NULL"))

    def test_1_reads_are_counted(self):
        before = {row["descriptor"]: row["submissions"] for row in self.mine()}
        self.assertGreater(len(before), 10, "one for each process that there may be")
        reads = self.server.sql(
            "SET max_parallel_workers_per_gather = 0", "SELECT count(t) FROM big",
            "SELECT pg_stat_force_next_flush()",
            "SELECT pg_backend_pid() AS pid, (SELECT reads FROM pg_stat_get_backend_io(pg_backend_pid()) "
            "WHERE object = 'relation' AND context = 'bulkread') AS reads")[0]
        rows = self.mine()
        postmaster = int((self.server.data / "postmaster.pid").read_text().split()[0])
        busy = [row for row in rows if row["submissions"] > before[row["descriptor"]]]
        if OPTIONS.json:
            print(json.dumps({"reads": reads, "busy": busy}, default=str), flush=True)
        row = max(busy, key=lambda one: one["submissions"] - before[one["descriptor"]])
        submitted = row["submissions"] - before[row["descriptor"]]
        self.assertGreater(reads["reads"], 100)
        self.assertAlmostEqual(submitted, reads["reads"], delta=0.01 * reads["reads"])
        self.assertEqual(row["completions"], row["submissions"])
        self.assertEqual(row["used_by"], "postgres")
        self.assertIsNotNone(row["mean_ms"])
        for one in rows:
            self.assertEqual(one["process"], "postgres")
            self.assertIsNotNone(one["created_at"])
        self.assertEqual({one["process_id"] for one in rows}, {postmaster})

    def test_2_daemon_that_comes_later(self):
        rows = len(self.mine())
        self.daemon.stop()
        self.daemon.start()
        self.server.sql("SELECT 1")
        postmaster = int((self.server.data / "postmaster.pid").read_text().split()[0])
        later = lower_keys(self.server.sql(f"SELECT * FROM {self.server.views}rings WHERE process_id = {postmaster}"))
        self.assertEqual(len(later), rows)
        self.assertTrue(all(row["created_at"] is None and row["process"] == "postgres" for row in later))
        self.assertGreater(max(row["submissions"] for row in later), 0, "the ring's own count")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build")
    parser.add_argument("--engines")
    parser.add_argument("--engine", default="postgres15")
    parser.add_argument("--json", action="store_true", help="print what was measured")
    OPTIONS, rest = parser.parse_known_args()
    if OPTIONS.engine != "postgres18":
        del PostgresRings
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
