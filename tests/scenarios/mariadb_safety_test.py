# SPDX-License-Identifier: GPL-2.0-or-later
"""What a DBA is afraid of: installing and removing under load, a daemon that dies, other users' data, temporary files."""
import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path

from maria_arguments import parse
from maria_client import Session, SqlError, load_library
from maria_rig import SCHEMA, Failure, Load, check, private_server, wait_until

MARKER = "Zq7MARKER"
VIEWS = ("STATEMENTS", "STATEMENTS_RECENT", "STATEMENTS_INFO", "SLOW_COMMITS", "THREADS", "DEVICES", "LATENCY", "JOURNALS", "PRESSURE",
         "RINGS", "REPLICATION", "ADVICE", "HEALTH")
LOAD = "INSERT INTO d.t(a, b) VALUES (@N@, 'x'); BEGIN; UPDATE d.t SET a = a + 1 WHERE id = @N@; COMMIT; " * 10
VARIANTS = {"plain": [], "pool": ["--thread-handling=pool-of-threads"],
            "binlog": ["--log-bin=binlog", "--sync-binlog=1", "--server-id=1"]}


def install_under_load(server, daemon, _):
    with Load(server, LOAD, sessions=4) as load:
        for i in range(20):
            server.sql("UNINSTALL SONAME 'flushlight'")
            wait_until(lambda: server.value("SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_library = 'flushlight.so'") == "0",
                       20, "the plugin to be gone")
            server.sql("INSTALL SONAME 'flushlight'")
            server.sql(f"SET GLOBAL flushlight_socket = '{daemon.socket}'")
            if i % 4 == 0:
                wait_until(server.attached, 10, "records after an installation")
        wait_until(server.attached, 10, "records after the last installation")
    check(not load.errors, f"INSTALL and UNINSTALL 20 times under load: {load.rounds} rounds of clients, errors: {load.errors[:1]}")
    check(server.process.poll() is None, "the server is up")
    before = server.commits()
    server.sql("".join(f"INSERT INTO d.t(a) VALUES ({i});" for i in range(50)))
    time.sleep(0.1)
    check(server.commits() == before + 50, "and every commit is counted afterwards")


def daemon_dies(server, daemon, _):
    with Load(server, LOAD, sessions=4) as load:
        for _ in range(3):
            time.sleep(0.5)
            daemon.kill()
            time.sleep(0.3)
            begin = time.monotonic()
            with_warning = server.run_sql(f"SELECT COUNT(*) FROM {SCHEMA}STATEMENTS; SHOW WARNINGS")
            took = time.monotonic() - begin
            check(with_warning.returncode == 0 and took < 1.5, f"without the daemon the table answers in {took:.2f} s")
            lines = with_warning.stdout.splitlines()
            check(lines[0] == "0" and len(lines) == 2, f"with zero rows and one warning: {lines[1:]}")
            daemon.start()
            begin = time.monotonic()
            wait_until(lambda: server.commits() > 0, 5, "statistics after the daemon's return")
            print(f"    back after {time.monotonic() - begin:.2f} s")
    check(not load.errors, f"kill -9 of the daemon under load: no client error in {load.rounds} rounds {load.errors[:1]}")


def memory_holds(pid, needle, only_files):
    """(mappings that hold it, bytes looked at)"""
    found, size = [], 0
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            addresses, rights, _, _, _, *name = line.split(maxsplit=5)
            if "r" not in rights or (only_files and not (name and "/memfd:flushlight" in name[0])):
                continue
            begin, end = (int(part, 16) for part in addresses.split("-"))
            try:
                memory.seek(begin)
                content = memory.read(end - begin)
            except (OSError, OverflowError, ValueError):
                continue
            size += len(content)
            if needle in content:
                found.append(line)
    return found, size


def markers(server, daemon, arguments):
    server.sql("CREATE USER IF NOT EXISTS app@localhost; GRANT ALL ON d.* TO app@localhost")
    library = load_library(arguments.engines)
    with Session(library, server.socket, user="app") as session:
        statements = [
            f"INSERT INTO t(b) VALUES ('{MARKER}')", f'INSERT INTO t(b) VALUES ("{MARKER}") -- {MARKER}',
            f"SELECT /* {MARKER} */ 1 # {MARKER}", f"SELECT '{MARKER}' INTO @x", f"SELECT 'it''s {MARKER}', 'a\\'{MARKER}'",
            f"SELECT '{MARKER}", f"CALL nowhere('{MARKER}')", f"PREPARE p FROM 'SELECT \"{MARKER}\"'", "EXECUTE p",
            f"EXECUTE IMMEDIATE 'INSERT INTO t(b) VALUES (''{MARKER}'')'", f"XA START '{MARKER}'", f"XA END '{MARKER}'",
            f"XA ROLLBACK '{MARKER}'", f"SELECT N'{MARKER}', _latin1'{MARKER}', x'{MARKER.encode().hex()}'",
            f"CREATE TABLE c(a INT COMMENT '{MARKER}')", f"SELECT 1; SELECT '{MARKER}'; INSERT INTO t(b) VALUES ('{MARKER}')",
            f"SET @m = '{MARKER}'", "INSERT INTO t(b) VALUES (@m)",
        ]
        for statement in statements:
            try:
                session.query(statement)
            except SqlError:
                pass
        session.prepare(f"INSERT INTO t(b) VALUES ('{MARKER}')")()
        session.query("SET NAMES gbk")
        session.query(b"SELECT '\xbf\\', '" + MARKER.encode() + b"'")  # in GBK the backslash is half of a character
        session.query("SET NAMES latin1")
        session.query(b"SELECT '\xe9" + MARKER.encode() + b"'")
        for statement in (f"CREATE USER '{MARKER}x'@localhost IDENTIFIED BY '{MARKER}'", f"SET PASSWORD FOR app@localhost = PASSWORD('{MARKER}')"):
            server.run_sql(statement)
        server.run_sql("SET PASSWORD FOR app@localhost = ''")
    time.sleep(0.3)
    for view in VIEWS:
        text = server.run_sql(f"SELECT * FROM {SCHEMA}{view}").stdout
        check(MARKER not in text, f"no literal in {view}")
    check(MARKER.encode() not in daemon.log.read_bytes(), "nor in the daemon's log")
    check(not any(MARKER in line for line in server.log_text().splitlines() if "flushlight" in line), "nor in the plugin's log lines")
    for pid, what in ((server.process.pid, "memory files of the server"), (daemon.process.pid, "all memory of the daemon")):
        found, size = memory_holds(pid, MARKER.encode(), only_files=pid == server.process.pid)
        check(size > 65536 and not found, f"nor in {what}: {size} bytes, {found}")
    seen = server.sql(f"SELECT COUNT(*) FROM {SCHEMA}STATEMENTS WHERE query = 'INSERT INTO t(b) VALUES (?)' AND commits > 0")
    check(seen == [["1"]], "while the statements themselves are there")


def rights(server, _daemon, arguments):
    server.sql("CREATE USER IF NOT EXISTS app@localhost; GRANT ALL ON d.* TO app@localhost; CREATE USER IF NOT EXISTS low@localhost; GRANT SELECT, INSERT ON d.* TO low@localhost")
    library = load_library(arguments.engines)
    with Session(library, server.socket, user="low") as low, Session(library, server.socket, user="app") as app:
        app.query("INSERT INTO t(a) VALUES (1)")
        low.query("INSERT INTO t(b) VALUES ('x')")
        time.sleep(0.1)
        rows = low.query(f"SELECT user_name, query FROM {SCHEMA}STATEMENTS")
        check(any(user == "app" for user, _ in rows), "without PROCESS the rows of others are there")
        check(all(query == "<insufficient privilege>" for user, query in rows if user not in ("low", None)), "but not their texts")
        check(["low", "INSERT INTO t(b) VALUES (?)"] in rows, "while own texts are")
        try:
            low.query("FLUSH FLUSHLIGHT_STATEMENTS")
            raise Failure("FLUSH without RELOAD is refused")
        except SqlError as error:
            check("RELOAD" in str(error), "FLUSH needs RELOAD")
    check(any(row[0] == "app" for row in server.sql(f"SELECT user_name, query FROM {SCHEMA}STATEMENTS WHERE query LIKE 'INSERT INTO t(a)%'")),
          "with PROCESS all texts are shown")
    server.sql("FLUSH FLUSHLIGHT_STATEMENTS")
    time.sleep(0.1)
    check(server.commits() == 0, "FLUSH resets")


def temporary_tables(server, _daemon, _arguments):
    # each a statement of its own: hundreds of rows
    server.sql("".join(f"SELECT 1 AS c{i:04d} FROM d.t AS some_long_alias_{i:04d}_{'x' * 120} LIMIT 1;" for i in range(1500)))
    time.sleep(0.5)
    rows = server.sql(f"""SELECT COUNT(*) FROM {SCHEMA}STATEMENTS; {' '.join(f'SELECT * FROM {SCHEMA}{view};' for view in VIEWS)}
        SELECT db_name, user_name, queryid, query FROM {SCHEMA}STATEMENTS_RECENT WHERE kind = 'statement' ORDER BY total_commit_ms DESC LIMIT 10;
        SHOW SESSION STATUS LIKE 'Created_tmp%disk_tables'""")
    check(int(rows[0][0]) > 1000, f"{rows[0][0]} statements")
    check(rows[-1] == ["Created_tmp_disk_tables", "0"], f"no temporary table on disk: {rows[-1]}")


def switched_off(server, _daemon, _arguments):
    server.sql("SET GLOBAL flushlight_enabled = OFF")
    rows = server.sql(f"SELECT COUNT(*) FROM {SCHEMA}STATEMENTS; SHOW WARNINGS")
    check(rows[0] == ["0"] and len(rows) == 2, f"off: no rows and one warning {rows[1:]}")
    server.sql("SET GLOBAL flushlight_enabled = ON")
    before = server.commits()
    server.sql("INSERT INTO d.t(a) VALUES (1)")
    time.sleep(0.1)
    check(server.commits() == before + 1, "on again")


def daemon_hangs(server, daemon, _arguments):
    with Load(server, LOAD, sessions=2) as load:
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            for _ in range(2):
                begin = time.monotonic()
                rows = server.sql(f"SELECT COUNT(*) FROM {SCHEMA}STATEMENTS; SHOW WARNINGS")
                took = time.monotonic() - begin
                check(rows[0] == ["0"] and len(rows) == 2 and took < 1.5, f"a hung daemon: {took:.2f} s, {rows[1:]}")
            rounds = load.rounds
            wait_until(lambda: load.rounds > rounds + 4, 10, "clients to go on")
        finally:
            daemon.process.send_signal(signal.SIGCONT)
    check(not load.errors, "clients see nothing of it")
    wait_until(server.attached, 5, "records after it woke up")


def commits_without_daemon(server, daemon, _arguments):
    """Each commit is in `commits` or, made while the daemon did not answer, in `missed`: of both kinds, none twice."""
    def missed():
        return int(server.value(f"SELECT missed FROM {SCHEMA}HEALTH WHERE component = 'mariadb'"))

    def insert(rounds):
        server.sql("".join(f"INSERT INTO d.t(a) VALUES ({i}); BEGIN; UPDATE d.t SET a = a + 1 LIMIT 1; COMMIT;"
                           for i in range(rounds)))
        return rounds * 2

    made = insert(20)
    time.sleep(0.1)
    missed_before = missed()
    before = server.commits() + missed_before - made
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        made += insert(20)  # into the rings: it has not been silent for long enough
        time.sleep(2.5)
        made += insert(30)
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    wait_until(server.attached, 5, "records after it woke up")
    time.sleep(2.5)
    made += insert(10)
    time.sleep(0.2)
    check(missed() - missed_before == 60, f"{missed() - missed_before} commits missed of 60 made without the daemon")
    counted = server.commits() + missed() - before
    check(counted == made, f"{counted} commits counted of {made}")


def other_version(server, daemon, arguments):
    """A library for another server version: refused as a whole, nothing wrapped, and no obstacle to the right one."""
    server.sql("UNINSTALL SONAME 'flushlight'")
    refused = Path(arguments.plugin).with_name("flushlight_refused.so")
    shutil.copy2(refused, server.plugins)
    before = len(server.log_text())
    result = server.run_sql("INSTALL SONAME 'flushlight_refused'")
    check(result.returncode != 0, f"a plugin for another version is refused: {result.stderr.splitlines()[-1]}")
    lines = [line for line in server.log_text()[before:].splitlines() if "flushlight: " in line]
    check(len(lines) == 1 and "10.11.99" in lines[0] and "10.11.18" in lines[0], f"one clear line: {lines}")
    active = server.value("SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name LIKE 'FLUSHLIGHT%'")
    check(active == "0", "no half of it is there")
    server.sql("INSERT INTO d.t(a) VALUES (1)")
    server.install(daemon.socket)
    wait_until(server.attached, 10, "the right one to work")


def columns(server, _daemon, _arguments):
    """Names and order are those of abi/views.def."""
    definition = (Path(__file__).resolve().parents[2] / "abi/views.def").read_text()
    macros = {}
    for name, body in re.findall(r"#define (FL_\w+_COLUMNS)\(view\)((?:.*\\\n)+.*\n)", definition):
        macros[name] = body
    def expand(text):
        found = []
        for macro, column in re.findall(r"(FL_ACCOUNT_COLUMNS|FL_STATEMENT_COLUMNS)\(\w+\)|FL_COLUMN\(\w+, (\w+),", text):
            found += expand(macros[macro]) if macro else [column]
        return found
    for view in VIEWS:
        block = definition.split(f"FL_VIEW({view.lower()},", 1)[1].split("FL_VIEW(", 1)[0].split("#undef")[0]
        expected = expand(block)
        got = [row[0] for row in server.sql(
            f"SELECT column_name FROM information_schema.columns WHERE table_name = 'FLUSHLIGHT_{view}' ORDER BY ordinal_position")]
        check(got == expected, f"{view}: {len(got)} columns")


def start_with_plugin(server, daemon, _arguments):
    server.stop()
    server.start(f"--flushlight-socket={daemon.socket}")
    wait_until(server.attached, 10, "records after a restart with the plugin in mysql.plugin")
    server.sql("INSERT INTO d.t(a) VALUES (1)")
    time.sleep(0.1)
    check(server.commits() >= 1, "after a restart of the server the plugin is there again")
    server.stop()
    (server.folder / "mariadb.sock").unlink(missing_ok=True)
    server.start(f"--flushlight-socket={daemon.socket}")


CASES = (columns, rights, markers, switched_off, temporary_tables, daemon_dies, daemon_hangs, commits_without_daemon,
         install_under_load, other_version, start_with_plugin)


def main():
    arguments = parse(variants=VARIANTS)
    for variant in arguments.variant:
        print(f"--- {variant}", flush=True)
        with private_server(arguments, options=VARIANTS[variant], tracing=arguments.tracing) as (server, daemon):
            for case in CASES:
                if not arguments.case or case.__name__ in arguments.case:
                    case(server, daemon, arguments)
            check(server.process.poll() is None, "the server is up")
    return 0


if __name__ == "__main__":
    sys.exit(main())
