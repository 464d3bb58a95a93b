# SPDX-License-Identifier: GPL-2.0-or-later
"""A replica's applier threads: their commits are counted, serial and parallel, row and statement format.

The server tells an audit plugin nothing about the end of what they run, so this is a path of its own.
With --tracing also: the wait for a semi-synchronous replica is `replication`.
"""
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

from maria_arguments import parse
from maria_client import Session, load_library
from maria_rig import SCHEMA, Daemon, Server, check, wait_until

ROUNDS = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def server_of(folder, arguments, number, port, *more):
    folder = Path(folder) / f"s{number}"
    folder.mkdir()
    return Server(folder, arguments.engines, arguments.plugin,
                  ["--skip-networking=0", "--bind-address=127.0.0.1", f"--port={port}", f"--server-id={number}", "--sync-binlog=1",
                   "--log-bin=binlog", *more]).create()


def caught_up(primary, replica):
    return primary.value("SELECT COUNT(*), SUM(a) FROM d.t") == replica.value("SELECT COUNT(*), SUM(a) FROM d.t") and \
        primary.value("SELECT @@gtid_binlog_pos") == replica.value("SELECT @@gtid_slave_pos")


def applied(primary, replica, library, row_format, threads, tracing):
    replica.sql(f"STOP SLAVE; SET GLOBAL slave_parallel_threads = {threads}; START SLAVE")
    wait_until(lambda: caught_up(primary, replica), 20, "the replica to catch up")
    replica.sql("FLUSH FLUSHLIGHT_STATEMENTS")
    with Session(library, primary.socket) as session:
        session.query(f"SET binlog_format = {row_format}")
        for i in range(ROUNDS):
            session.query(f"INSERT INTO t(a) VALUES ({i})")
        session.query("BEGIN")
        session.query("INSERT INTO t(a) VALUES (1), (2)")
        session.query("UPDATE t SET a = a + 1 LIMIT 5")
        session.query("COMMIT")
    wait_until(lambda: caught_up(primary, replica), 30, "the replica to catch up")
    time.sleep(0.2)
    name = f"{row_format}, {threads} parallel threads"
    rows = replica.sql(f"SELECT kind, query, user_name, commits, coverage FROM {SCHEMA}STATEMENTS WHERE commits > 0")
    seen = sum(int(row[3]) for row in rows)
    if seen != ROUNDS + 1:
        print("\n".join(map(str, rows)))
    check(seen == ROUNDS + 1, f"{name}: {seen} commits of {ROUNDS + 1}")
    if tracing:
        share = sum(int(row[3]) * float(row[4]) for row in rows) / seen
        check(share >= 0.9, f"{name}: causes known for {share:.2f} of them")


def reset_stays_at_home(server, what):
    """In the binary log FLUSH would stop every replica without the plugin, and on a replica be a transaction of its own."""
    before = server.value("SELECT @@gtid_binlog_pos")
    server.sql("FLUSH FLUSHLIGHT_STATEMENTS")
    after = server.value("SELECT @@gtid_binlog_pos")
    check(before == after, f"FLUSH on the {what} is not in its binary log: {before}, {after}")


def semi_synchronous(primary, replica, library, wait_point):
    replica.sql("STOP SLAVE; SET GLOBAL rpl_semi_sync_slave_enabled = ON; START SLAVE")
    primary.sql(f"SET GLOBAL rpl_semi_sync_master_wait_point = {wait_point}; SET GLOBAL rpl_semi_sync_master_timeout = 150; "
                "SET GLOBAL rpl_semi_sync_master_enabled = ON")
    wait_until(lambda: primary.sql("SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'")[0][1] == "1", 10, "a semi-synchronous replica")
    wait_until(lambda: primary.sql("SHOW STATUS LIKE 'Rpl_semi_sync_master_status'")[0][1] == "ON", 10, "semi-synchronous replication")
    primary.sql("FLUSH FLUSHLIGHT_STATEMENTS")
    replica.process.send_signal(signal.SIGSTOP)
    try:
        with Session(library, primary.socket) as session:
            session.query("INSERT INTO t(a) VALUES (1)")  # waits for an answer that does not come: the timeout
    finally:
        replica.process.send_signal(signal.SIGCONT)
    time.sleep(0.2)
    row = primary.sql(f"SELECT max_commit_ms, replication_ms, total_commit_ms FROM {SCHEMA}STATEMENTS WHERE query LIKE 'INSERT INTO t%'")[0]
    check(float(row[0]) > 140, f"{wait_point}: the commit waited for the replica: {row[0]} ms")
    check(float(row[1]) > 0.9 * 140, f"{wait_point}: and says so: replication {row[1]} ms")


def main():
    arguments = parse()
    library = load_library(arguments.engines)
    folder = Path(tempfile.mkdtemp(prefix="maria.", dir=arguments.work))
    port = free_port()
    primary = server_of(folder, arguments, 1, port)
    replica = server_of(folder, arguments, 2, free_port())
    daemon = Daemon(folder, arguments.daemon, arguments.tracing)
    try:
        daemon.start()
        primary.start()
        replica.start()
        primary.sql("CREATE USER r@'127.0.0.1' IDENTIFIED BY 'r'; GRANT REPLICATION SLAVE ON *.* TO r@'127.0.0.1'")
        replica.sql(f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'r', MASTER_PASSWORD = 'r', "
                    "MASTER_USE_GTID = slave_pos; START SLAVE")
        primary.sql("CREATE DATABASE d; CREATE TABLE d.t(id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(200)) ENGINE=InnoDB")
        for server, what in ((primary, "primary"), (replica, "replica")):
            server.install(daemon.socket)
            wait_until(server.attached, 10, "the plugin to attach")
            reset_stays_at_home(server, what)
        for row_format in ("ROW", "STATEMENT"):
            for threads in (0, 4):
                applied(primary, replica, library, row_format, threads, arguments.tracing)
        instances = replica.sql(f"SELECT DISTINCT instance FROM {SCHEMA}STATEMENTS")
        check(len(instances) == 1, f"two servers, one daemon: each sees its own rows {instances}")
        if arguments.tracing:
            for wait_point in ("AFTER_COMMIT", "AFTER_SYNC"):
                semi_synchronous(primary, replica, library, wait_point)
        return 0
    except BaseException:
        for log in (primary.log, replica.log, daemon.log):
            print(f"--- {log}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-15:]), flush=True)
        raise
    finally:
        replica.stop()
        primary.stop()
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
