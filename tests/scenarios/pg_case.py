# SPDX-License-Identifier: GPL-2.0-or-later
"""One server and one daemon for tests of the PostgreSQL extension; run a test file with --version 15|18 (see main())."""
import argparse
import sys
import time
import unittest
from pathlib import Path

import fake_daemon
import pg_rig

OPTIONS = argparse.Namespace()


class PostgresCase(unittest.TestCase):
    """The server is started once for a class; each test sees the records since its own beginning."""

    with_fake_daemon = True

    @classmethod
    def setUpClass(cls):
        cls.disk, make = pg_rig.make(OPTIONS.version, Path(OPTIONS.build) / f"scenario-{cls.__name__}-{OPTIONS.version}",
                                     Path(OPTIONS.build) / "tests/rig", OPTIONS.build, OPTIONS.engines,
                                     Path(OPTIONS.build) / f"scenario-{cls.__name__}-{OPTIONS.version}/daemon")
        cls.disk.__enter__()
        cls.addClassCleanup(cls.disk.__exit__)
        cls.socket = cls.disk.folder / "daemon/flushlight.sock"
        cls.socket.parent.mkdir()
        cls.daemon = None
        if cls.with_fake_daemon:
            cls.daemon = fake_daemon.FakeDaemon(cls.socket).start()
            cls.addClassCleanup(cls.daemon.stop)
        cls.server = make().start()
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        if self.daemon:
            self.eventually(lambda: self.daemon.sessions == 0)
            self.daemon.take()

    def session(self, **kw):
        session = self.server.psql(**kw)
        self.addCleanup(session.close)
        return session

    def eventually(self, condition, seconds=5):
        until = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), until, "did not come true in time")
            time.sleep(0.02)

    def records(self, kind=None, of=None):
        """Records of one session; a record is in the ring before its statement's answer is sent."""
        return [record for record in self.daemon.take(kind) if of is None or record.get("session") == of]

    def pid(self, session):
        pid = int(session.value("SELECT pg_backend_pid()"))
        self.daemon.take()
        return pid


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", type=int, default=15)
    parser.add_argument("--build", required=True)
    parser.add_argument("--engines", required=True)
    parser.add_argument("--keep", help="a folder for the output of pg_regress")
    options, rest = parser.parse_known_args()
    options.build = str(Path(options.build).absolute())
    options.engines = str(Path(options.engines).absolute())
    if not (Path(options.engines) / f"postgresql{options.version}/.ready").exists():
        print(f"SKIP: PostgreSQL {options.version} is not unpacked: tools/fetch-engines")
        sys.exit(77)
    OPTIONS.__dict__.update(vars(options))
    unittest.main(module="__main__", argv=[sys.argv[0], *rest], verbosity=2, warnings="ignore")
