#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The packagers' way: pg_extension's own Makefile, through PGXS, makes and installs the same files."""
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from pg_case import OPTIONS, main

SOURCE = Path(__file__).resolve().parents[2]


class Pgxs(unittest.TestCase):
    def test_make_and_install(self):
        folder = Path(OPTIONS.build) / "scenario-pgxs"
        shutil.rmtree(folder, ignore_errors=True)
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        for part in ("abi", "engine_client", "pg_extension"):
            shutil.copytree(SOURCE / part, folder / "source" / part)
        root = Path(OPTIONS.engines) / "postgresql15/root"
        # the unpacked pg_config prints the paths of an installed one
        pg_config = folder / "pg_config"
        pg_config.write_text(f"#!/bin/sh\nLD_LIBRARY_PATH={root}/usr/lib/x86_64-linux-gnu {root}/usr/lib/postgresql/15/bin/pg_config \"$@\" "
                             f"| sed 's,^/usr,{root}/usr,'\n")
        pg_config.chmod(0o755)

        def make(*goals):
            result = subprocess.run(["make", *goals, f"PG_CONFIG={pg_config}", f"DESTDIR={folder}/installed", "COPT=-Werror"], text=True,
                                    cwd=folder / "source/pg_extension", capture_output=True)
            self.assertEqual(result.returncode, 0, result.stdout[-2000:] + result.stderr[-2000:])
            return result.stdout

        make("all")
        make("install")
        installed = sorted(path.name for path in (folder / "installed").rglob("*") if path.is_file())
        self.assertEqual(installed, ["flushlight--0.0--0.1.sql", "flushlight--0.0.sql", "flushlight--0.1.sql", "flushlight.control", "flushlight.so"])
        # pg_tap_test.py and pg_regress_test.py run what this would run
        would_run = make("-n", "installcheck")
        self.assertRegex(would_run, r"prove .* t/\*\.pl")
        self.assertRegex(would_run, r"pg_regress .* objects absent settings")


if __name__ == "__main__":
    if "18" in sys.argv:
        print("SKIP: pg_config of PostgreSQL 18 runs in its own root directory only")
        sys.exit(77)
    main()
