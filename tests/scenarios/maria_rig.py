# SPDX-License-Identifier: GPL-2.0-or-later
"""A private MariaDB on the plain disk with the plugin, and a daemon for it: what the mariadb_* scenarios share.

Nothing of the system's own is touched: own folder, own socket, unpacked server (tools/fetch-engines).
"""
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

SCHEMA = "INFORMATION_SCHEMA.FLUSHLIGHT_"
STOP_S = 30


class Failure(AssertionError):
    pass


def check(condition, text):
    if not condition:
        raise Failure(text)
    print(f"ok: {text}", flush=True)


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.05)
    raise Failure(f"{what}: not within {seconds} s")


def end_process(process, first=signal.SIGTERM):
    if process and process.poll() is None:
        process.send_signal(first)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Daemon:
    """flushlightd; tracing needs root and the kernel side."""

    def __init__(self, folder, program, tracing=True, arguments=()):
        self.socket = Path(folder) / "flushlight.sock"
        self.log = Path(folder) / "flushlightd.log"
        self.command = [str(program), "--socket", str(self.socket), "--allow-peers", "any", "--metrics-listen", "", "--socket-mode", "0666",
                        "--tracing", "on" if tracing else "off", *arguments]
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(self.socket.exists, 20, "the daemon's socket")
        return self

    def stop(self):
        end_process(self.process)
        self.process = None

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None


class Server:
    def __init__(self, folder, engines, plugin, options=()):
        self.folder = Path(folder)
        self.base = Path(engines) / "mariadb/root/usr"
        self.data = self.folder / "data"
        self.socket = self.folder / "mariadb.sock"
        self.log = self.folder / "server.log"
        self.plugins = self.folder / "plugins"
        self.plugin = Path(plugin)
        self.options = list(options)
        self.process = None
        self.environment = dict(os.environ, LD_LIBRARY_PATH=str(self.base / "lib/x86_64-linux-gnu"))

    def create(self):
        subprocess.run([str(self.base / "bin/mariadb-install-db"), "--no-defaults", f"--basedir={self.base}",
                        f"--datadir={self.data}", "--user=root", "--auth-root-authentication-method=normal", "--skip-test-db"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment)
        shutil.copytree(self.base / "lib/mysql/plugin", self.plugins)
        shutil.copy2(self.plugin, self.plugins)
        return self

    def start(self, *more):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(self.base / "sbin/mariadbd"), "--no-defaults", f"--basedir={self.base}", f"--datadir={self.data}",
                 f"--socket={self.socket}", "--skip-networking", "--user=root", f"--plugin-dir={self.plugins}",
                 f"--lc-messages-dir={self.base}/share/mysql", "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=64M",
                 "--innodb-flush-log-at-trx-commit=1", *self.options, *more],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.environment)
        wait_until(lambda: self.run_sql("SELECT 1").returncode == 0 or self.process.poll() is not None, 30, "the server to answer")
        check(self.process.poll() is None, "the server runs")
        return self

    def stop(self):
        end_process(self.process)
        self.process = None

    def client_command(self, *more, user="root"):
        return [str(self.base / "bin/mariadb"), "--no-defaults", "--socket", str(self.socket), "-u", user, "-N", "-B", *more]

    def run_sql(self, sql, *more, user="root", timeout=60):
        return subprocess.run(self.client_command(*more, user=user), input=sql, capture_output=True, text=True,
                              timeout=timeout, env=self.environment)

    def sql(self, sql, *more, user="root", timeout=60):
        """Rows as lists of strings."""
        result = self.run_sql(sql, *more, user=user, timeout=timeout)
        if result.returncode != 0:
            raise Failure(f"{sql!r}: {result.stderr}")
        return [line.split("\t") for line in result.stdout.splitlines()]

    def value(self, sql, **options):
        rows = self.sql(sql, **options)
        return rows[0][0] if rows else None

    def install(self, daemon_socket):
        self.sql("INSTALL SONAME 'flushlight'")
        self.sql(f"SET GLOBAL flushlight_socket='{daemon_socket}'")

    def attached(self):
        """An earlier look at the view has become a row of it: records arrive."""
        return self.run_sql(f"SELECT COUNT(*) FROM {SCHEMA}STATEMENTS").stdout.strip() not in ("", "0")

    def commits(self):
        """Sum of commits over all rows, with the statements view's own digits."""
        return int(self.value(f"SELECT COALESCE(SUM(commits), 0) FROM {SCHEMA}STATEMENTS"))

    def log_text(self):
        return self.log.read_text(errors="replace")


class Load:
    """Sessions that run a script over and over until they are told to stop; any error is kept."""

    def __init__(self, server, script, sessions=4):
        self.server, self.script, self.sessions = server, script, sessions
        self.errors, self.rounds = [], 0
        self._stop = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self):
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(self.sessions)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number):
        while not self._stop.is_set():
            result = self.server.run_sql(self.script.replace("@N@", str(number)))
            with self._lock:
                self.rounds += 1
                if result.returncode != 0:
                    self.errors.append(result.stderr)


@contextlib.contextmanager
def private_server(arguments, options=(), tracing=True, daemon_arguments=(), with_daemon=True):
    """(server, daemon), installed and attached; everything is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="maria.", dir=arguments.work))
    server = Server(folder, arguments.engines, arguments.plugin, options).create()
    daemon = Daemon(folder, arguments.daemon, tracing, daemon_arguments)
    try:
        if with_daemon:
            daemon.start()
        server.start()
        server.sql("CREATE DATABASE d; CREATE TABLE d.t(id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(200)) ENGINE=InnoDB")
        server.install(daemon.socket)
        if with_daemon:
            wait_until(server.attached, 10, "the plugin to attach")
        yield server, daemon
    except BaseException:
        for log in (server.log, daemon.log):
            if log.exists():
                print(f"--- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-40:]), flush=True)
        raise
    finally:
        server.stop()
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)
