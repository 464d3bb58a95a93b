#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Advice on checkpoints: with max_wal_size too small the advice names the requested checkpoints, what will change, recovery
and space; after the change there are as many images of whole pages as predicted, by the server's own counters."""
import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rig"))
from daemon import Daemon  # noqa: E402
from pg_case import OPTIONS, PostgresCase, main  # noqa: E402

WINDOW_S = 15
CLIENTS = 4


class Checkpoints(PostgresCase):
    with_fake_daemon = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, value in (("max_wal_size", "'32MB'"), ("min_wal_size", "'32MB'"), ("checkpoint_timeout", "'5min'"),
                            ("checkpoint_completion_target", "0.9"), ("synchronous_commit", "on")):
            cls.server.setting(name, value)
        cls.server.sql("CREATE ROLE watcher LOGIN", "GRANT pg_monitor TO watcher", database="postgres")
        # -N: no row that all sessions want. A table that is changed everywhere between two checkpoints.
        subprocess.run([str(p) for p in cls.server.pgbench("-i", "-q", "-s", "1")], check=True, cwd="/", env=cls.server.environment(),
                       capture_output=True)

    def advice(self, state=None):
        rows = self.server.sql("SELECT * FROM flushlight.advice WHERE rule = 'postgresql.max_wal_size'")
        return [row for row in rows if state is None or row["state"] in state]

    def counters(self):
        return self.server.sql("SELECT (SELECT wal_fpi FROM pg_stat_wal) AS images, (SELECT sum(xact_commit) FROM pg_stat_database) AS commits")[0]

    def images_for_a_commit(self, seconds):
        before = self.counters()
        time.sleep(seconds)
        after = self.counters()
        return (float(after["images"]) - float(before["images"])) / (float(after["commits"]) - float(before["commits"]))

    def test_max_wal_size_predicted_and_verified(self):
        load = subprocess.Popen([str(p) for p in self.server.pgbench("-n", "-N", "-M", "prepared", "-c", str(CLIENTS), "-T", str(12 * WINDOW_S))],
                                cwd="/", env=self.server.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(load.wait)
        self.addCleanup(load.terminate)
        time.sleep(3)
        arguments = ["--postgresql", f"host={self.server.socket} user=watcher", "--engines-interval-ms", "500", "--advice-window-s", str(WINDOW_S),
                     "--advice-commits-min", "150", "--advice-interval-ms", "500"]
        daemon = Daemon(OPTIONS.build, self.socket.parent, self.disk.registry, arguments).start()
        self.addCleanup(daemon.stop)
        self.eventually(lambda: self.advice(["open"]), 3 * WINDOW_S)
        before = self.images_for_a_commit(WINDOW_S)
        offered = self.advice(["open"])[0]
        print(json.dumps(offered, default=str), flush=True)
        self.assertRegex(offered["evidence"], r"\d+ of \d+ checkpoints in \d+ s came because the WAL had reached max_wal_size \(32 MB\)")
        self.assertIn("recovery after a crash replays up to", offered["risk"])
        self.assertIn("pg_wal takes up to that much space", offered["risk"])
        self.assertIsNone(offered["predicted_p50_ms"], "accounts cannot tell")
        self.server.setting("max_wal_size", f"'{offered['value_suggested']}'")
        time.sleep(2)
        self.eventually(lambda: self.advice(["verified", "refuted", "inconclusive"]), 4 * WINDOW_S)
        judged = self.advice(["verified", "refuted", "inconclusive"])[0]
        after = self.images_for_a_commit(5)
        print(json.dumps(judged, default=str), f"images for a commit: {before:.3f} before, {after:.3f} after", flush=True)
        self.assertEqual(judged["state"], "verified", judged["evidence"])
        self.assertLess(after, 0.5 * before, "by the server's own counters")


if __name__ == "__main__":
    main()
