#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A read-only standby: its views and its reset work, it records statements and no commits; and the primary's commits
say that they waited for it."""
import os
import shutil
import sys
from pathlib import Path

import fake_daemon
import pg_rig
from pg_case import OPTIONS, PostgresCase, main
from processes import run


class Standby(PostgresCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.disk.folder.with_name(cls.disk.folder.name + "-copy")
        primary = cls.server
        disk, make = pg_rig.make(OPTIONS.version, folder, Path(OPTIONS.build) / "tests/rig", OPTIONS.build, OPTIONS.engines,
                                 folder / "daemon")
        disk.__enter__()
        cls.addClassCleanup(disk.__exit__)
        (folder / "daemon").mkdir()
        cls.daemon2 = fake_daemon.FakeDaemon(folder / "daemon/flushlight.sock").start()
        cls.addClassCleanup(cls.daemon2.stop)
        standby = make()

        def from_primary(prepare=standby.prepare):
            prepare()
            settings = (standby.data / "postgresql.conf").read_text()
            shutil.rmtree(standby.data)
            # through a folder that both servers' programs see
            copy = primary.folder / "run/copy"
            run(*primary.client("pg_basebackup"), "-D", str(primary.server_path("run")) + "/copy", "-h", primary.server_path("run"),
                "-U", "postgres", "-c", "fast", "-X", "stream", "--no-sync", env=primary.environment(), cwd="/", timeout=60)
            shutil.copytree(copy, standby.data)
            (standby.data / "postgresql.conf").write_text(
                settings + f"primary_conninfo = 'host={cls.reach(primary, standby)} user=postgres application_name=copy'\nport = 5433\n")
            (standby.data / "standby.signal").touch()
            for path in [standby.data, *standby.data.rglob("*")]:
                os.chown(path, *standby.owner())
            standby.data.chmod(0o700)

        standby.prepare = from_primary
        standby.create_database = standby.enable_flushlight = lambda: None
        standby.answers = lambda: run(*primary.client("psql"), "-X", "-h", standby.socket, "-p", 5433, "-U", "postgres", "-d", "rig", "-c",
                                      "SELECT 1", env=standby.environment(), cwd="/", check=False).returncode == 0
        cls.standby = standby.start()
        cls.addClassCleanup(cls.standby.stop)

    @classmethod
    def reach(cls, primary, standby):
        """The primary's socket folder, as the standby sees it."""
        return str(primary.socket)

    def test_all(self):
        db = pg_rig.PsqlSession(self.standby, port=5433)
        self.addCleanup(db.close)
        self.assertEqual(db.value("SELECT pg_is_in_recovery()"), "t")
        db.sql("SELECT * FROM flushlight.statements")
        self.assertEqual(db.notices, [])
        self.assertEqual(self.daemon2.queries[-1]["view"], "statements")
        db.sql("SELECT flushlight.reset()")
        self.assertEqual(len(self.daemon2.commands), 1)
        kinds = {record["type"] for record in self.daemon2.take()}
        self.assertIn("statement", kinds)
        self.assertNotIn("commit", kinds)
        self.assertNotEqual(self.daemon2.queries[-1]["instance"], "", "an instance of its own")

        primary = self.session()
        self.server.setting("synchronous_standby_names", "copy")
        self.eventually(lambda: primary.value("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1")
        pid = self.pid(primary)
        primary.sql("SET synchronous_commit = remote_apply", "CREATE TABLE s (i int)")
        self.assertEqual(len([r for r in self.records("commit") if r["session"] == pid]), 1)
        self.assertEqual(db.value("SELECT count(*) FROM s"), "0")


if __name__ == "__main__":
    if "18" in sys.argv:
        # each server has a root directory of its own: they would need a shared socket folder
        print("SKIP: the standby of a server in a root directory cannot reach its primary's socket")
        sys.exit(77)
    main()
