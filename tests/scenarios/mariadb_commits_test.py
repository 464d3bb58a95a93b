# SPDX-License-Identifier: GPL-2.0-or-later
"""Every durable commit is counted once, on the right row, in every way in which a client can make one."""
import sys
import threading
import time

from maria_arguments import parse
from maria_client import Session, SqlError, load_library
from maria_rig import SCHEMA, check, private_server

VARIANTS = {
    "plain": [],
    "binlog": ["--log-bin=binlog", "--sync-binlog=1", "--server-id=1"],
    "pool": ["--thread-handling=pool-of-threads"],
    "pool-binlog": ["--thread-handling=pool-of-threads", "--log-bin=binlog", "--sync-binlog=1", "--server-id=1"],
}
ROUNDS = 25

SET_UP = [
    "CREATE TABLE u(id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT) ENGINE=InnoDB",
    "CREATE TABLE m(a INT) ENGINE=MyISAM",
    "CREATE PROCEDURE three() BEGIN INSERT INTO t(a) VALUES (1); INSERT INTO t(a) VALUES (2); INSERT INTO u(a) VALUES (3); END",
    "CREATE PROCEDURE one() BEGIN START TRANSACTION; INSERT INTO t(a) VALUES (1); UPDATE t SET a = a + 1 LIMIT 3; COMMIT; END",
    "CREATE PROCEDURE outside() BEGIN CALL three(); CALL one(); END",
    "CREATE FUNCTION f() RETURNS INT DETERMINISTIC MODIFIES SQL DATA BEGIN INSERT INTO u(a) VALUES (7); RETURN 1; END",
    "CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW SET @x = NEW.id",
]


SETTLE_S = 0.05  # the server tells the plugin of a statement's end just after it answered the client


class Rows:
    """What the statements view says about the session's user."""

    def __init__(self, session):
        self.rows = session.query(
            "SELECT kind, toplevel, query, CAST(calls AS INT), CAST(commits AS INT), CAST(caused_commits AS INT), rows_changed, "
            f"binlog_led + binlog_followed, total_commit_ms, total_exec_ms FROM {SCHEMA}STATEMENTS WHERE user_name = 'app'")

    def total(self, column, **match):
        index = {"calls": 3, "commits": 4, "caused": 5, "rows": 6, "binlog": 7}[column]
        keys = {"kind": 0, "toplevel": 1}
        return sum(int(float(row[index] or 0)) for row in self.rows
                   if all(row[keys[key]] == value for key, value in match.items() if key != "query")
                   and match.get("query", row[2]) == row[2])

    def in_commit(self, query):
        """Share of the statement's time that is its commits'."""
        return [float(row[8]) / float(row[9]) for row in self.rows if row[2] == query and float(row[9])][0]

    def __str__(self):
        return "\n".join(str(row) for row in self.rows)


class Cases:
    """Each yields (what to run, commits, checks on the rows)."""

    def __init__(self, library, server, binlog):
        self.library, self.server, self.binlog = library, server, binlog
        self.root = Session(library, server.socket)
        self.app = Session(library, server.socket, user="app")

    def run(self, name, action, commits, more=lambda rows: None):
        self.root.query("FLUSH FLUSHLIGHT_STATEMENTS")
        action()
        time.sleep(SETTLE_S)
        rows = Rows(self.root)
        seen = rows.total("commits")
        if seen != commits:
            print(rows)
        check(seen == commits, f"{name}: {seen} commits of {commits}")
        more(rows)

    def text(self):
        def action():
            for i in range(ROUNDS):
                self.app.query(f"INSERT INTO t(a, b) VALUES ({i}, 'x{i}')")

        def more(rows):
            check(rows.total("calls", query="INSERT INTO t(a, b) VALUES (...)") == ROUNDS, "one row for the statement")
            check(rows.total("rows") == ROUNDS, "rows changed")
            check(rows.total("binlog") == (ROUNDS if self.binlog else 0), "binlog roles")
            positions = [int(row[0]) for row in self.root.query(
                f"SELECT log_position FROM {SCHEMA}SLOW_COMMITS WHERE query = 'INSERT INTO t(a, b) VALUES (...)' "
                f"AND log_position IS NOT NULL ORDER BY ended_at")]
            end = int(self.root.query("SHOW MASTER STATUS")[0][1]) if self.binlog else 0
            check((max(positions) if positions else 0) == end and positions == sorted(set(positions)),
                  f"{len(positions)} positions in the binary log")
        self.run("text protocol", action, ROUNDS, more)

    def binary(self):
        execute = self.app.prepare("INSERT INTO t(a, b) VALUES (7, 'seven')")

        def action():
            for _ in range(ROUNDS):
                execute()
        self.run("binary protocol", action, ROUNDS,
                 lambda rows: check(rows.total("calls", query="INSERT INTO t(a, b) VALUES (...)") == ROUNDS, "calls"))

    def explicit(self):
        commit = self.app.prepare("COMMIT")

        def action():
            for i in range(ROUNDS):
                self.app.query("BEGIN")
                self.app.query("INSERT INTO u(a) VALUES (1)")
                self.app.query("INSERT INTO t(a) VALUES (1), (2), (3)")
                self.app.query("SELECT COUNT(*) FROM u")
                if i % 2:
                    self.app.query("COMMIT")
                else:
                    commit()

        def more(rows):
            check(rows.total("commits", kind="commit", query="COMMIT") == ROUNDS, "COMMIT has its own row")
            check(rows.total("calls", kind="commit", query="COMMIT") == ROUNDS, "and its calls")
            check(rows.total("caused", query="INSERT INTO t(a) VALUES (?)") == ROUNDS, "the largest writer caused them")
            check(rows.total("caused") == ROUNDS, "and nobody else")
        self.run("explicit COMMIT", action, ROUNDS, more)

    def autocommit_off(self):
        def action():
            self.app.query("SET autocommit = 0")
            for _ in range(ROUNDS):
                self.app.query("INSERT INTO u(a) VALUES (1)")
                self.app.query("COMMIT")
            self.app.query("INSERT INTO u(a) VALUES (1)")
            self.app.query("SET autocommit = 1")  # commits
        self.run("autocommit off", action, ROUNDS + 1)

    def nothing_durable(self):
        def action():
            for _ in range(5):
                self.app.query("BEGIN")
                self.app.query("INSERT INTO t(a) VALUES (1)")
                self.app.query("ROLLBACK")
                self.app.query("BEGIN")
                self.app.query("SELECT COUNT(*) FROM t")
                self.app.query("COMMIT")
                self.app.query("SELECT 1")
                try:
                    self.app.query("INSERT INTO t(id, a) VALUES (1, 1), (1, 1)")
                except SqlError:
                    pass
        self.run("nothing durable", action, 0)

    def logged(self):
        """Event groups in the binary log so far."""
        return int(self.root.query("SELECT @@gtid_binlog_pos")[0][0].split("-")[2]) if self.binlog else 0

    def binlog_alone(self):
        """What only the binary log writes waits for it like any commit; without it nothing is durable."""
        self.app.query("CREATE TEMPORARY TABLE temporary(a INT)")
        before = self.logged()

        def action():
            for _ in range(5):
                self.app.query("INSERT INTO m VALUES (1)")  # not InnoDB's
                self.app.query("UPDATE u SET a = 2 WHERE id = -1")  # no row, yet logged as a statement
                self.app.query("BEGIN")
                self.app.query("INSERT INTO m VALUES (1)")
                self.app.query("INSERT INTO u(a) VALUES (1)")
                self.app.query("ROLLBACK")
                self.app.query("INSERT INTO temporary VALUES (1)")
        commits = 5 * 3 if self.binlog else 0  # within a transaction it is seen too late to be recorded

        def more(rows):
            check(self.logged() - before == (5 * 4 if self.binlog else 0), "event groups")
            check(rows.total("binlog") == commits, "binlog roles")
        self.run("the binary log alone", action, commits, more)
        self.app.query("DROP TEMPORARY TABLE temporary")

    def implicit(self):
        def action():
            for i in range(5):
                self.app.query("BEGIN")
                self.app.query("INSERT INTO u(a) VALUES (1)")
                self.app.query(f"CREATE TABLE c{i}(a INT)")
                self.app.query("BEGIN")
                self.app.query("INSERT INTO u(a) VALUES (1)")
                self.app.query("BEGIN")
                self.app.query("COMMIT")
                self.app.query(f"DROP TABLE c{i}")
        self.run("implicit commits", action, 10,
                 lambda rows: check(rows.total("caused", query="INSERT INTO u(a) VALUES (?)") == 10, "with their cause"))

    def routines(self):
        def action():
            for _ in range(ROUNDS):
                self.app.query("CALL three()")

        def more(rows):
            check(rows.total("commits", toplevel="0") == 3 * ROUNDS, "in routines: not top level")
            check(rows.total("calls", query="CALL three()", toplevel="1") == ROUNDS, "the CALL itself")
            check(rows.total("rows", query="CALL three()") == 3 * ROUNDS, "rows of the CALL")
        self.run("CALL with three commits", action, 3 * ROUNDS, more)

        def action_one():
            for _ in range(ROUNDS):
                self.app.query("CALL one()")
        self.run("CALL with a transaction", action_one, ROUNDS,
                 lambda rows: check(rows.total("commits", kind="commit", toplevel="0") == ROUNDS, "its COMMIT"))
        self.run("CALL in a CALL", lambda: self.app.query("CALL outside()"), 4)
        execute = self.app.prepare("CALL three()")
        self.run("prepared CALL", lambda: [execute() for _ in range(5)], 15)
        self.run("function that writes", lambda: [self.app.query("SELECT f()") for _ in range(5)], 5)

    def several(self):
        packet = "INSERT INTO t(a) VALUES (1); SELECT 1; INSERT INTO u(a) VALUES (2);"

        def more(rows):
            check(rows.total("commits", query="INSERT INTO t(a) VALUES (?)") == ROUNDS, "first of the packet")
            check(rows.total("commits", query="INSERT INTO u(a) VALUES (?)") == ROUNDS, "last of the packet")
            check(rows.total("calls", toplevel="1") == 3 * ROUNDS, "three calls each")
        self.run("several statements in a packet", lambda: [self.app.query(packet) for _ in range(ROUNDS)], 2 * ROUNDS, more)

    def text_prepared(self):
        self.app.query("PREPARE s FROM 'INSERT INTO u(a) VALUES (?)'")
        self.app.query("SET @a = 5")
        self.run("EXECUTE", lambda: [self.app.query("EXECUTE s USING @a") for _ in range(ROUNDS)], ROUNDS,
                 lambda rows: check(rows.total("commits", query="INSERT INTO u(a) VALUES (?)") == ROUNDS, "on the inner statement"))

    def two_phase(self):
        def action():
            for i in range(ROUNDS):
                self.app.query(f"XA START 'x{i}'")
                self.app.query("INSERT INTO t(a) VALUES (1)")
                self.app.query(f"XA END 'x{i}'")
                self.app.query(f"XA PREPARE 'x{i}'")
                self.app.query(f"XA COMMIT 'x{i}'")

        def more(rows):
            check(rows.total("commits", kind="commit", query="XA PREPARE ?") == ROUNDS, "XA PREPARE")
            check(rows.total("commits", kind="commit", query="XA COMMIT ?") == ROUNDS, "XA COMMIT")
            for query in ("XA PREPARE ?", "XA COMMIT ?"):
                share = rows.in_commit(query)
                check(share > 0.75, f"{query} is nothing but a commit: {share:.2f}")
        self.run("XA", action, 2 * ROUNDS, more)

        def one_phase():
            for i in range(5):
                self.app.query(f"XA START 'y{i}'; INSERT INTO t(a) VALUES (1); XA END 'y{i}'; XA COMMIT 'y{i}' ONE PHASE")
        self.run("XA in one phase", one_phase, 5)

        def rolled_back():
            self.app.query("XA START 'z'; INSERT INTO t(a) VALUES (1); XA END 'z'; XA PREPARE 'z'; XA ROLLBACK 'z'")
        self.run("XA rolled back", rolled_back, 1)

        def by_another():
            with Session(self.library, self.server.socket, user="app") as other:
                other.query("XA START 'w'; INSERT INTO t(a) VALUES (1); XA END 'w'; XA PREPARE 'w'")
            end = time.monotonic() + 5
            while True:  # until the other connection is really gone
                try:
                    self.app.query("XA COMMIT 'w'")
                    return
                except SqlError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.02)
        self.run("XA committed by another session", by_another, 2)

    def concurrent(self):
        errors = []

        def work(number):
            try:
                with Session(self.library, self.server.socket, user="app") as session:
                    execute = session.prepare("INSERT INTO u(a) VALUES (9)")
                    for i in range(100):
                        execute() if i % 2 else session.query(f"INSERT INTO t(a) VALUES ({number})")
            except SqlError as error:
                errors.append(error)

        def action():
            threads = [threading.Thread(target=work, args=(i,)) for i in range(12)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            check(not errors, f"no client error {errors[:1]}")
        def more(_):
            if self.binlog:
                led, followed = (int(value) for value in self.root.query(
                    f"SELECT SUM(binlog_led), SUM(binlog_followed) FROM {SCHEMA}STATEMENTS WHERE user_name = 'app'")[0])
                check(led + followed == 1200 and led > 0 and followed > 0, f"binlog groups: {led} led, {followed} followed")
        self.run("twelve sessions", action, 1200, more)

    def killed(self):
        before = int(self.root.value("SELECT COUNT(*) FROM u"))
        stop = threading.Event()

        def work():
            while not stop.is_set():
                try:
                    with Session(self.library, self.server.socket, user="app") as session:
                        while not stop.is_set():
                            session.query("INSERT INTO u(a) VALUES (4)")
                except SqlError:
                    pass

        def action():
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            end = time.monotonic() + 2
            while time.monotonic() < end:
                for number, (session,) in enumerate(self.root.query("SELECT id FROM information_schema.processlist WHERE user = 'app'")):
                    if int(session) != self.app.id:
                        try:
                            self.root.query(f"KILL {'QUERY' if number % 2 else 'CONNECTION'} {session}")
                        except SqlError:
                            pass
                time.sleep(0.01)
            stop.set()
            for thread in threads:
                thread.join()
        self.root.query("FLUSH FLUSHLIGHT_STATEMENTS")
        action()
        durable = int(self.root.value("SELECT COUNT(*) FROM u")) - before
        time.sleep(SETTLE_S)
        rows = Rows(self.root)
        seen = rows.total("commits", query="INSERT INTO u(a) VALUES (?)")
        # a connection that dies between its commit and its answer has no event that ends its window
        check(0.99 * durable <= seen <= durable, f"KILL: {seen} of {durable} durable rows recorded")

    def not_understood(self):
        """What the server cannot parse is shown by nobody: an apostrophe that was not escaped turns literals into words."""
        broken = ["INSERT INTO t(b) VALUES ('O'Secret', 'Secret Street')", "secret", "SELECT 1; SELECT 'O'Secret'; SELECT 2"]

        def action():
            for sql in broken:
                try:
                    self.app.query(sql)
                    raise AssertionError(f"the server understood {sql!r}")
                except SqlError:
                    pass
            self.app.query("SELECT 'new', COUNT(*) FROM t WHERE a > 5")

        def more(rows):
            texts = [row[2] or "" for row in rows.rows]
            check(not [text for text in texts if "secret" in text.lower()], f"no literal in {texts}")
            check(rows.total("calls", query="STATEMENT WITH A SYNTAX ERROR") == len(broken), "one row for all of them")
            check("SELECT ?, COUNT(*) FROM t WHERE a > ?" in texts, "the text of what was understood is there")
        self.run("syntax errors", action, 0, more)

    def prepared_under_other_rules(self):
        def action():
            self.app.query("SET sql_mode = ''")
            executes = [self.app.prepare(sql) for sql in ("SELECT 'it\\'s secret '", 'SELECT "secret"', "SELECT 'plain'")]
            self.app.query("SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'")
            for execute in executes:
                execute()
            self.app.query("SET sql_mode = ''")

        def more(rows):
            texts = [row[2] or "" for row in rows.rows]
            check(not [text for text in texts if "secret" in text], f"no literal in {texts}")
            check("STATEMENT PREPARED UNDER ANOTHER SQL_MODE" in texts and "SELECT ?" in texts, "and the reason, where it matters only")
        self.run("prepared under another sql_mode", action, 0, more)

    def sessions(self):
        with Session(self.library, self.server.socket, user="app") as session:
            session.query("USE mysql")
            session.query("INSERT INTO d.u(a) VALUES (1)")
            time.sleep(SETTLE_S)
            found = self.root.query(f"SELECT db_name FROM {SCHEMA}STATEMENTS WHERE query = 'INSERT INTO d.u(a) VALUES (?)'")
            check(["mysql"] in found, "the database follows USE")
            self.library.mysql_change_user(session.handle, b"other", b"", b"d")
            session.query("INSERT INTO d.u(a) VALUES (1)")
            time.sleep(SETTLE_S)
            found = self.root.query(f"SELECT user_name FROM {SCHEMA}STATEMENTS WHERE query = 'INSERT INTO d.u(a) VALUES (?)'")
            check(["other"] in found, "the user follows COM_CHANGE_USER")


def main():
    arguments = parse(variants=VARIANTS)
    library = load_library(arguments.engines)
    for variant in arguments.variant:
        print(f"--- {variant}", flush=True)
        with private_server(arguments, options=VARIANTS[variant], tracing=arguments.tracing,
                            daemon_arguments=("--slow-commit-threshold-ms", "0.001")) as (server, _):
            for statement in SET_UP:
                with Session(library, server.socket) as session:
                    session.query(statement)
            server.sql("CREATE USER app@localhost; CREATE USER other@localhost; GRANT ALL ON *.* TO app@localhost; GRANT ALL ON *.* TO other@localhost")
            cases = Cases(library, server, "binlog" in variant)
            for name in ("text", "binary", "explicit", "autocommit_off", "nothing_durable", "binlog_alone", "implicit", "routines", "several",
                         "text_prepared", "two_phase", "concurrent", "killed", "not_understood",
                         "prepared_under_other_rules", "sessions"):
                if not arguments.case or name in arguments.case:
                    getattr(cases, name)()
            lost = server.value(f"SELECT SUM(lost) FROM {SCHEMA}HEALTH WHERE component = 'mariadb'")
            check(float(lost or 0) == 0, "no record lost")
            cases.app.close()
            cases.root.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
