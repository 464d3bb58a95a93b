#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""pg_extension's TAP tests (`make installcheck` runs them too), as an unprivileged user that has the capabilities that
flushlightd needs and no others."""
import os
import shlex
import shutil
import sys
import unittest
from pathlib import Path

from pg_case import OPTIONS, main
from pg_rig import PlainDisk

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rig"))
from engines import Postgresql15, Postgresql18  # noqa: E402
from processes import run  # noqa: E402

SOURCE = Path(__file__).resolve().parents[2] / "pg_extension/t"
IPC_RUN = Path("/usr/share/perl5/IPC")  # libipc-run-perl; pure Perl: every Perl can take it
TIMEOUT_S = 150


def with_capabilities(command):
    """A setpriv command that keeps what flushlightd needs."""
    kept = "+bpf,+perfmon"
    if any("caps=" in str(part) for part in command):
        return [f"{part},{kept}" if "caps=" in str(part) else part for part in command]
    return [*command, f"--inh-caps={kept}", f"--ambient-caps={kept}"]


class Tap15(Postgresql15):
    """The tests make the servers; this gives them the folders and programs."""

    perl_library = IPC_RUN.parent

    @property
    def tests(self):
        return self.folder / "tests"

    @property
    def work(self):
        return self.folder / "run"

    def setpriv(self, user):
        return with_capabilities(super().setpriv(user))

    def flushlightd(self):
        return self.built("sidecar", "flushlightd")


class Tap18(Postgresql18):
    """In its root directory are a Perl and a prove, but neither IPC::Run nor our daemon's libraries: both are this machine's."""

    perl_library = Path("/rig")
    tests = Path("/rig/tests")
    work = Path("/rig/work")
    host = Path("/rig/host")

    def binds(self):
        return {"tests": self.folder / "tests", "work": self.folder / "run", "IPC": IPC_RUN, "host": "/"}

    def more_mounts(self):
        return [*super().more_mounts(), f"mount --rbind /sys {shlex.quote(str(self.root))}/sys"]  # the kernel's types

    def enter(self):
        return with_capabilities(super().enter())

    def flushlightd(self):
        libraries = self.host / "usr/lib/x86_64-linux-gnu"
        program = self.folder / "run/flushlightd"
        program.write_text(f"#!/bin/sh\nexec {libraries}/ld-linux-x86-64.so.2 --library-path {libraries} "
                           f"{self.host}{self.built('sidecar', 'flushlightd')} \"$@\"\n")
        program.chmod(0o755)
        return self.work / "flushlightd"


class Tap(unittest.TestCase):
    def test_prove(self):
        self.assertTrue((IPC_RUN / "Run.pm").exists(), "Perl's IPC::Run is not installed: tools/install-deps")
        disk = PlainDisk(Path(OPTIONS.build) / f"scenario-Tap-{OPTIONS.version}", Path(OPTIONS.build) / "tests/rig")
        disk.__enter__()
        self.addCleanup(disk.__exit__)
        server = {15: Tap15, 18: Tap18}[OPTIONS.version](disk, OPTIONS.engines, disk.folder, OPTIONS.build)
        (server.folder / "run").mkdir(parents=True)
        os.chown(server.folder / "run", *server.owner())
        shutil.copytree(SOURCE, server.folder / "tests")
        server.stage()

        programs = f"{server.programs()}/lib/pgxs/src/test"
        environment = dict(server.environment(), TESTDIR=str(server.work), TESTDATADIR=f"{server.work}/tmp_check",
                           TESTLOGDIR=f"{server.work}/tmp_check/log", TMPDIR=str(server.work), PERL5LIB=str(server.perl_library),
                           PATH=f"{server.programs()}/bin:{server.environment()['PATH']}", PG_REGRESS=f"{programs}/regress/pg_regress",
                           PG_TEST_TIMEOUT_DEFAULT="60", FLUSHLIGHTD=str(server.flushlightd()), FLUSHLIGHT_TIER="A")
        tests = [server.tests / path.name for path in sorted(SOURCE.glob("*.pl"))]
        result = run(*server.entering("prove", "--timer", "-I", f"{programs}/perl", *tests), check=False, timeout=TIMEOUT_S, cwd="/",
                     env=environment)
        print(result.stdout)
        logs = "".join(f"--- {path.name}\n{path.read_text(errors='replace')[-4000:]}\n" for path in (server.folder / "run/tmp_check/log").glob("*"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr + logs)
        self.assertIn(f"Files={len(tests)}, ", result.stdout)
        self.assertNotIn("skipped", result.stdout)


if __name__ == "__main__":
    main()
