#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""wal_sync_method ranked by `flushlight probe`, and the ranking confirmed by pgbench with the best and the worst of them:
the one that the probe calls faster is, and by about as much."""
import argparse
import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rig"))
from locations import lacking  # noqa: E402
from processes import run  # noqa: E402
from session import running  # noqa: E402

OPTIONS = None
FLUSH_MS, WRITE_MS = 6, 2
SECONDS, ROUNDS = 6, 2
RATIO_TOLERANCE = 0.25
TINY = "\\set id random(1, 1000)\nUPDATE probe SET hits = hits + 1 WHERE id = :id;\n"


def client(server, program):
    """A program of the server's own packages, in the file system that the server sees."""
    if server.version == 15:
        return ["env", f"LD_LIBRARY_PATH={server.root}/usr/lib/x86_64-linux-gnu", f"{server.programs()}/bin/{program}"]
    postmaster = (server.data / "postmaster.pid").read_text().split()[0]
    return ["nsenter", "--mount", "--target", postmaster, "chroot", server.root, f"{server.programs()}/bin/{program}"]


class WalSyncMethod(unittest.TestCase):
    def probe(self, where):
        result = subprocess.run([str(Path(OPTIONS.build) / "sidecar/flushlight"), "probe", str(where), "--json", "--quiet", "--only", "log-8k-*",
                                 "--seconds", "20", "--size-mb", "16", "--reserve-percent", "1"],
                                capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["wal_sync_method"]

    def pgbench(self, server, method):
        """Mean latency of one client's transactions, in ms."""
        server.sql(f"ALTER SYSTEM SET wal_sync_method = '{method}'", database="postgres")
        server.sql("SELECT pg_reload_conf()", database="postgres")
        server.sql("CHECKPOINT", database="postgres")
        self.assertEqual(server.sql("SHOW wal_sync_method", database="postgres")[0]["wal_sync_method"], method)
        script = Path(server.socket) / "tiny.sql"
        script.write_text(TINY)
        script.chmod(0o644)
        out = run(*client(server, "pgbench"), "-n", "-h", server.server_path("run"), "-U", "rig", "-c", "1", "-T", SECONDS, "-f",
                  server.server_path("run") / "tiny.sql", "rig", timeout=60, env=server.environment()).stdout
        return float(re.search(r"latency average = ([\d.]+) ms", out).group(1))

    def test_best_and_worst(self):
        with running(OPTIONS.engine, "ext4", OPTIONS.build, OPTIONS.engines, flushlight=False, name="wal-sync") as (server, _):
            server.sql("CREATE TABLE probe (id int PRIMARY KEY, hits int)",
                       "INSERT INTO probe SELECT i, 0 FROM generate_series(1, 1000) i", "GRANT ALL ON probe TO rig", "CHECKPOINT")
            server.device.hold(flush_ms=FLUSH_MS, write_ms=WRITE_MS)
            ranking = self.probe(server.device.mount)
            best, worst = ranking["methods"][0], ranking["methods"][-1]
            latency = {best["method"]: [], worst["method"]: []}
            for _ in range(ROUNDS):
                for method in latency:
                    latency[method].append(self.pgbench(server, method))
            server.device.off()
        measured = {method: sum(values) / len(values) for method, values in latency.items()}
        print(f"probe: {[(m['method'], round(m['p50_ms'], 2)) for m in ranking['methods']]}; pgbench: {latency}", flush=True)
        self.assertFalse(worst["as_good_as_best"], ranking)
        self.assertLess(measured[best["method"]], measured[worst["method"]])
        probed_ratio = worst["p50_ms"] / best["p50_ms"]
        measured_ratio = measured[worst["method"]] / measured[best["method"]]
        print(f"worst / best: probe {probed_ratio:.2f}, pgbench {measured_ratio:.2f}", flush=True)
        self.assertLess(abs(measured_ratio / probed_ratio - 1), RATIO_TOLERANCE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", default="postgres15")
    parser.add_argument("--build", required=True)
    parser.add_argument("--engines", required=True)
    OPTIONS, rest = parser.parse_known_args()
    missing = lacking()
    if missing:
        print(f"skipped: {missing}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2, warnings="ignore")
