#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The demo says what it promises, and leaves nothing behind: after a full run, after Ctrl-C, and, once it has run
again, after kill -9."""
import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "tests/rig"))
from device import loops_below, mounts_below  # noqa: E402
from locations import run_folder  # noqa: E402

DEMO = [sys.executable, str(PROJECT / "tools/demo.py"), "--seconds", "3"]
GUARD_PATIENCE_S = 30


def processes_of(folder):
    """Processes whose command line names the demo's folders; ours excepted."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if f"{folder}/demo-" in line:
                found.append(f"{entry.name} {line[:120]}")
    return found


def left_behind(folder):
    folders = [str(path) for path in folder.glob("demo-*")] if folder.exists() else []
    mounts = [point for point in mounts_below(folder) if "/demo-" in point]
    return folders + mounts + loops_below(folder) + processes_of(folder)


class DemoTest(unittest.TestCase):
    def setUp(self):
        self.folder = run_folder()

    def assert_clean(self, patience_s=0):
        until = time.monotonic() + patience_s
        while (left := left_behind(self.folder)) and time.monotonic() < until:
            time.sleep(0.5)
        self.assertEqual(left, [])

    def start_and_wait_for(self, text):
        process = subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   start_new_session=True)
        for line in process.stdout:
            if text in line:
                return process
        self.fail(f"the demo ended without '{text}'")

    def test_says_what_it_promises(self):
        run = subprocess.run(DEMO, capture_output=True, text=True, timeout=150)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        slow = "no slow device here" not in run.stdout
        titles = ["each flush held for 40 ms", "after the fault"] if slow else ["on the plain disk, no fault"]
        for engine in ("MariaDB", "PostgreSQL"):
            for title in titles:
                part = run.stdout.split(f"--- {engine}: {title} ---")[1].split("\n--- ")[0]
                self.assertIn("UPDATE web_sessions SET hits", part)
                self.assertIn("COMMIT", part)
                if title.startswith("each flush"):
                    first = re.search(r"UPDATE web_sessions .*\n\s+(\w+) (\d+) %", part)
                    self.assertEqual(first.group(1), "flush", part)
                    self.assertGreater(int(first.group(2)), 70, part)
                    self.assertRegex(part, r'cause flush, path \w+: .*\n\s+"[^"]*flush[^"]*"')
        self.assert_clean()

    def test_interrupted(self):
        process = self.start_and_wait_for("is held for" if Path("/dev/fuse").exists() else "warming up")
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        self.assertEqual(process.wait(timeout=60), 130)
        self.assert_clean()

    def test_killed_then_run_again(self):
        process = self.start_and_wait_for("warming up")
        process.kill()
        process.wait()
        process.stdout.close()
        run = subprocess.run(DEMO, capture_output=True, text=True, timeout=150)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assert_clean(GUARD_PATIENCE_S)


if __name__ == "__main__":
    unittest.main(verbosity=2)
