#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What a PostgreSQL backend records: which commits, whose they are, and what must never be recorded."""
import re
import subprocess
import time

from pg_case import OPTIONS, PostgresCase, main

MARKER = "Zq7MARKERqZ"


class Probe(PostgresCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.sql("CREATE TABLE t (i int PRIMARY KEY, s text)", "CREATE TABLE wide (s text)", "CREATE SEQUENCE n",
                       "CREATE TABLE parent (i int PRIMARY KEY)",
                       "CREATE TABLE child (i int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")

    def setUp(self):
        super().setUp()
        self.db = self.session()
        self.me = self.pid(self.db)
        self.db.sql("TRUNCATE t, wide, parent, child")
        self.daemon.take()

    def commits(self, **want):
        return [r for r in self.records("commit", self.me) if all(r[k] == v for k, v in want.items())]

    def split(self):
        records = self.records(of=self.me)
        return [r for r in records if r["type"] == "commit"], [r for r in records if r["type"] == "statement"]

    def texts(self):
        if not hasattr(self, "known"):
            self.known = {}
        return self.known

    def run_and_split(self, *statements, error=False):
        self.db.sql(*statements, error=error)
        records = self.daemon.take()
        self.texts().update({r["queryid"]: r["text"] for r in records if r["type"] == "text"})
        records = [r for r in records if r.get("session") == self.me]
        return [r for r in records if r["type"] == "commit"], [r for r in records if r["type"] == "statement"]

    def test_autocommit_statement_owns_its_commit(self):
        commits, statements = self.run_and_split("INSERT INTO t VALUES (1, 'a')")
        self.assertEqual(len(commits), 1)
        self.assertEqual(len(statements), 1)
        commit, statement = commits[0], statements[0]
        self.assertEqual(commit["kind"], "statement")
        self.assertEqual(commit["queryid"], statement["queryid"])
        self.assertEqual(commit["cause"], 0)
        self.assertGreater(commit["xid"], 0)
        self.assertGreater(commit["position"], 0)
        self.assertGreater(commit["work"], 0)
        self.assertGreater(commit["duration_ns"], 0)
        self.assertGreaterEqual(statement["duration_ns"], commit["duration_ns"], "its own commit is part of its time")
        self.assertEqual(self.texts()[commit["queryid"]], "INSERT INTO t VALUES ($1, $2)")

    def test_queryid_is_the_servers_own(self):
        _, statements = self.run_and_split("SELECT s FROM t WHERE i = 42")
        plan = self.db.sql("EXPLAIN (VERBOSE) SELECT s FROM t WHERE i = 43")
        shown = int(re.search(r"Query Identifier: (-?\d+)", str(plan)).group(1))
        self.assertEqual(statements[0]["queryid"], shown % 2**64)

    def test_position_is_the_commit_record(self):
        self.db.sql("INSERT INTO t VALUES (1, 'a')")
        position = self.commits()[0]["position"]
        flushed = self.db.value("SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn")
        self.assertLessEqual(position, int(flushed))
        self.assertLess(int(flushed) - position, 65536)

    def test_xid_is_the_transactions(self):
        rows = self.db.sql("BEGIN", "INSERT INTO t VALUES (1, 'a')", "SELECT pg_current_xact_id()", "COMMIT")
        self.assertEqual(self.commits()[0]["xid"], int(rows[0][0]))

    def test_explicit_commit_names_the_statement_that_wrote_most(self):
        commits, statements = self.run_and_split("BEGIN", "INSERT INTO t VALUES (1, 'a')",
                                                 "INSERT INTO wide SELECT repeat('x', 1000) FROM generate_series(1, 50)",
                                                 "UPDATE t SET s = 'b' WHERE i = 1", "SELECT 1", "COMMIT")
        self.assertEqual(len(commits), 1)
        self.assertEqual(commits[0]["kind"], "commit")
        self.assertEqual(self.texts()[commits[0]["queryid"]], "COMMIT")
        self.assertTrue(self.texts()[commits[0]["cause"]].startswith("INSERT INTO wide"), self.texts())
        self.assertEqual([s["kind"] for s in statements], ["statement"] * 4 + ["commit"])
        self.assertGreaterEqual(commits[0]["work"], sum(s["work"] for s in statements))

    def test_reading_and_rolling_back_commit_nothing(self):
        commits, statements = self.run_and_split("SELECT 1", "BEGIN", "SELECT 2", "COMMIT", "BEGIN",
                                                 "INSERT INTO t VALUES (1, 'a')", "ROLLBACK")
        self.assertEqual(commits, [])
        self.assertEqual([s["kind"] for s in statements], ["statement", "statement", "commit", "statement"])
        self.assertFalse(any(s["failed"] for s in statements))

    def test_two_phase(self):
        commits, _ = self.run_and_split("BEGIN", "INSERT INTO t VALUES (1, 'a')", f"PREPARE TRANSACTION '{MARKER}'")
        self.assertEqual(len(commits), 1)
        self.assertTrue(commits[0]["xa"])
        self.assertEqual(commits[0]["kind"], "commit")
        self.assertGreater(commits[0]["xid"], 0)
        self.assertTrue(self.texts()[commits[0]["cause"]].startswith("INSERT INTO t"))
        first = commits[0]["queryid"]
        commits, _ = self.run_and_split(f"COMMIT PREPARED '{MARKER}'")
        self.assertEqual(len(commits), 1)
        self.assertTrue(commits[0]["xa"])
        self.assertGreater(commits[0]["position"], 0)
        commits, _ = self.run_and_split("BEGIN", "INSERT INTO t VALUES (2, 'a')", "PREPARE TRANSACTION 'other'",
                                        "ROLLBACK PREPARED 'other'")
        self.assertEqual([c["queryid"] for c in commits], [first], "another name, the same statement")
        self.assertFalse([text for text in self.texts().values() if MARKER in text])

    def test_failed_commit_prepared_is_no_commit(self):
        commits, statements = self.run_and_split("COMMIT PREPARED 'nobody'", error=True)
        self.assertEqual(commits, [])
        self.assertEqual([s["failed"] for s in statements], [True])
        commits, _ = self.run_and_split("INSERT INTO t VALUES (1, 'a')")
        self.assertEqual(len(commits), 1)

    def test_procedure_that_commits(self):
        self.db.sql("CREATE OR REPLACE PROCEDURE p(n int) LANGUAGE plpgsql AS $$ BEGIN FOR k IN 1..n LOOP "
                    "INSERT INTO t VALUES (k, 'x'); COMMIT; END LOOP; INSERT INTO t VALUES (0, 'end'); END $$")
        self.daemon.take()
        commits, statements = self.run_and_split("CALL p(5)")
        inner, last = commits[:-1], commits[-1]
        self.assertEqual(len(inner), 5)
        for commit in inner:
            self.assertTrue(commit["nested"])
            self.assertEqual(commit["kind"], "commit")
            self.assertTrue(self.texts()[commit["queryid"]].startswith("CALL p("))
        self.assertFalse(last["nested"])
        self.assertEqual(last["kind"], "statement")
        self.assertEqual(last["queryid"], inner[0]["queryid"])
        self.assertEqual([(s["kind"], s["nested"]) for s in statements], [("commit", 1)] * 5 + [("statement", 0)])
        self.assertEqual(len({c["xid"] for c in commits}), 6)

    def test_do_block_that_commits_and_rolls_back(self):
        commits, statements = self.run_and_split("DO $$ BEGIN INSERT INTO t VALUES (1, 'x'); COMMIT; INSERT INTO t VALUES (2, 'x'); "
                                                 "ROLLBACK; INSERT INTO t VALUES (3, 'x'); COMMIT; END $$")
        self.assertEqual(len(commits), 2)
        self.assertFalse(any(s["failed"] for s in statements))
        commits, _ = self.run_and_split("INSERT INTO t VALUES (4, 'x')")
        self.assertFalse(commits[0]["nested"], "the level is right again")

    def test_parallel_workers_record_nothing(self):
        self.db.sql("INSERT INTO wide SELECT repeat('x', 100) FROM generate_series(1, 20000)", "ANALYZE wide",
                    "SET max_parallel_workers_per_gather = 2", "SET parallel_setup_cost = 0", "SET parallel_tuple_cost = 0",
                    "SET min_parallel_table_scan_size = 0")
        plan = str(self.db.sql("EXPLAIN (ANALYZE) SELECT count(*) FROM wide"))
        self.assertIn("Workers Launched: 2", plan)
        self.daemon.take()
        self.db.sql("SELECT count(*) FROM wide", "CREATE TABLE copied AS SELECT s FROM wide", "DROP TABLE copied")
        records = self.records()
        self.assertEqual({r["session"] for r in records if "session" in r}, {self.me})
        self.assertEqual(len([r for r in records if r["type"] == "statement"]), 3)
        self.assertEqual(len([r for r in records if r["type"] == "commit"]), 2)

    def test_synchronous_commit_off_is_recorded(self):
        self.db.sql("SET synchronous_commit = off")
        commits, _ = self.run_and_split("INSERT INTO t VALUES (1, 'a')")
        self.assertEqual(len(commits), 1)
        self.assertLess(commits[0]["duration_ns"], 50_000_000)

    def test_a_commit_that_fails_is_none(self):
        commits, statements = self.run_and_split("BEGIN", "INSERT INTO child VALUES (7)", "COMMIT", error=True)
        self.assertEqual(commits, [])
        self.assertEqual((statements[-1]["kind"], statements[-1]["failed"]), ("commit", True))
        commits, statements = self.run_and_split("INSERT INTO child VALUES (8)", error=True)
        self.assertEqual(commits, [])
        self.assertEqual([s["failed"] for s in statements], [True])
        commits, _ = self.run_and_split("INSERT INTO t VALUES (1, 'a')")
        self.assertEqual([c["kind"] for c in commits], ["statement"])

    def test_deferred_triggers_are_not_the_clients_statements(self):
        self.db.sql("INSERT INTO parent VALUES (1)")
        self.daemon.take()
        commits, statements = self.run_and_split("BEGIN", "INSERT INTO child VALUES (1)", "COMMIT")
        self.assertEqual(len(commits), 1)
        self.assertEqual(len(statements), 2)

    def test_savepoints(self):
        commits, statements = self.run_and_split(
            "BEGIN", "INSERT INTO t VALUES (1, 'a')", "SAVEPOINT a", "INSERT INTO t VALUES (1, 'dup')", "ROLLBACK TO a",
            "INSERT INTO t VALUES (2, 'b')", "SAVEPOINT b", "INSERT INTO t VALUES (3, 'c')", "RELEASE b", "COMMIT", error=True)
        self.assertEqual(len(commits), 1)
        self.assertEqual([(s["kind"], s["failed"]) for s in statements],
                         [("statement", False), ("statement", True), ("statement", False), ("statement", False), ("commit", False)])

    def test_errors_caught_a_thousand_times_lose_nothing(self):
        self.db.sql("SET flushlight.track = 'all'")
        self.daemon.take()
        self.db.sql("DO $$ BEGIN FOR k IN 1..1000 LOOP BEGIN PERFORM 1 / (k - k); EXCEPTION WHEN division_by_zero THEN NULL; END; "
                    "END LOOP; END $$")
        self.daemon.take()
        commits, statements = self.run_and_split("SELECT (SELECT count(*) FROM t), 'x'", "INSERT INTO t VALUES (1, 'a')")
        self.assertEqual([s["nested"] for s in statements], [0, 0])
        self.assertEqual(len(commits), 1)

    def test_nested_statements_only_when_asked_for(self):
        self.db.sql("CREATE OR REPLACE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (9, 'f'); END $$")
        self.daemon.take()
        _, statements = self.run_and_split("SELECT f()")
        self.assertEqual([s["nested"] for s in statements], [0])
        self.db.sql("SET flushlight.track = 'all'", "DELETE FROM t")
        self.daemon.take()
        commits, statements = self.run_and_split("SELECT f()")
        self.assertEqual([s["nested"] for s in statements], [1, 0])
        self.assertEqual([(c["nested"], c["queryid"]) for c in commits], [(0, statements[1]["queryid"])])

    def test_prepared_statement_is_known_by_its_query(self):
        self.db.sql("PREPARE ins AS INSERT INTO t VALUES ($1, 'p')")
        commits, statements = self.run_and_split("EXECUTE ins(5)", "EXECUTE ins(6)")
        self.assertEqual(len(commits), 2)
        self.assertEqual(len({c["queryid"] for c in commits} | {s["queryid"] for s in statements}), 1)
        self.assertFalse(any(s["nested"] for s in statements))

    def test_several_statements_in_one_message(self):
        command = [*self.server.client("psql"), "-X", "-h", str(self.server.server_path("run")), "-U", "postgres", "-d", "rig", "-c",
                   "INSERT INTO wide SELECT repeat('y', 500) FROM generate_series(1, 40); INSERT INTO t VALUES (1, 'a')"]
        subprocess.run([str(part) for part in command], check=True, cwd="/", env=self.server.environment(), capture_output=True)
        self.eventually(lambda: self.daemon.sessions == 1)
        records = self.daemon.take()
        commits = [r for r in records if r["type"] == "commit"]
        texts = {r["queryid"]: r["text"] for r in records if r["type"] == "text"}
        self.assertEqual(len(commits), 1)
        self.assertEqual(commits[0]["kind"], "statement")
        self.assertTrue(texts[commits[0]["queryid"]].startswith("INSERT INTO wide"))
        self.assertEqual(len([r for r in records if r["type"] == "session_end"]), 1)

    def test_commands_that_commit_inside(self):
        commits, statements = self.run_and_split("VACUUM t", "CREATE INDEX CONCURRENTLY later ON t (s)", "DROP INDEX later")
        self.assertTrue(commits)
        self.assertEqual(len([s for s in statements if not s["nested"]]), 3)
        nested = [c for c in commits if c["nested"]]
        self.assertGreaterEqual(len(nested), 2, "CREATE INDEX CONCURRENTLY commits on its way")
        self.assertTrue(all(self.texts()[c["queryid"]].startswith(("CREATE INDEX", "VACUUM")) for c in nested))

    def test_cursors_and_held_portals(self):
        commits, statements = self.run_and_split(
            "BEGIN", "DECLARE c CURSOR WITH HOLD FOR SELECT i FROM generate_series(1, 10) i", "FETCH 2 FROM c",
            "INSERT INTO t VALUES (1, 'a')", "COMMIT", "FETCH 2 FROM c", "CLOSE c")
        self.assertEqual(len(commits), 1)
        self.assertTrue(self.texts()[commits[0]["cause"]].startswith("INSERT INTO t"))
        self.assertFalse(any(s["failed"] for s in statements))

    def test_only_sequences_or_temporary_tables(self):
        commits, _ = self.run_and_split("SELECT nextval('n')")
        self.assertLessEqual(len(commits), 1)
        commits, _ = self.run_and_split("CREATE TEMP TABLE tmp (i int)", "INSERT INTO tmp VALUES (1)")
        self.assertEqual(len(commits), 2)

    def test_session_identity_follows(self):
        self.db.sql("CREATE ROLE someone") if not self.db.sql("SELECT 1 FROM pg_roles WHERE rolname = 'someone'") else None
        self.daemon.take()
        self.db.sql("SET ROLE someone", "SELECT 1")
        self.assertEqual([r["user"] for r in self.records("session", self.me)][-1], "someone")
        self.db.sql("RESET ROLE", "SET application_name = 'billing'", "SELECT 1")
        last = self.records("session", self.me)[-1]
        self.assertEqual((last["user"], last["application"], last["database"]), ("postgres", "billing", "rig"))
        self.assertAlmostEqual(last["start_ns"] / 1e9, time.time(), delta=60)

    def test_switched_off_for_a_session(self):
        self.db.sql("SET flushlight.enabled = off")
        self.daemon.take()
        commits, statements = self.run_and_split("INSERT INTO t VALUES (1, 'a')")
        self.assertEqual((commits, statements), ([], []))
        self.db.sql("SET flushlight.enabled = on")
        commits, _ = self.run_and_split("INSERT INTO t VALUES (2, 'a')")
        self.assertEqual(len(commits), 1)
        other = self.session(user="rig")
        other.sql("SET flushlight.enabled = off", error=True)

    def test_no_query_ids_still_commits(self):
        self.db.sql("SET compute_query_id = off")
        self.daemon.take()
        commits, statements = self.run_and_split("BEGIN", "INSERT INTO t VALUES (1, 'a')", "COMMIT")
        self.assertEqual(len(commits), 1)
        self.assertEqual(len(statements), 2)

    def test_cancelled_statement(self):
        _, statements = self.run_and_split("SET statement_timeout = '50ms'", "SELECT pg_sleep(10)", error=True)
        self.db.sql("RESET statement_timeout")
        self.assertEqual([s["failed"] for s in statements][-1], True)
        self.assertGreater(statements[-1]["duration_ns"], 40_000_000)

    def test_commits_are_counted(self):
        other = self.session()
        pid = self.pid(other)
        for i in range(10):
            other.sql(f"INSERT INTO t VALUES ({i}, 'n')")
        other.close()
        before = self.daemon.commits_seen
        self.eventually(lambda: self.daemon.sessions == 1)
        self.assertEqual(len([r for r in self.records("commit") if r["session"] == pid]), 10)
        self.assertGreaterEqual(self.daemon.commits_seen, max(before, 10))

    def test_time_agrees_with_the_clients(self):
        """The window lies inside the client's own COMMIT, and most of that is the window."""
        self.db.sql("\\timing on")
        shares = []
        for i in range(30):
            self.db.sql("BEGIN", f"INSERT INTO t VALUES ({i}, 'x')")
            self.daemon.take()
            rows = self.db.sql("COMMIT")
            client_ms = float(re.search(r"Time: ([\d.]+) ms", str(rows)).group(1))
            window_ms = self.commits()[0]["duration_ns"] / 1e6
            self.assertLessEqual(window_ms, client_ms + 0.001)
            shares.append(window_ms / client_ms)
        self.db.sql("\\timing off")
        shares.sort()
        self.assertGreater(shares[15], 0.5, shares)


class Literals(PostgresCase):
    """Marker literals in every kind of statement: in no text and nowhere in shared memory."""

    STATEMENTS = [
        "SELECT '{m}' AS x -- {m}", "SELECT /* {m} */ 1", "SELECT $q${m}$q$", "SELECT E'{m}\\n', U&'{m}', N'{m}'",
        "SELECT 1 WHERE 'a' = '{m}' OR NULL", "INSERT INTO lit VALUES ('{m}', 4711{n})", "UPDATE lit SET s = s || '{m}' WHERE n = 4711{n}",
        "SELECT * FROM lit WHERE s IN ('{m}', '{m}2') LIMIT 4711{n}", "SELECT s::varchar(30) FROM lit WHERE s LIKE '%{m}%'",
        "CREATE ROLE lit_role PASSWORD '{m}'", "ALTER ROLE lit_role PASSWORD '{m}' VALID UNTIL '2030-01-01'",
        "COMMENT ON TABLE lit IS '{m}'", "DO $$ BEGIN PERFORM '{m}'; END $$", "DO LANGUAGE plpgsql 'BEGIN PERFORM ''{m}''; END'",
        "CREATE OR REPLACE FUNCTION lit_f(t text) RETURNS text LANGUAGE sql AS $$ SELECT '{m}' || t $$", "SELECT lit_f('{m}')",
        "CREATE OR REPLACE PROCEDURE lit_p(t text) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO lit VALUES (t, 1); COMMIT; END $$",
        "CALL lit_p('{m}')", "SET application_name = 'harmless'", "SET search_path = public", "SET TIME ZONE 'UTC'",
        "CREATE TABLE lit_default (s text DEFAULT '{m}', CHECK (s <> '{m}'))", "CREATE VIEW lit_v AS SELECT '{m}'::text AS x",
        "EXPLAIN SELECT '{m}'", "CREATE TABLE lit_as AS SELECT '{m}' AS x", "COPY (SELECT '{m}') TO STDOUT",
        "PREPARE lit_q AS SELECT $1 || '{m}'", "EXECUTE lit_q('{m}')", "DEALLOCATE lit_q",
        "DECLARE lit_c CURSOR WITH HOLD FOR SELECT '{m}'", "FETCH ALL FROM lit_c", "CLOSE lit_c",
        "NOTIFY lit_channel, '{m}'", "SECURITY LABEL ON TABLE lit IS '{m}'", "SELECT '{m}' FROM nowhere", "SELECT 1/0, '{m}'",
        "BEGIN; INSERT INTO lit VALUES ('{m}', 1); PREPARE TRANSACTION '{m}'", "COMMIT PREPARED '{m}'",
        "SELECT set_config('lit.x', '{m}', false)", "CREATE SERVER lit_s FOREIGN DATA WRAPPER nothing OPTIONS (password '{m}')",
        "SELECT B'1010', X'FF', '{m}'", "SELECT interval '1 day', date '2020-01-01', '{m}'::text", "SELECT \"s\" FROM lit WHERE s='{m}'",
        "SELECT '{m}' '{m}'", "SELECT '{m}'\n  '{m}'", "VALUES ('{m}'), ('{m}')", "SELECT jsonb '{{\"{m}\": 1}}' ? '{m}'",
    ]

    def test_nowhere(self):
        number = "20061234"
        for track in ("top", "all"):
            db = self.session()
            db.sql("DROP TABLE IF EXISTS lit, lit_as, lit_default", "DROP VIEW IF EXISTS lit_v", "DROP ROLE IF EXISTS lit_role",
                   "CREATE TABLE lit (s text, n bigint)", f"SET flushlight.track = '{track}'")
            for statement in self.STATEMENTS:
                try:
                    db.sql(statement.format(m=MARKER, n=number))
                except AssertionError as failure:
                    self.assertIn("ERROR", str(failure))  # some must fail; they must not leak either
            self.assertNotIn(MARKER.encode(), self.daemon.all_memory())
            self.assertNotIn(number.encode(), self.daemon.all_memory())
            records = self.daemon.take()
            self.assertNotIn(MARKER, str(records))
            texts = [r["text"] for r in records if r["type"] == "text"]
            self.assertGreater(len(texts), 30, "the texts did arrive")
            self.assertTrue([text for text in texts if text.startswith("CREATE ROLE")])


if __name__ == "__main__":
    main()
