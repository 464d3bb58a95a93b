# SPDX-License-Identifier: GPL-2.0-or-later
"""A standby that the server's commits wait for, stopped most of the time. Its data lies beside the slow device."""
import contextlib
import os
import signal
import threading
import time

from processes import end, run, spawn, start_ticks, wait_for
from server_threads import processes_below

RUN_S = 0.002  # between two stops
START_TIMEOUT_S = 40
SEMISYNC_TIMEOUT_MS = 600_000


class Pauser:
    """Stops a server's processes again and again; `times` are the intervals in which they were stopped, in ns."""

    def __init__(self, pid, ms):
        self.pids = processes_below(pid)
        self.ms = ms
        self.times = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _signal(self, number):
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _run(self):
        while not self._end.is_set():
            self._signal(signal.SIGSTOP)
            begin = time.monotonic_ns()
            time.sleep(self.ms / 1000)
            self.times.append((begin, time.monotonic_ns()))
            self._signal(signal.SIGCONT)
            time.sleep(RUN_S)

    def __enter__(self):
        self._thread.start()
        return self.times

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()
        self._signal(signal.SIGCONT)


@contextlib.contextmanager
def _running(server, command, environment, ready):
    log = server.device.folder / "standby.log"
    process = spawn(command, server.device.registry, "standby", log=log, cwd="/", die_with_parent=False, env=environment)
    try:
        wait_for(ready, START_TIMEOUT_S, "the standby", process, log)
        yield process.pid
    finally:
        end([{"pid": process.pid, "ticks": start_ticks(process.pid), "what": "standby"}], first=signal.SIGQUIT, patience_s=3)


@contextlib.contextmanager
def _folder(server):
    folder = server.device.folder / "standby"
    folder.mkdir(mode=0o700)
    os.chown(folder, *server.owner())
    server.standby_folder = folder
    try:
        yield folder
    finally:
        server.standby_folder = None
        run("rm", "-rf", folder)


@contextlib.contextmanager
def postgresql(server):
    """Streams from the server; commits wait until it has flushed their WAL."""
    with _folder(server):
        inside = server.server_path("standby")
        run(*server.in_namespaces("pg_basebackup", "-h", server.server_path("run"), "-U", server.administrator, "-D", f"{inside}/data",
                                  "-R", "-X", "stream", "-c", "fast", "--no-sync"), cwd="/", env=server.environment())
        options = {"unix_socket_directories": inside, "session_preload_libraries": "", "fsync": "off", "hot_standby": "off"}
        command = server.in_namespaces("postgres", "-D", f"{inside}/data", *(f"--{name}={value}" for name, value in options.items()))

        def streams():
            return server.sql("SELECT count(*) AS n FROM pg_stat_replication WHERE state = 'streaming'")[0]["n"] > 0

        with _running(server, command, server.environment(), streams) as pid, server.settings_changed(synchronous_standby_names="*"):
            wait_for(lambda: server.sql("SELECT count(*) AS n FROM pg_stat_replication WHERE sync_state = 'sync'")[0]["n"] > 0,
                     START_TIMEOUT_S, "the standby to be synchronous")
            yield pid


@contextlib.contextmanager
def mariadb(server, wait_point):
    """Semi-synchronous: commits wait until it has their events. It applies none."""
    with _folder(server) as folder:
        base, socket = server.root / "usr", folder / "s"
        tools = server.setpriv(server.owner())
        run(*tools, base / "bin/mariadb-install-db", "--no-defaults", f"--basedir={base}", f"--datadir={folder}/data",
            "--auth-root-authentication-method=normal", "--skip-test-db", f"--tmpdir={folder}", env=server.environment())
        command = [*tools, base / "sbin/mariadbd", "--no-defaults", f"--basedir={base}", f"--datadir={folder}/data", f"--socket={socket}",
                   "--skip-networking", f"--lc-messages-dir={base}/share/mysql", f"--tmpdir={folder}", "--pid-file=pid", "--server-id=2",
                   "--rpl-semi-sync-slave-enabled=1", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=16M"]
        # where a client within the server looks for `localhost`
        environment = server.environment() | {"MYSQL_UNIX_PORT": str(server.socket)}

        def sql(*statements):
            return run(server.device.tools / "rig-sql", "--engine", "mariadb", "--socket", socket, "--database", "mysql", "--user", "root",
                       "--", *statements, check=False)

        with _running(server, command, environment, lambda: sql("SELECT 1").returncode == 0) as pid:
            at = {key.lower(): value for key, value in server.sql("SHOW MASTER STATUS")[0].items()}
            server.sql(f"SET GLOBAL rpl_semi_sync_master_timeout = {SEMISYNC_TIMEOUT_MS}",
                       f"SET GLOBAL rpl_semi_sync_master_wait_point = {wait_point}", "SET GLOBAL rpl_semi_sync_master_enabled = ON")
            sql(f"CHANGE MASTER TO MASTER_HOST = 'localhost', MASTER_USER = 'root', MASTER_LOG_FILE = '{at['file']}', "
                f"MASTER_LOG_POS = {at['position']}", "START SLAVE IO_THREAD")

            def clients():
                rows = server.sql("SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'")
                return int(list(rows[0].values())[1]) > 0

            try:
                wait_for(clients, START_TIMEOUT_S, "the standby to be semi-synchronous", log=server.device.folder / "standby.log")
                yield pid
            finally:
                server.sql("SET GLOBAL rpl_semi_sync_master_enabled = OFF")


@contextlib.contextmanager
def paused(server, _device, ms, wait_point="AFTER_COMMIT"):
    standby = mariadb(server, wait_point) if server.product == "mariadb" else postgresql(server)
    with standby as pid, Pauser(pid, ms) as times:
        yield times


def paused_after_sync(server, device, ms):
    """MariaDB's leader waits before it orders its group, so all of them wait for it."""
    return paused(server, device, ms, "AFTER_SYNC")
