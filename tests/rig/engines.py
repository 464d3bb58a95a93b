# SPDX-License-Identifier: GPL-2.0-or-later
"""Private database servers on a slow device, from what tools/fetch-engines unpacked.

Unix sockets only, an unprivileged user, data on the slow device, everything else below the device's folder.
PostgreSQL runs in mount and IPC namespaces of its own: what is mounted over its library and extension folders, and
its shared memory, vanish with its last process, however that ends.
"""
import contextlib
import json
import os
import pwd
import shlex
import shutil
import signal
from pathlib import Path

from processes import RigError, end, run, spawn, start_ticks, wait_for

START_TIMEOUT_S = 40
ATTACH_TIMEOUT_S = 10
STOP_PATIENCE_S = 20
DATABASE = "rig"
USER = "rig"


def link_tree(source, target):
    """A copy made of hard links where that is possible."""
    def link(path, to):
        try:
            os.link(path, to)
        except OSError:
            shutil.copy2(path, to)
    shutil.copytree(source, target, copy_function=link, symlinks=True)


def add_file(source, folder):
    """Puts a real copy into a linked tree: never writes through a link."""
    target = Path(folder) / Path(source).name
    target.unlink(missing_ok=True)
    shutil.copy2(source, target)


def reachable(*paths):
    """Whether anybody may walk to these folders (a checkout below /root cannot be entered by a server's user)."""
    return all(part.stat().st_mode & 0o001 for path in paths for part in (Path(path), *Path(path).parents))


class Server:
    """What all have in common. `product` is what the load client calls the engine."""

    product = None
    package = None  # name below the engines folder
    administrator = None
    binary = None

    def __init__(self, device, engines, daemon_folder=None, build=None, name=None):
        self.device = device
        self.name = name
        self.root = Path(engines) / self.package / "root"
        if not (Path(engines) / self.package / ".ready").exists():
            raise RigError(f"{self.package} is not unpacked: tools/fetch-engines --engine {self.package} --dir {engines}")
        self.daemon_folder = Path(daemon_folder) if daemon_folder else None  # None: without flushlight
        self.build = Path(build) if build else None
        self.folder = device.folder / "server"
        self.data = device.mount / "data"
        self.log = self.folder / "server.log"
        self.process = None
        self.pid_file = None
        self.standby_folder = None  # while there is one (standby.py)

    @property
    def with_flushlight(self):
        return self.daemon_folder is not None

    def start(self):
        self.folder.mkdir()
        for name in ("run", "tmp"):
            (self.folder / name).mkdir()
            os.chown(self.folder / name, *self.owner())
        self.data.mkdir(mode=0o700)
        os.chown(self.data, *self.owner())
        self.prepare()
        self.launch()
        self.create_database()
        if self.with_flushlight:
            self.enable_flushlight()
        return self

    def launch(self):
        """Starts the prepared server (again, after stop or kill)."""
        self.process = spawn(self.command(), self.device.registry, f"server {self.name}", log=self.log, cwd="/",
                             die_with_parent=False, env=self.environment())
        wait_for(self.answers, START_TIMEOUT_S, f"{self.name} to answer", self.process, self.log)

    def stop(self):
        """An orderly end; delays must be off."""
        if self.process and not end([self._entry()], first=self.stop_signal, patience_s=STOP_PATIENCE_S):
            raise RigError(f"{self.name} does not end")
        self.process = None

    def kill(self):
        if self.process:
            end([self._entry()], first=signal.SIGKILL)
        self.process = None

    def _entry(self):
        return {"pid": self.process.pid, "ticks": start_ticks(self.process.pid), "what": self.name}

    def answers(self):
        return run(*self._sql_command("SELECT 1", self.system_database, self.administrator), check=False).returncode == 0

    def _sql_command(self, sql, database, user, json_rows=False):
        statements = [sql] if isinstance(sql, str) else list(sql)
        return [self.device.tools / "rig-sql", "--engine", self.product, "--socket", self.socket, "--database", database,
                "--user", user, *(["--json"] if json_rows else []), "--", *statements]

    def sql(self, *statements, database=DATABASE, user=None, timeout=60):
        """Runs statements in one session; rows of the last one as dictionaries."""
        result = run(*self._sql_command(statements, database, user or self.administrator, True), timeout=timeout)
        return json.loads(result.stdout)

    def load_arguments(self):
        return ["--engine", self.product, "--socket", self.socket, "--database", DATABASE, "--user", USER]

    def environment(self):
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def setpriv(self, user):
        """Drops root before the server's program starts; keeps a way into folders that only root may enter."""
        command = ["setpriv", f"--reuid={user[0]}", f"--regid={user[1]}", "--clear-groups"]
        if not reachable(self.device.folder, self.root):
            command += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
        return command

    def built(self, part, name):
        path = next(iter(sorted((self.build / part).rglob(name))), None) if self.build else None
        if path is None:
            raise RigError(f"{name} is not built below {self.build}/{part}")
        return path


def nobody():
    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


class Mariadb(Server):
    product = "mariadb"
    package = "mariadb"
    administrator = "root"
    system_database = "mysql"
    stop_signal = signal.SIGTERM
    views = "INFORMATION_SCHEMA.FLUSHLIGHT_"
    options = ()

    def owner(self):
        return nobody()

    @property
    def socket(self):
        return self.folder / "run/s"

    def prepare(self):
        base = self.root / "usr"
        run(*self.setpriv(self.owner()), base / "bin/mariadb-install-db", "--no-defaults", f"--basedir={base}", f"--datadir={self.data}",
            "--auth-root-authentication-method=normal", "--skip-test-db", f"--tmpdir={self.folder}/tmp", env=self.environment())
        self.plugins = self.folder / "plugins"
        link_tree(base / "lib/mysql/plugin", self.plugins)
        if self.with_flushlight:
            add_file(self.built("mariadb_plugin", "flushlight.so"), self.plugins)

    def command(self):
        base = self.root / "usr"
        return [*self.setpriv(self.owner()), base / "sbin/mariadbd", "--no-defaults", f"--basedir={base}", f"--datadir={self.data}",
                f"--socket={self.socket}", "--skip-networking", "--skip-name-resolve", f"--plugin-dir={self.plugins}",
                f"--lc-messages-dir={base}/share/mysql", f"--tmpdir={self.folder}/tmp", "--pid-file=pid", "--max-connections=300",
                "--innodb-flush-log-at-trx-commit=1", "--innodb-log-file-size=256M", "--innodb-buffer-pool-size=256M",
                "--innodb-buffer-pool-dump-at-shutdown=0", "--innodb-max-dirty-pages-pct=90", *self.options]

    def create_database(self):
        self.sql(f"CREATE DATABASE {DATABASE}", f"CREATE USER {USER}@localhost", f"GRANT ALL ON {DATABASE}.* TO {USER}@localhost",
                 database=self.system_database)

    def enable_flushlight(self):
        self.sql("INSTALL SONAME 'flushlight'", f"SET GLOBAL flushlight_socket = '{self.daemon_folder}/flushlight.sock'")
        wait_for(self.attached, ATTACH_TIMEOUT_S, f"{self.name} to attach to the daemon", log=self.log)

    def attached(self):
        return bool(self.sql(f"SELECT 1 AS one FROM {self.views}health WHERE component = 'mariadb' AND instance IS NOT NULL"))

    def reset_statistics(self):
        self.sql("FLUSH FLUSHLIGHT_STATEMENTS")

    @contextlib.contextmanager
    def growing_log(self):
        """The binary log grows with each commit (without one the log stays where it is)."""
        yield


class MariadbBinlog(Mariadb):
    options = ("--log-bin=binlog", "--sync-binlog=1", "--server-id=1")


class MariadbPool(Mariadb):
    options = ("--thread-handling=pool-of-threads",)


class Postgresql(Server):
    product = "postgresql"
    administrator = "postgres"
    system_database = "postgres"
    stop_signal = signal.SIGINT
    views = "flushlight."
    version = None
    settings = {
        "listen_addresses": "", "max_connections": "300", "shared_buffers": "128MB", "jit": "off", "autovacuum": "off",
        "checkpoint_timeout": "1h", "min_wal_size": "256MB", "max_wal_size": "512MB", "bgwriter_lru_maxpages": "0",
        "log_checkpoints": "off", "synchronous_commit": "on",
    }

    # Where the server's own view of the file system differs (a root directory), these are its paths.
    inside = Path("/")

    @property
    def socket(self):
        return self.folder / "run"

    def programs(self):
        return Path(f"/usr/lib/postgresql/{self.version}")

    def stage(self):
        """The server's library and extension folders with our files in them, to be mounted over its own."""
        stage = self.folder / "stage"
        stage.mkdir()
        link_tree(self.root / f"usr/lib/postgresql/{self.version}/lib", stage / "lib")
        link_tree(self.root / f"usr/share/postgresql/{self.version}/extension", stage / "extension")
        if self.with_flushlight:
            add_file(self.built("pg_extension", f"{self.version}/lib/flushlight.so"), stage / "lib")
            control = self.built("pg_extension", f"{self.version}/share/extension/flushlight.control")
            for path in sorted(control.parent.iterdir()):
                add_file(path, stage / "extension")

    def prepare(self):
        self.stage()
        run(*self.in_namespaces("initdb", "-D", self.server_path("data"), "-A", "trust", "-U", self.administrator, "--no-sync",
                                "--locale=C.UTF-8"), cwd="/", env=self.environment())
        settings = dict(self.settings, unix_socket_directories=str(self.server_path("run")))
        if self.with_flushlight:
            settings["session_preload_libraries"] = "flushlight"
            settings["flushlight.socket"] = f"{self.server_path('daemon')}/flushlight.sock"
        with open(self.data / "postgresql.conf", "a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def command(self):
        return self.in_namespaces("postgres", "-D", self.server_path("data"))

    def create_database(self):
        self.sql(f"CREATE ROLE {USER} LOGIN", database=self.system_database)
        self.sql(f"CREATE DATABASE {DATABASE} OWNER {USER}", database=self.system_database)
        # Write-ahead log files to come: recycled ones exist in full, so that commits overwrite and do not extend.
        self.sql("CREATE TABLE segments (i INT)", database=self.system_database)
        for _ in range(6):
            self.sql("INSERT INTO segments VALUES (1)", "SELECT pg_switch_wal()", database=self.system_database)
        self.sql("CHECKPOINT", database=self.system_database)

    def enable_flushlight(self):
        self.sql("CREATE EXTENSION flushlight")

    def reset_statistics(self):
        self.sql("SELECT flushlight.reset()")

    @contextlib.contextmanager
    def settings_changed(self, **changes):
        """Settings that a reload takes over, and back."""
        self.sql(*(f"ALTER SYSTEM SET {name} = '{value}'" for name, value in changes.items()))
        self.sql("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            self.sql(*(f"ALTER SYSTEM RESET {name}" for name in changes))
            self.sql("SELECT pg_reload_conf()")

    @contextlib.contextmanager
    def growing_log(self):
        """Write-ahead log files that are neither filled beforehand nor used again."""
        with self.settings_changed(wal_init_zero="off", wal_recycle="off"):
            for _ in range(12):  # beyond what exists already
                self.sql("INSERT INTO segments VALUES (1)", "SELECT pg_switch_wal()", database=self.system_database)
            yield

    def in_namespaces(self, program, *arguments):
        """The command that runs a program of the server's in its own namespaces, with our files mounted in place."""
        return self.entering(self.inside / f"{self.programs()}/bin/{program}", *arguments)

    def entering(self, *command):
        library = self.root / f"usr/lib/postgresql/{self.version}/lib"
        extension = self.root / f"usr/share/postgresql/{self.version}/extension"
        steps = ["set -e", "mount -t tmpfs -o mode=1777 shm /dev/shm",
                 f"mount --bind {shlex.quote(str(self.folder / 'stage/lib'))} {shlex.quote(str(library))}",
                 f"mount --bind {shlex.quote(str(self.folder / 'stage/extension'))} {shlex.quote(str(extension))}",
                 *self.more_mounts(), "exec \"$@\""]
        return ["unshare", "--mount", "--ipc", "--propagation", "private", "sh", "-c", "; ".join(steps), "sh",
                *self.enter(), *command]

    def more_mounts(self):
        return []


class Postgresql15(Postgresql):
    package = "postgresql15"
    version = 15

    def owner(self):
        return nobody()

    def programs(self):
        return self.root / "usr/lib/postgresql/15"

    def server_path(self, what):
        return {"data": self.data, "run": self.socket, "daemon": self.daemon_folder, "standby": self.standby_folder}[what]

    def enter(self):
        return [*self.setpriv(self.owner()), "env", f"LD_LIBRARY_PATH={self.root}/usr/lib/x86_64-linux-gnu"]


class Postgresql18(Postgresql):
    """In a root directory of its own distribution."""

    package = "postgresql18"
    version = 18

    def owner(self):
        for line in (self.root / "etc/passwd").read_text().splitlines():
            name, _, uid, gid = line.split(":")[:4]
            if name == "postgres":
                return int(uid), int(gid)
        raise RigError(f"no user postgres in {self.root}")

    def server_path(self, what):
        return Path("/rig") / what

    def binds(self):
        """Folders that the server sees below /rig."""
        return {"data": self.data, "run": self.socket, "daemon": self.daemon_folder, "standby": self.standby_folder}

    def more_mounts(self):
        steps = [f"mkdir -p {shlex.quote(str(self.root / 'rig'))}", f"mount -t tmpfs -o mode=755 rig {shlex.quote(str(self.root / 'rig'))}"]
        for name, source in self.binds().items():
            if source:
                target = shlex.quote(str(self.root / "rig" / name))
                steps += [f"mkdir {target}", f"mount --bind {shlex.quote(str(source))} {target}"]
        for name in ("/proc", "/dev"):
            steps.append(f"mount --rbind {name} {shlex.quote(str(self.root) + name)}")
        return steps

    def enter(self):
        user, group = self.owner()
        return ["chroot", self.root, "setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"]


SERVERS = {"mariadb": Mariadb, "mariadb-binlog": MariadbBinlog, "mariadb-pool": MariadbPool, "postgres15": Postgresql15,
           "postgres18": Postgresql18}


def make_server(name, device, engines, daemon_folder=None, build=None):
    return SERVERS[name](device, engines, daemon_folder, build, name)
