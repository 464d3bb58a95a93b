#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What the daemon learns from a PostgreSQL server: effective settings in base units, counters that grow by what was
done, and clear words when a right, the server or an answer is missing."""
import os
import signal
import time

from engine_facts import Asker
from pg_case import OPTIONS, PostgresCase, main


class Settings(PostgresCase):
    with_fake_daemon = False

    def asker(self, user="watcher", **kw):
        asker = Asker(OPTIONS.build, "postgresql", f"host={self.server.socket} user={user}", **kw)
        self.addCleanup(asker.close)
        return asker

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.sql("CREATE ROLE watcher LOGIN", "GRANT pg_monitor TO watcher", "CREATE ROLE nobody_much LOGIN", database="postgres")

    def test_settings_are_those_in_effect(self):
        self.server.setting("checkpoint_timeout", "'7min'")
        self.server.setting("max_wal_size", "'192MB'")
        self.server.setting("shared_buffers", "'64MB'")
        self.addCleanup(lambda: [self.server.setting(name, None) for name in ("checkpoint_timeout", "max_wal_size", "shared_buffers")])
        asker = self.asker()
        self.eventually(lambda: asker.ask()["settings"]["checkpoint_timeout"]["value"] == "420000")
        settings = asker.ask()["settings"]
        self.assertEqual(settings["max_wal_size"]["value"], str(192 << 20))
        self.assertEqual(settings["max_wal_size"]["origin"], "configuration file")
        self.assertEqual(settings["shared_buffers"]["value"], str(32 << 20), "not yet: it needs a restart")
        self.assertTrue(settings["shared_buffers"]["pending_restart"] and settings["shared_buffers"]["needs_restart"])
        self.assertEqual("io_method" in settings, OPTIONS.version >= 18)

    def test_counters_grow_by_what_was_done(self):
        asker = self.asker()
        before = asker.ask()["statistics"]
        with self.session() as session:
            session.sql("CREATE TABLE IF NOT EXISTS t (i int)")
            for _ in range(3):
                session.sql("INSERT INTO t VALUES (1)")
                session.sql("CHECKPOINT")
            session.sql("SELECT pg_stat_force_next_flush()" if OPTIONS.version >= 15 else "SELECT 1")

        def grown(name):
            return asker.ask()["statistics"][name] - before[name]
        self.eventually(lambda: grown("checkpoints.requested") == 3)
        self.eventually(lambda: grown("wal.bytes") > 0 and grown("wal_io.syncs") > 0)
        self.assertGreater(grown("server.wal_position"), 0)

    def test_server_is_known_by_its_process(self):
        self.assertEqual(self.asker().ask()["process"], self.server.postmaster())

    def test_what_is_not_allowed_is_named(self):
        self.assertEqual(self.asker().ask()["refused"], [])
        facts = self.asker(user="nobody_much").ask()
        self.assertEqual(facts["error"], "")
        self.assertIn("wal_folder", facts["refused"])
        self.assertTrue(any("pg_monitor" in line for line in facts["refused"]), facts["refused"])
        self.assertIn("checkpoint_timeout", facts["settings"], "what is allowed is there all the same")

    def test_a_role_that_is_not_there(self):
        facts = self.asker(user="nobody_at_all").ask()
        self.assertIn("nobody_at_all", facts["error"])

    def test_a_server_that_does_not_answer(self):
        asker = self.asker(timeout_ms=500)
        self.assertEqual(asker.ask()["error"], "")
        backend = int(self.server.sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'flushlightd'",
                                      database="postgres")[0]["pid"])
        os.kill(backend, signal.SIGSTOP)
        facts = asker.ask()
        os.kill(backend, signal.SIGCONT)
        self.assertIn("500 ms", facts["error"])
        self.assertLess(facts["took_ms"], 1500)
        self.assertEqual(asker.ask()["error"], "", "a new connection")

    def test_zz_a_server_that_goes_and_comes_back(self):
        asker = self.asker()
        self.assertEqual(asker.ask()["error"], "")
        self.server.stop()
        facts = asker.ask()
        self.assertNotEqual(facts["error"], "")
        self.assertIn("checkpoint_timeout", facts["settings"], "what was known stays known")
        self.assertNotEqual(asker.ask()["error"], "")
        self.server.launch()
        time.sleep(0.1)
        self.assertEqual(asker.ask()["error"], "")


if __name__ == "__main__":
    main()
