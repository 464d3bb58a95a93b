#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""PostgreSQL and its daemon: absent, hung, killed and back, switched on and off by a reload; views and rights."""
import re
import struct
import subprocess
import threading
import time

import fake_daemon
from pg_case import PostgresCase, main


def cell(kind, fmt, *values):
    return bytes([kind]) + struct.pack("<" + fmt, *values)


def text_cell(text):
    return bytes([3]) + struct.pack("<I", len(text.encode())) + text.encode()


def rows_packet(*rows):
    return fake_daemon.message(fake_daemon.ROWS, struct.pack("<II", len(rows), 0) + b"".join(rows))


class Load:
    """pgbench in the background; `result()` waits for it and returns what it said."""

    def __init__(self, server, *arguments):
        command = [str(part) for part in server.pgbench("-n", "-M", "prepared", *arguments)]
        self.process = subprocess.Popen(command, cwd="/", env=server.environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def result(self, timeout=60):
        out = self.process.communicate(timeout=timeout)[0]
        return self.process.returncode, out


class Daemon(PostgresCase):
    with_fake_daemon = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run([str(p) for p in cls.server.pgbench("-i", "-q", "-s", "2")], check=True, cwd="/", env=cls.server.environment(),
                       capture_output=True)

    def fake(self, **kw):
        daemon = fake_daemon.FakeDaemon(self.socket, **kw).start()
        self.addCleanup(daemon.stop)
        return daemon

    def timed(self, session, statement, error=False):
        begin = time.monotonic()
        rows = session.sql(statement, error=error)
        return rows, time.monotonic() - begin

    def test_absent_one_warning_no_rows_within_a_second(self):
        db = self.session()
        db.sql("CREATE TABLE IF NOT EXISTS a (i int)", "INSERT INTO a VALUES (1)")
        for view in ("statements", "statements_recent", "statements_info", "slow_commits", "threads", "devices", "latency", "health"):
            rows, seconds = self.timed(db, f"SELECT * FROM flushlight.{view}")
            self.assertEqual(rows, [])
            warnings = [notice for notice in db.notices if notice.startswith("WARNING")]
            self.assertEqual(len(warnings), 1, db.notices)
            self.assertIn("flushlightd", warnings[0])
            self.assertLess(seconds, 1)

    def test_hung_daemon_costs_a_second_and_no_more(self):
        self.fake(hang=True)
        begin = time.monotonic()
        db = self.session()
        db.sql("SELECT 1")
        self.assertLess(time.monotonic() - begin, 1, "a login waits 100 ms")
        rows, seconds = self.timed(db, "SELECT * FROM flushlight.statements")
        self.assertEqual((rows, len(db.notices)), ([], 1))
        self.assertLess(seconds, 1.05)
        db.sql("SET statement_timeout = '200ms'")
        _, seconds = self.timed(db, "SELECT * FROM flushlight.statements", error=True)
        self.assertIn("statement timeout", db.notices[0])
        self.assertLess(seconds, 0.5)

    def test_daemon_that_dies_and_returns_under_load(self):
        daemon = self.fake()
        load = Load(self.server, "-c", "4", "-T", "9", "-P", "1")
        time.sleep(2)
        self.assertGreater(len(daemon.take("commit")), 20)
        daemon.stop()
        time.sleep(2.5)
        daemon.start()
        back = time.monotonic()
        self.eventually(lambda: daemon.sessions == 4, seconds=5)
        daemon.take()
        self.eventually(lambda: daemon.take("commit"), seconds=5)
        self.assertLess(time.monotonic() - back, 5)
        code, out = load.result()
        self.assertEqual(code, 0, out)
        self.assertIn("number of failed transactions: 0", out)
        rates = [float(rate) for rate in re.findall(r"([\d.]+) tps", out)]
        self.assertGreater(min(rates), 0, out)

    def test_texts_of_statements_prepared_before_the_daemon_came(self):
        load = Load(self.server, "-c", "1", "-T", "6")
        time.sleep(1)
        daemon = self.fake()
        self.eventually(lambda: daemon.sessions == 1, seconds=5)
        time.sleep(1)
        records = daemon.take()
        texts = {record["queryid"]: record["text"] for record in records if record["type"] == "text"}
        commits = [record for record in records if record["type"] == "commit"]
        self.assertTrue(commits)
        self.assertIn("session", {record["type"] for record in records[:2]}, "identity comes first")
        for record in commits:
            self.assertIn(record["queryid"], texts)
        self.assertTrue([text for text in texts.values() if text.startswith("UPDATE pgbench_accounts")])
        self.assertEqual(load.result()[0], 0)

    def test_daemon_that_stops_beating_is_left_and_found_again(self):
        daemon = self.fake()
        db = self.session()
        pid = self.pid_of(db)
        self.eventually(lambda: daemon.sessions >= 1)
        daemon.stop()
        for _ in range(8):
            db.sql("INSERT INTO pgbench_history VALUES (1, 1, 1, 1, now())")
            time.sleep(0.3)
        daemon.start()
        deadline = time.monotonic() + 5
        commits = []
        made = 8
        while not commits and time.monotonic() < deadline:
            db.sql("INSERT INTO pgbench_history VALUES (1, 1, 1, 1, now())")
            made += 1
            commits = [record for record in daemon.take("commit") if record["session"] == pid]
            time.sleep(0.05)
        self.assertTrue(commits)
        self.assertGreater(daemon.missed(), 0)
        self.assertLessEqual(daemon.missed() + len(commits), made)

    @staticmethod
    def pid_of(session):
        return int(session.value("SELECT pg_backend_pid()"))

    def test_on_and_off_by_reload_under_load(self):
        daemon = self.fake()
        stop = threading.Event()
        results = []

        def reconnecting():
            while not stop.is_set():
                load = Load(self.server, "-C", "-c", "3", "-t", "20")
                results.append(load.result())

        thread = threading.Thread(target=reconnecting)
        thread.start()
        try:
            for _ in range(10):
                # another library: an empty list set by ALTER SYSTEM means a library without a name
                self.server.setting("session_preload_libraries", "auto_explain")
                time.sleep(0.3)
                daemon.take()
                self.server.setting("session_preload_libraries", "flushlight")
                self.eventually(lambda: daemon.take("commit"), seconds=5)
        finally:
            stop.set()
            thread.join()
            self.server.setting("session_preload_libraries", None)
        self.assertTrue(results)
        for code, out in results:
            self.assertEqual(code, 0, out)

    def test_socket_setting_moves_a_session(self):
        first = self.fake()
        db = self.session()
        pid = self.pid_of(db)
        self.eventually(lambda: first.sessions == 1)
        other = fake_daemon.FakeDaemon(self.socket.with_name("other.sock")).start()
        self.addCleanup(other.stop)
        path = str(self.server.server_path("daemon")) + "/other.sock"
        self.server.setting("flushlight.socket", f"'{path}'")
        self.addCleanup(lambda: self.server.setting("flushlight.socket", None))

        def moved():
            db.sql("INSERT INTO pgbench_history VALUES (1, 1, 1, 1, now())")
            return [record for record in other.take("commit") if record["session"] == pid]
        self.eventually(moved)

    def test_killed_backend_leaves_the_rest_alone(self):
        daemon = self.fake()
        victim, db = self.session(), self.session()
        pid = self.pid_of(victim)
        db.sql(f"SELECT pg_terminate_backend({pid})")
        self.eventually(lambda: "session_end" in {record["type"] for record in daemon.take() if record.get("session") == pid})
        db.sql("INSERT INTO pgbench_history VALUES (1, 1, 1, 1, now())")
        self.assertEqual(len(daemon.take("commit")), 1)

    def test_view_cells_of_every_type(self):
        columns = ("instance", "userid", "kind", "total_commit_ms", "stats_since", "query", "flush_ms")
        row = (text_cell("älpha") + cell(1, "q", -7) + text_cell("commit") + cell(2, "d", 1.25) +
               cell(4, "q", 1_600_000_000_123_456_789) + text_cell("SELECT $1") + b"\0")
        daemon = self.fake(answers=[rows_packet(row), rows_packet(row), fake_daemon.end(rows=2)])
        db = self.session()
        db.sql("SET timezone = 'UTC'")
        rows = db.sql(f"SELECT * FROM flushlight.view_rows('statements') AS (instance text, userid bigint, kind text, "
                      "total_commit_ms float8, stats_since timestamptz, query text, flush_ms float8)")
        self.assertEqual(rows, [["älpha", "-7", "commit", "1.25", "2020-09-13 12:26:40.123456+00", "SELECT $1", ""]] * 2)
        self.assertEqual(daemon.queries[-1]["columns"], list(columns))

    def test_broken_answers_are_a_warning(self):
        for answer, says in ((fake_daemon.end(status=13, text=b"not \xff\n for you"), "not ?? for you"), (b"garbage garbage garbage", "protocol"),
                             (fake_daemon.message(fake_daemon.ROWS), "broken")):
            daemon = fake_daemon.FakeDaemon(self.socket, answers=[answer]).start()
            try:
                db = self.session()
                self.assertEqual(db.sql("SELECT * FROM flushlight.health"), [])
                self.assertEqual(len(db.notices), 1)
                self.assertIn(says, db.notices[0])
            finally:
                daemon.stop()

    def test_a_text_that_is_no_utf8_does_no_harm(self):
        self.fake(answers=[rows_packet(bytes([3]) + struct.pack("<I", 3) + b"a\xff\0"), fake_daemon.end(rows=1)])
        rows = self.session().sql("SELECT * FROM flushlight.view_rows('health') AS (detail text)")
        self.assertEqual(rows, [["a?"]])

    def test_no_encoding_ends_a_statement_or_a_view(self):
        """What has no equal in UTF-8, or in the database's encoding, is shown as '?'; nothing fails because of it."""
        db = self.session()
        for name, encoding, byte in (("ascii", "SQL_ASCII", 252), ("win", "WIN1252", 129), ("latin", "LATIN1", 252)):
            db.sql(f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name} ENCODING {encoding} LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
            answer = [rows_packet(text_cell("日本 a")), fake_daemon.end(rows=1)]
            daemon = fake_daemon.FakeDaemon(self.socket, answers=answer).start()
            try:
                with self.server.psql(database=name) as other:
                    other.sql("CREATE EXTENSION flushlight", "SET flushlight.track = 'all'",
                              f"DO $$BEGIN EXECUTE format('SELECT 1 AS \"x%sy\"', chr({byte})); END$$",
                              f"DO $$BEGIN EXECUTE format('CREATE TABLE \"x%sy\" (a int)', chr({byte})); END$$")
                    texts = [record["text"] for record in daemon.take("text")]
                    self.assertTrue([text for text in texts if text.startswith("CREATE TABLE ")], texts)
                    rows = other.sql("SELECT * FROM flushlight.view_rows('health') AS (detail text)")
                    self.assertEqual(rows, [["日本 a" if name == "ascii" else "?? a"]])
            finally:
                daemon.stop()

    def test_rights(self):
        daemon = self.fake()
        db = self.session()
        db.sql("DROP ROLE IF EXISTS nobody_special, watcher", "CREATE ROLE nobody_special LOGIN",
               "CREATE ROLE watcher LOGIN IN ROLE pg_read_all_stats")
        for user, see_all in (("nobody_special", 0), ("watcher", 1), ("postgres", 1)):
            other = self.session(user=user)
            other.sql("SELECT count(*) FROM flushlight.statements")
            self.assertEqual((daemon.queries[-1]["user"], daemon.queries[-1]["see_all"]), (user, see_all))
            other.sql("SELECT flushlight.reset()", error=user != "postgres")
            self.assertEqual(daemon.queries[-1]["view"], "statements")
        db.sql("SET ROLE nobody_special", "SELECT count(*) FROM flushlight.threads")
        self.assertEqual((daemon.queries[-1]["user"], daemon.queries[-1]["see_all"]), ("nobody_special", 0))
        # a function of somebody else's does not lend its owner's sight
        db.sql("RESET ROLE", "SELECT flushlight.reset(1, 2, -3, true)")
        code, flags, instance, userid, dbid, queryid = daemon.commands[-1]
        self.assertEqual((code, flags, userid, dbid, queryid), (3, 1, 1, 2, 2**64 - 3))
        self.assertTrue(instance.rstrip(b"\0"))

    def test_upgrade_script_makes_what_install_makes(self):
        catalog = ("SELECT string_agg(x, E'\\n' ORDER BY x) FROM (SELECT c.relname || ' ' || a.attname || ' ' || format_type(a.atttypid, -1) "
                   "|| ' ' || coalesce(col_description(c.oid, a.attnum), 'no comment') || ' ' || coalesce(c.relacl::text, 'no rights') "
                   "FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relnamespace = 'flushlight'::regnamespace "
                   "AND a.attnum > 0 UNION ALL SELECT proname || ' ' || pg_get_function_arguments(oid) || coalesce(proacl::text, '') "
                   "FROM pg_proc WHERE pronamespace = 'flushlight'::regnamespace) AS _ (x)")
        self.fake()
        db = self.session()
        installed = db.sql(catalog)
        self.assertGreater(len(installed), 100)
        self.assertNotIn("no comment", str(installed))
        db.sql("DROP EXTENSION flushlight", "CREATE EXTENSION flushlight VERSION '0.0'")
        self.assertEqual(db.value("SELECT count(*) FROM pg_class WHERE relnamespace = 'flushlight'::regnamespace"), "0")
        db.sql("ALTER EXTENSION flushlight UPDATE")
        self.assertEqual(db.sql(catalog), installed)

    def test_pg_stat_statements_has_the_same_ids(self):
        daemon = self.fake()
        db = self.session()
        self.assertTrue(db.sql("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_stat_statements'"),
                        "pg_stat_statements is not unpacked: tools/fetch-engines")
        db.sql("LOAD 'auto_explain'")
        db.sql("SET auto_explain.log_min_duration = 0", "SELECT 'other hooks', count(*) FROM pgbench_branches")
        self.assertTrue([record for record in daemon.take("text") if record["text"].startswith("SELECT $1, count(*)")])


if __name__ == "__main__":
    main()
