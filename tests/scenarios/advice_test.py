#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Advice on a device whose flushes take 20 ms: given with a prediction, and after the change the daemon's verdict and
the client's own clock agree with it. A load that changes meanwhile proves nothing.

  tests/scenarios/advice_test.py --engine mariadb|mariadb-binlog [--fs ext4] [--build DIR]
"""
import argparse
import json
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "rig"))
from faults import held_device  # noqa: E402
from locations import run_folder  # noqa: E402
from measure import Load, lower_keys  # noqa: E402
from session import running  # noqa: E402

FLUSH_MS = 20
SESSIONS = 8
WINDOW_S = 8
PAUSE_US = 10_000
RULE = "mariadb.flush_log_at_trx_commit"
NAME = "advice"
OPTIONS = None


def near(measured, predicted):
    return abs(measured - predicted) <= max(1.0, 0.2 * predicted)


def percentile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


class Running:
    """A load in the background; windows() are the client's own, in ms, of commits that began later than a moment."""

    def __init__(self, server, sessions, seconds):
        # Without any sync sessions without a pause would only measure how few CPUs there are.
        pause = [] if OPTIONS.engine == "mariadb-binlog" else ["--think-us", str(PAUSE_US)]
        self.load = Load(server, sessions, seconds, pause)
        self.result = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        self.result = self.load.go()

    def windows(self, after_ns):
        self.thread.join()
        return [(end - begin) / 1e6 for begin, end in zip(*self.result[1]) if begin >= after_ns]


class Advice(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        socket = run_folder(OPTIONS.build) / NAME / "server/run/s"
        arguments = ["--mariadb", f"socket={socket} user=root", "--engines-interval-ms", "500", "--advice-window-s", str(WINDOW_S),
                     "--advice-commits-min", "150", "--advice-interval-ms", "500",
                     "--max-cpu-percent", "1000"]  # ten thousand commits a second on two CPUs are no reason to stop here
        session = running(OPTIONS.engine, OPTIONS.fs, OPTIONS.build, OPTIONS.engines, name=NAME, daemon_arguments=arguments)
        cls.server, _ = session.__enter__()
        cls.addClassCleanup(session.__exit__, None, None, None)
        slow = held_device(cls.server, "flush", FLUSH_MS)
        slow.__enter__()
        cls.addClassCleanup(slow.__exit__, None, None, None)

    def advice(self, rule=None):
        rows = lower_keys(self.server.sql(f"SELECT * FROM {self.server.views}advice"))
        return [row for row in rows if rule is None or row["rule"] == rule]

    def wait_for(self, condition, seconds, what):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = condition()
            if found:
                return found
            time.sleep(0.3)
        self.fail(f"{what}: not within {seconds} s: {json.dumps(self.advice(), indent=1, default=str)}")

    def offered(self):
        """The recommendation, once it stands on a whole window."""
        time.sleep(1.4 * WINDOW_S)
        return self.wait_for(lambda: [row for row in self.advice(RULE) if row["state"] == "open" and row["predicted_p50_ms"] is not None],
                             10, "the advice")[0]

    def judged(self, number):
        return self.wait_for(lambda: [row for row in self.advice(RULE) if row["id"] == number and row["state"] not in ("open", "measuring")],
                             4 * WINDOW_S, "a verdict")[0]

    def change(self, value):
        self.server.sql(f"SET GLOBAL innodb_flush_log_at_trx_commit = {value}")

    def test_1_predicted_and_verified(self):
        load = Running(self.server, SESSIONS, 4.5 * WINDOW_S)
        offered = self.offered()
        print(json.dumps(offered, default=str), flush=True)
        kinds = [row["kind"] for row in self.advice() if row["state"] == "open"]
        order = ["application", "grouping", "server", "host", "durability", "no"]
        self.assertEqual(kinds, sorted(kinds, key=order.index), "the safest first, durability last")
        self.assertEqual(kinds[0], "application", self.advice())
        self.assertIn("batch these single-row commits before touching durability", self.advice("application.batch")[0]["evidence"])
        self.assertEqual(offered["value_suggested"], "2")
        self.assertIn("may lose the commits of the last innodb_flush_log_at_timeout (1 s)", offered["risk"])
        with_binlog = OPTIONS.engine == "mariadb-binlog"
        self.assertEqual("binlog and replicas may then hold transactions that this server lost" in offered["risk"], with_binlog)
        self.assertEqual(offered["predicted_p50_ms"] > FLUSH_MS, with_binlog, "the binlog's flush stays, the redo log's goes")
        self.change(2)
        changed_ns = time.monotonic_ns() + 1_000_000_000
        judged = self.judged(offered["id"])
        print(json.dumps(judged, default=str), flush=True)
        times = load.windows(changed_ns)
        client = percentile(times, 0.5), percentile(times, 0.99)
        print(f"client: {len(times)} commits, p50 {client[0]:.2f} ms, p99 {client[1]:.2f} ms", flush=True)
        self.assertEqual(judged["state"], "verified", judged["evidence"])
        for q, measured in zip(("p50", "p99"), client):
            self.assertTrue(near(judged[f"measured_{q}_ms"], judged[f"predicted_{q}_ms"]), q)
            self.assertTrue(near(measured, judged[f"predicted_{q}_ms"]), f"{q} by the client's own clock")

    def test_2_a_load_that_changes_proves_nothing(self):
        self.change(1)
        load = Running(self.server, SESSIONS, 1.9 * WINDOW_S)
        offered = self.offered()
        load.thread.join()
        self.change(2)
        load = Running(self.server, 2, 3 * WINDOW_S)
        judged = self.judged(offered["id"])
        print(json.dumps(judged, default=str), flush=True)
        load.thread.join()
        self.assertEqual(judged["state"], "inconclusive", judged["evidence"])
        self.assertIn("the load changed", judged["evidence"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build")
    parser.add_argument("--engines")
    parser.add_argument("--engine", default="mariadb")
    parser.add_argument("--fs", default="ext4")
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
