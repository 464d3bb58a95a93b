#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""PostgreSQL with the real flushlightd, asked through the SQL views: rights, literals, read your writes, a daemon killed
under load. Needs root (BPF); on the plain disk, so it says nothing about causes beyond their sums."""
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rig"))
from daemon import Daemon  # noqa: E402
from pg_case import OPTIONS, PostgresCase, main  # noqa: E402
from pg_daemon_test import Load  # noqa: E402
from pg_probe_test import MARKER, Literals  # noqa: E402

CAUSES = "oncpu flush write read queue throttle cpu replication lock idle other".split()
PATHS = "self journal peer".split()


class Full(PostgresCase):
    with_fake_daemon = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.flushlightd = Daemon(OPTIONS.build, cls.socket.parent, cls.disk.registry).start()
        cls.addClassCleanup(cls.flushlightd.stop)
        cls.server.sql("CREATE TABLE t (i int, s text)")
        subprocess.run([str(p) for p in cls.server.pgbench("-i", "-q", "-s", "2")], check=True, cwd="/", env=cls.server.environment(),
                       capture_output=True)

    def setUp(self):
        self.server.sql("SELECT flushlight.reset()")

    def health(self, component):
        return self.server.sql(f"SELECT * FROM flushlight.health WHERE component = '{component}'")[0]

    def statements(self, where="true"):
        return self.server.sql(f"SELECT * FROM flushlight.statements WHERE {where} ORDER BY total_commit_ms DESC")

    def test_a_commit_is_seen_by_the_next_query(self):
        db = self.session()
        for i in range(1, 51):
            db.sql(f"INSERT INTO t VALUES ({i}, 'x')")
            seen = db.value("SELECT sum(commits) FROM flushlight.statements WHERE query LIKE 'INSERT INTO t %'")
            self.assertEqual(int(seen), i)

    def test_accounts_close(self):
        db = self.session()
        for i in range(20):
            db.sql("BEGIN", f"INSERT INTO t VALUES ({i}, 'x')", "UPDATE t SET s = 'y' WHERE i = 0", "COMMIT", f"INSERT INTO t VALUES ({i}, 'z')")
        rows = self.statements("commits > 0")
        self.assertEqual({(row["kind"], row["commits"]) for row in rows}, {("commit", 20), ("statement", 20)})
        for row in rows:
            self.assertEqual(row["coverage"], 1)
            wall = row["total_commit_ms"]
            for names in (CAUSES, PATHS):
                self.assertAlmostEqual(sum(row[f"{name}_ms"] for name in names) / wall, 1, delta=0.01, msg=row)
            self.assertEqual(row["led"] + row["followed"] + row["unsynced"], row["commits"])
        caused = self.statements("caused_commits > 0")
        self.assertEqual([row["caused_commits"] for row in caused], [20])

    def test_asynchronous_commits_are_unsynced(self):
        db = self.session()
        db.sql("SET synchronous_commit = off")
        self.server.sql("SELECT flushlight.reset()")
        for i in range(20):
            db.sql(f"INSERT INTO t VALUES ({i}, 'async')")
        row = self.statements("query LIKE 'INSERT INTO t %'")[0]
        self.assertEqual((row["commits"], row["unsynced"]), (20, 20))

    def test_waiting_for_a_standby_is_replication(self):
        db = self.session()
        self.server.setting("synchronous_standby_names", "nobody")
        self.addCleanup(self.server.setting, "synchronous_standby_names", None)
        self.eventually(lambda: db.value("SHOW synchronous_standby_names") == "nobody")
        timer = threading.Timer(0.7, self.server.setting, ("synchronous_standby_names", None))
        self.server.sql("SELECT flushlight.reset()")
        timer.start()
        db.sql("INSERT INTO t VALUES (1, 'waits')")
        timer.join()
        row = self.statements("query LIKE 'INSERT INTO t %'")[0]
        self.assertGreater(row["replication_ms"], 400, row)
        self.assertGreater(row["replication_ms"] / row["total_commit_ms"], 0.9, row)

    def test_coverage_under_load(self):
        code, out = Load(self.server, "-c", "8", "-T", "4").result()
        self.assertEqual(code, 0, out)
        row = self.health("postgresql")
        self.assertEqual(row["lost"], 0, row)
        self.assertGreaterEqual(row["coverage"], 0.99)
        done = int(out.split("transactions actually processed: ")[1].split()[0].split("/")[0])
        recorded = sum(row["commits"] for row in self.statements())
        self.assertEqual(recorded, done)

    def test_killed_under_load_and_back(self):
        load = Load(self.server, "-c", "4", "-T", "9")
        time.sleep(1.5)
        self.flushlightd.kill()
        db = self.session()
        begin = time.monotonic()
        self.assertEqual(db.sql("SELECT * FROM flushlight.statements"), [])
        self.assertLess(time.monotonic() - begin, 1)
        self.assertEqual(len([notice for notice in db.notices if notice.startswith("WARNING")]), 1)
        time.sleep(1)
        self.flushlightd.start()
        back = time.monotonic()
        self.eventually(lambda: sum(row["commits"] for row in self.statements("kind = 'commit' OR query LIKE 'UPDATE%'")) > 0, seconds=6)
        self.assertLess(time.monotonic() - back, 5)
        code, out = load.result()
        self.assertEqual(code, 0, out)
        self.assertIn("number of failed transactions: 0", out)
        self.assertTrue(self.statements("query LIKE 'UPDATE pgbench_accounts%'"))

    def test_rights(self):
        db = self.session()
        db.sql("DROP ROLE IF EXISTS ordinary, watcher", "CREATE ROLE ordinary LOGIN", "CREATE ROLE watcher LOGIN IN ROLE pg_read_all_stats",
               "GRANT ALL ON t TO ordinary", "INSERT INTO t VALUES (1, 'theirs')")
        ordinary = self.session(user="ordinary")
        ordinary.sql("DELETE FROM t WHERE i = 99")
        query = "SELECT user_name, query FROM flushlight.statements WHERE query IS NOT NULL ORDER BY 1, 2"
        seen = ordinary.sql(query)
        self.assertEqual({text for user, text in seen if user != "ordinary"}, {"<insufficient privilege>"})
        self.assertIn(["ordinary", "DELETE FROM t WHERE i = $1"], seen)
        self.assertIn(["postgres", "INSERT INTO t VALUES ($1, $2)"], self.session(user="watcher").sql(query))
        hidden = ordinary.sql("SELECT query FROM flushlight.slow_commits UNION ALL SELECT query FROM flushlight.threads WHERE user_name = 'postgres'")
        self.assertLessEqual({row[0] for row in hidden}, {"<insufficient privilege>", ""})

    def test_literals_are_in_no_view_log_or_memory(self):
        db = self.session()
        db.sql("CREATE TABLE lit (s text, n bigint)", "SET log_min_error_statement = panic")
        for statement in Literals.STATEMENTS:
            try:
                db.sql(statement.format(m=MARKER, n="20061234"))
            except AssertionError as failure:
                self.assertIn("ERROR", str(failure))
        time.sleep(0.5)
        for view in ("statements", "statements_recent", "slow_commits", "threads", "health"):
            self.assertNotIn(MARKER, str(self.server.sql(f"SELECT * FROM flushlight.{view}")), view)
        self.assertGreater(len(self.statements("query LIKE 'CREATE ROLE%'")), 0)
        self.assertNotIn(MARKER, self.flushlightd.log.read_text())
        self.assertFalse(self.memory_contains(self.flushlightd.process.pid, MARKER.encode()))

    @staticmethod
    def memory_contains(pid, marker):
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for line in maps:
                span, rights = line.split()[:2]
                if not rights.startswith("r") or "[v" in line:
                    continue
                begin, end = (int(part, 16) for part in span.split("-"))
                try:
                    memory.seek(begin)
                    if marker in memory.read(end - begin):
                        return True
                except (OSError, ValueError, OverflowError):
                    continue  # a hole, or a map that cannot be read this way
        return False

    def test_reset_forgets_what_it_was_told_to(self):
        db = self.session()
        db.sql("INSERT INTO t VALUES (1, 'a')", "DELETE FROM t WHERE i = 1")
        row = self.statements("query LIKE 'DELETE FROM t %'")[0]
        db.sql(f"SELECT flushlight.reset(0, 0, {row['queryid']})")
        self.assertEqual(self.statements("query LIKE 'DELETE FROM t %'"), [])
        self.assertTrue(self.statements("query LIKE 'INSERT INTO t %'"))

    def test_view_queryid_joins_the_servers(self):
        db = self.session()
        db.sql("SELECT count(*) FROM t WHERE i = 5")
        plan = str(db.sql("EXPLAIN (VERBOSE) SELECT count(*) FROM t WHERE i = 6"))
        self.assertIn(f"Query Identifier: {self.statements('query LIKE $$SELECT count(*) FROM t%$$')[0]['queryid']}", plan)


if __name__ == "__main__":
    main()
