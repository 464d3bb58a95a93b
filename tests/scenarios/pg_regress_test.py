#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""pg_extension's own regression tests (what `make installcheck` runs), on a private server without a daemon."""
import shutil
import subprocess
import unittest
from pathlib import Path

from pg_case import OPTIONS, PostgresCase, main

SOURCE = Path(__file__).resolve().parents[2] / "pg_extension"
# pg_regress and psql of one version talk to every server
TOOLS_VERSION = 15


class Regress(PostgresCase):
    with_fake_daemon = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.sql("DROP EXTENSION flushlight")
        cls.server.setting("flushlight.socket", "'/run/flushlight/flushlight.sock'")

    def test_expected_output(self):
        if Path("/run/flushlight/flushlight.sock").exists():
            raise unittest.SkipTest("a flushlightd serves this machine")
        root = Path(OPTIONS.engines) / f"postgresql{TOOLS_VERSION}/root"
        programs = root / f"usr/lib/postgresql/{TOOLS_VERSION}"
        output = self.disk.folder / "regress"
        output.mkdir()
        tests = sorted(path.stem for path in (SOURCE / "sql").glob("*.sql"))
        tests.sort(key=lambda name: name != "objects")  # it creates the extension
        command = [programs / "lib/pgxs/src/test/regress/pg_regress", f"--bindir={programs}/bin", f"--inputdir={SOURCE}",
                   f"--outputdir={output}", "--use-existing", "--dbname=rig", f"--host={self.server.socket}", "--user=postgres", *tests]
        result = subprocess.run([str(part) for part in command], text=True, capture_output=True, cwd=output,
                                env=dict(self.server.environment(), LD_LIBRARY_PATH=str(root / "usr/lib/x86_64-linux-gnu")))
        differences = output / "regression.diffs"
        if OPTIONS.keep:
            shutil.copytree(output / "results", OPTIONS.keep, dirs_exist_ok=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr + (differences.read_text() if differences.exists() else ""))


if __name__ == "__main__":
    main()
