#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The real flushlightd's /metrics against the real promtool and a real Prometheus: what Prometheus scraped and answers
over its own API is what the SQL views say. Needs root (BPF), on the plain disk."""
import json
import re
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rig"))
from daemon import Daemon  # noqa: E402
from pg_case import OPTIONS, PostgresCase, main  # noqa: E402
from processes import end, spawn, start_ticks, wait_for  # noqa: E402


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fetch(url, accept=None):
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode(), answer.headers.get("Content-Type")


class Prometheus:
    """A server of its own, scraping one target once a second."""

    def __init__(self, root, folder, target, registry):
        self.root, self.folder, self.registry = root, folder, registry
        self.port = free_port()
        self.folder.mkdir()
        (self.folder / "prometheus.yml").write_text(json.dumps({  # YAML takes JSON
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [{"job_name": "flushlight", "static_configs": [{"targets": [target]}]}]}))

    def start(self):
        self.process = spawn([self.root / "usr/bin/prometheus", f"--config.file={self.folder}/prometheus.yml",
                              f"--storage.tsdb.path={self.folder}/data", f"--web.listen-address=127.0.0.1:{self.port}"],
                             self.registry, "prometheus", log=self.folder / "log", die_with_parent=False)
        self.entry = {"pid": self.process.pid, "ticks": start_ticks(self.process.pid), "what": "prometheus"}
        wait_for(self.is_ready, 30, "prometheus", self.process, self.folder / "log")
        return self

    def is_ready(self):
        try:
            fetch(f"http://127.0.0.1:{self.port}/-/ready")
            return True
        except OSError:
            return False

    def stop(self):
        end([self.entry], patience_s=10)

    def query(self, expression):
        text, _ = fetch(f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        return [(found["metric"], float(found["value"][1])) for found in json.loads(text)["data"]["result"]]

    def target(self):
        text, _ = fetch(f"http://127.0.0.1:{self.port}/api/v1/targets")
        return json.loads(text)["data"]["activeTargets"][0]


class Metrics(PostgresCase):
    with_fake_daemon = False
    port = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.port = free_port()
        cls.flushlightd = Daemon(OPTIONS.build, cls.socket.parent, cls.disk.registry,
                                 ["--metrics-listen", f"127.0.0.1:{cls.port}"]).start()
        cls.addClassCleanup(cls.flushlightd.stop)
        cls.server.sql("CREATE TABLE t (i int, s text)")
        cls.prometheus_root = Path(OPTIONS.engines) / "prometheus/root"

    def load(self):
        db = self.session()
        for i in range(200):
            db.sql(f"INSERT INTO t VALUES ({i}, 'a secret')")
            if i % 10 == 0:
                db.sql("BEGIN", f"UPDATE t SET s = 'y' WHERE i = {i}", "COMMIT")
        return db

    def url(self):
        return f"http://127.0.0.1:{self.port}/metrics"

    def test_promtool_has_nothing_to_say(self):
        self.load()
        time.sleep(1.1)  # figures are at most a second old
        text, kind = fetch(self.url())
        self.assertEqual(kind, "text/plain; version=0.0.4; charset=utf-8")
        run = subprocess.run([self.prometheus_root / "usr/bin/promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout + run.stderr), (0, ""))
        self.assertFalse("secret" in text or "INSERT" in text, "query texts in the metrics")
        for family in ("statements_commit_seconds_total", "latency_seconds_bucket", "devices_flushes_total", "health_info"):
            self.assertTrue(f"\nflushlight_{family}{{" in text, family)

    def test_prometheus_answers_what_the_views_say(self):
        self.load()
        prometheus = Prometheus(self.prometheus_root, self.disk.folder / "prometheus", f"127.0.0.1:{self.port}", self.disk.registry)
        self.addCleanup(prometheus.stop)
        prometheus.start()
        self.eventually(lambda: prometheus.query("flushlight_statements_commits_total"), seconds=20)
        time.sleep(3)  # the load's last commits are in a scrape of their own
        target = prometheus.target()
        self.assertEqual((target["health"], target["lastError"]), ("up", ""))

        instance = "exported_instance"  # 'instance' is Prometheus' own name for the target
        sums = self.server.sql("SELECT sum(commits) AS commits, sum(total_commit_ms) AS commit_ms,"
                               " sum(flush_ms) AS flush_ms FROM flushlight.statements")[0]
        for column, metric, unit in (("commits", "commits", 1), ("commit_ms", "commit_seconds", 1000), ("flush_ms", "flush_seconds", 1000)):
            found = prometheus.query(f"sum by ({instance}) (flushlight_statements_{metric}_total)")
            self.assertEqual(len(found), 1)
            self.assertAlmostEqual(found[0][1] * unit, float(sums[column]), delta=1e-6 * float(sums[column]), msg=column)

        row = self.server.sql("SELECT * FROM flushlight.statements WHERE query LIKE 'INSERT INTO t%'")[0]
        labels = f'queryid="{row["queryid"]}",kind="statement"'
        for column, metric, unit in (("commits", "commits_total", 1), ("total_commit_ms", "commit_seconds_total", 1000),
                                     ("p99_commit_ms", "p99_commit_seconds", 1000), ("wal_bytes", "wal_bytes_total", 1)):
            (found, value), = prometheus.query(f"flushlight_statements_{metric}{{{labels}}}")
            self.assertEqual((found["user_name"], found["db_name"]), ("postgres", "rig"))
            self.assertAlmostEqual(value * unit, float(row[column]), delta=1e-6 * float(row[column]), msg=column)

        count = prometheus.query('flushlight_latency_seconds_count{object="commit"}')[0][1]
        total = prometheus.query('flushlight_latency_seconds_sum{object="commit"}')[0][1]
        self.assertEqual(count, float(sums["commits"]))
        self.assertAlmostEqual(total * 1000, float(sums["commit_ms"]), delta=1e-6 * float(sums["commit_ms"]))
        self.assertEqual(prometheus.query('flushlight_latency_seconds_bucket{object="commit",le="+Inf"}')[0][1], count)
        quantile = prometheus.query('histogram_quantile(0.5, flushlight_latency_seconds_bucket{object="commit"})')[0][1] * 1000
        self.assertTrue(row["p50_commit_ms"] / 2 < quantile < row["p50_commit_ms"] * 2, (quantile, row["p50_commit_ms"]))
        self.assertEqual([value for _, value in prometheus.query('flushlight_health_info{component="daemon",state="ok"}')], [1])
        kind, = {entry["type"] for entries in json.loads(fetch(
            f"http://127.0.0.1:{prometheus.port}/api/v1/metadata?metric=flushlight_latency_seconds")[0])["data"].values() for entry in entries}
        self.assertEqual(kind, "histogram")

    def test_openmetrics_is_what_prometheus_asks_for(self):
        text, kind = fetch(self.url(), "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
        self.assertEqual(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.assertTrue(text.endswith("# EOF\n"))
        families = re.findall(r"^# TYPE (\S+) ", text, re.M)
        self.assertEqual(len(families), len(set(families)))


if __name__ == "__main__":
    if "--engines" in sys.argv and not Path(sys.argv[sys.argv.index("--engines") + 1], "prometheus/.ready").exists():
        print("SKIP: Prometheus is not unpacked: tools/fetch-engines --engine prometheus")
        sys.exit(77)
    main()
