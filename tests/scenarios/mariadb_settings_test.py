#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What the daemon learns from a MariaDB server: effective settings and who set them, counters that grow by what was
done, and clear words when a right, the server or an answer is missing."""
import signal
import sys
from pathlib import Path

from engine_facts import Asker
from maria_arguments import parse
from maria_rig import check, private_server, wait_until

PASSWORD = "S3cret-word"


def asker(server, user="watcher", more="", **kw):
    return Asker(server.build, "mariadb", f"socket={server.socket} user={user} {more}", **kw)


def settings(server):
    one = asker(server)
    facts = one.ask()
    check(facts["error"] == "", f"settings are read {facts['error']}")
    got = facts["settings"]
    check(got["innodb_flush_log_at_trx_commit"]["value"] == "1", "innodb_flush_log_at_trx_commit is 1")
    check(got["innodb_log_file_size"]["origin"] == "COMMAND-LINE" and got["innodb_io_capacity"]["origin"] == "COMPILE-TIME",
          "and it is known who set what")
    check(got["innodb_log_buffer_size"]["needs_restart"] and not got["sync_binlog"]["needs_restart"], "and what needs a restart")
    server.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 2, innodb_io_capacity = 1234")
    got = one.ask()["settings"]
    check(got["innodb_flush_log_at_trx_commit"]["value"] == "2" and got["innodb_io_capacity"]["value"] == "1234",
          "a change is seen at the next reading")
    check(facts["process"] == server.process.pid, "the server is known by its process")
    one.close()


def native_aio(server):
    one = asker(server)
    got = one.ask()["settings"]["innodb_use_native_aio"]
    said = server.value("SELECT @@innodb_use_native_aio")
    check((got["value"] == "ON") == (said == "1"), f"native AIO as effective: {got}")
    one.close()


def counters(server):
    one = asker(server)
    before = one.ask()["statistics"]
    server.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 1, sync_binlog = 1")
    server.sql("".join(f"INSERT INTO d.t(a) VALUES ({i});" for i in range(25)))
    after = one.ask()["statistics"]
    written = after["redo.bytes"] - before["redo.bytes"]
    check(25 * 50 <= written <= 25 * 20000, f"25 commits wrote {written:.0f} bytes of redo log")
    if "redo.syncs" in after:  # gone since 10.8
        syncs = after["redo.syncs"] - before["redo.syncs"]
        check(25 <= syncs <= 60, f"and made {syncs:.0f} syncs of it")
    if "--log-bin=binlog" in server.options:
        commits, groups = (after[f"binlog.{name}"] - before[f"binlog.{name}"] for name in ("commits", "groups"))
        check(commits == 25 and groups == 25, f"and {commits:.0f} commits in {groups:.0f} groups of the binlog")
    one.close()


def rights_and_passwords(server):
    server.sql(f"CREATE USER nothing@localhost, secret@localhost IDENTIFIED BY '{PASSWORD}'")
    one = asker(server, "nothing")
    facts = one.ask()
    check(facts["error"] == "" and facts["refused"] == ["InnoDB's metrics (the user lacks PROCESS)"], f"what is not allowed: {facts['refused']}")
    check("innodb_flush_log_at_trx_commit" in facts["settings"], "what is allowed is there all the same")
    one.close()
    password_file = server.folder / "password"
    password_file.write_text(PASSWORD + "\n")
    password_file.chmod(0o600)
    one = asker(server, "secret", f"password_file={password_file}")
    check(one.ask()["error"] == "", "a password comes from a file")
    one.close()
    one = asker(server, "secret")
    error = one.ask()["error"]
    check("Access denied" in error and PASSWORD not in error, f"without it: {error}")
    one.close()


def does_not_answer(server):
    one = asker(server, timeout_ms=1000)
    check(one.ask()["error"] == "", "the server answers")
    server.process.send_signal(signal.SIGSTOP)
    try:
        facts = one.ask()
        check(facts["error"] != "" and facts["took_ms"] < 3500, f"a stopped server: {facts['error']} after {facts['took_ms']:.0f} ms")
        check("sync_binlog" in facts["settings"], "what was known stays known")
    finally:
        server.process.send_signal(signal.SIGCONT)
    wait_until(lambda: one.ask()["error"] == "", 10, "answers again")
    server.stop()
    check(one.ask()["error"] != "", "a server that ended is an error")
    server.start()
    wait_until(lambda: one.ask()["error"] == "", 10, "answers of the new one")
    one.close()


def main():
    arguments = parse()
    if arguments.tracing:
        print("skipped: the kernel side makes no difference to what a server says of itself")
        return 77
    for options in ([], ["--log-bin=binlog", "--server-id=1"]):
        with private_server(arguments, options, tracing=False) as (server, _):
            server.build = Path(arguments.daemon).resolve().parents[1]
            server.sql("CREATE USER watcher@localhost; GRANT PROCESS ON *.* TO watcher@localhost")
            for case in (settings, native_aio, counters, rights_and_passwords, does_not_answer):
                case(server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
