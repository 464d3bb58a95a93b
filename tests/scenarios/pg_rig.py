# SPDX-License-Identifier: GPL-2.0-or-later
"""A private PostgreSQL on the plain disk, with the extension of this build, for scenarios that need no slow device."""
import shutil
import subprocess
import sys
import threading
import queue
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rig"))
from engines import SERVERS  # noqa: E402
from processes import Registry, end, wait_for  # noqa: E402


class PlainDisk:
    """Stands in for the rig's slow device."""

    def __init__(self, folder, tools):
        self.folder = Path(folder).absolute()
        self.tools = Path(tools)
        self.mount = self.folder / "disk"
        self.registry = Registry(self.folder / "processes.jsonl")

    def __enter__(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.mount.mkdir(parents=True)
        return self

    def __exit__(self, *_):
        end(self.registry.living())
        shutil.rmtree(self.folder, ignore_errors=True)


class PsqlSession:
    """One open connection, through psql. sql() returns rows as lists of strings; errors raise unless expected."""

    MARK = "-- done --"

    def __init__(self, server, user="postgres", database="rig", options="", port=5432):
        command = [*server.client("psql"), "-X", "-q", "-A", "-t", "-F", "\x1f", "-v", "VERBOSITY=default", "-h",
                   str(server.server_path("run")), "-p", str(port), "-U", user, "-d", database]
        environment = dict(server.environment(), PGOPTIONS=options, PGAPPNAME="scenario")
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, bufsize=1, cwd="/", env=environment)
        self.notices = []
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def sql(self, *statements, error=False, timeout=60):
        for statement in statements:
            self.process.stdin.write(statement.rstrip(";") + ";\n" if not statement.startswith("\\") else statement + "\n")
        self.process.stdin.write(f"\\echo {self.MARK}\n")
        self.process.stdin.flush()
        rows, self.notices = [], []
        while (line := self._lines.get(timeout=timeout)) != self.MARK:
            if line is None:
                raise AssertionError(f"psql ended: {self.notices}")
            # "psql:..." and continuation lines of messages are not rows
            if line.startswith(("ERROR:", "WARNING:", "NOTICE:", "DETAIL:", "HINT:", "CONTEXT:", "LINE ", "FATAL:", "LOG:")):
                self.notices.append(line)
            else:
                rows.append(line.split("\x1f"))
        failed = [notice for notice in self.notices if notice.startswith(("ERROR", "FATAL"))]
        assert bool(failed) == error, (statements, self.notices)
        return rows

    def value(self, statement):
        return self.sql(statement)[0][0]

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def make(version, folder, tools, build, engines, daemon_folder):
    """A server class of the rig with a few additions; not started."""
    base = SERVERS[f"postgres{version}"]

    class ScenarioServer(base):
        settings = dict(base.settings, max_prepared_transactions="20", fsync="on", shared_buffers="32MB", max_connections="60",
                        min_wal_size="80MB", max_wal_size="256MB")

        def create_database(self):
            self.sql("CREATE ROLE rig LOGIN", database="postgres")
            self.sql("CREATE DATABASE rig OWNER rig", database="postgres")

        def client(self, program):
            """A client program of the server's own packages, in the file system that the server sees."""
            return self.in_namespaces_of_client(program)

        def in_namespaces_of_client(self, program):
            if str(self.inside) == "/" and version == 15:
                return ["env", f"LD_LIBRARY_PATH={self.root}/usr/lib/x86_64-linux-gnu", f"{self.programs()}/bin/{program}"]
            return ["nsenter", "--mount", "--target", str(self.postmaster()), "chroot", str(self.root), f"{self.programs()}/bin/{program}"]

        def postmaster(self):
            return int((self.data / "postmaster.pid").read_text().split()[0])

        def reload(self):
            self.sql("SELECT pg_reload_conf()", database="postgres")

        def setting(self, name, value):
            self.sql(f"ALTER SYSTEM SET {name} = {value}" if value is not None else f"ALTER SYSTEM RESET {name}", database="postgres")
            self.reload()

        def psql(self, **kw):
            return PsqlSession(self, **kw)

        def pgbench(self, *arguments, user="postgres"):
            return [*self.client("pgbench"), "-h", str(self.server_path("run")), "-U", user, *arguments, "rig"]

    disk = PlainDisk(folder, tools)
    return disk, lambda: ScenarioServer(disk, engines, daemon_folder, build, f"postgres{version}")


__all__ = ["make", "PsqlSession", "wait_for"]
