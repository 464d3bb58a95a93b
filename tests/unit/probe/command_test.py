#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""`flushlight probe` as a command: what it refuses and how, what it prints, and that nothing stays of it."""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

OPTIONS = None
PROJECT = Path(__file__).resolve().parents[3]
DONE, FAILED, STOPPED, USAGE = 0, 1, 3, 64
SMALL = ("--size-mb", 8, "--reserve-percent", 0)


def fields_of(value, path=""):
    """Paths of all fields of a JSON value; list elements are named []."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield f"{path}{key}"
            yield from fields_of(below, f"{path}{key}.")
    elif isinstance(value, list) and not path.endswith("histogram."):
        for below in value:
            yield from fields_of(below, path[:-1] + "[].")


class Probe(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="command-", dir=OPTIONS.folder))
        self.addCleanup(shutil.rmtree, self.folder)

    def command(self, *arguments):
        return [OPTIONS.program, "probe", "--socket", str(self.folder / "none.sock"), *map(str, arguments)]

    def probe(self, *arguments, **kw):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=60, **kw)

    def assert_nothing_left(self, folder=None):
        self.assertEqual(os.listdir(folder or self.folder), [])

    def test_hostile_inputs(self):
        file = self.folder / "file"
        file.write_text("x")
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        dangling = self.folder / "dangling"
        dangling.symlink_to(self.folder / "nowhere")
        loop = self.folder / "loop"
        loop.symlink_to(loop)
        here = self.folder / "here"
        here.mkdir()
        rows = [
            # arguments, exit code, what stderr says
            ((), USAGE, "give a directory"),
            (("",), USAGE, "give a directory"),
            ((here, "--only", "nothing-*"), USAGE, "--list"),
            ((here, "--only", "["), USAGE, "--list"),
            ((here, "--only", "%s%n"), USAGE, "--list"),
            ((here, "--seconds", "0"), USAGE, "--seconds"),
            ((here, "--seconds", "-1"), USAGE, "--seconds"),
            ((here, "--seconds", "nan"), USAGE, "--seconds"),
            ((here, "--seconds", "1e300"), USAGE, "--seconds"),
            ((here, "--rate", "nan"), USAGE, "--rate"),
            ((here, "--stop-at-commit-p99-ms", "inf"), USAGE, "--stop-at-commit-p99-ms"),
            ((here, "--seconds", "x"), USAGE, "--seconds"),
            ((here, "--size-mb", "0"), USAGE, "--size-mb"),
            ((here, "--size-mb", "-1"), USAGE, "--size-mb"),
            ((here, "--size-mb", "99999999999999999999"), USAGE, "--size-mb"),
            ((here, "--rate", "-1"), USAGE, "--rate"),
            ((here, "--workers", "0"), USAGE, "--workers"),
            ((here, "--workers", "1000000"), USAGE, "--workers"),
            ((here, "--written-mb-max", "0"), USAGE, "--written-mb-max"),
            ((here, "--reserve-percent", "101"), USAGE, "--reserve-percent"),
            ((here, "--stop-at-commit-p99-ms", "-5"), USAGE, "--stop-at-commit-p99-ms"),
            ((here, "--no-such-option"), USAGE, "no-such-option"),
            ((here, here), USAGE, ""),
            ((self.folder / "nothing",), FAILED, "does not exist"),
            ((self.folder / "nothing\n\x1b[31m",), FAILED, "does not exist"),
            ((dangling,), FAILED, "does not exist"),
            ((loop,), FAILED, "symbolic links"),
            ((file,), FAILED, "is a file"),
            ((file / "below",), FAILED, "Not a directory"),
            ((pipe,), FAILED, "is a pipe"),
            (("x" * 5000,), FAILED, "too long"),
            (("/dev/null",), FAILED, "character device"),
            (("/proc/self",), FAILED, "proc"),
            (("/sys",), FAILED, "sysfs"),
            (("/dev/shm",), FAILED, "tmpfs"),
            ((here, "--size-mb", 1 << 20), FAILED, "MB free"),
            ((here, "--reserve-percent", 99), FAILED, "99 %"),
            ((here, "--stop-at-commit-p99-ms", "10"), FAILED, "needs the daemon"),
        ]
        blocks = [f"/dev/{name}" for name in os.listdir("/sys/block") if os.path.exists(f"/dev/{name}")]
        if blocks:
            rows.append(((blocks[0],), FAILED, "block device"))
        for arguments, code, says in rows:
            with self.subTest(arguments=str(arguments)[:100]):
                result = self.probe(*arguments)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(says, result.stderr)
                self.assertEqual(result.stdout, "")
                self.assertNotIn("\x1b", result.stderr)
        self.assert_nothing_left(here)

    @unittest.skipIf(os.geteuid() == 0 and not shutil.which("setpriv"), "root may write anywhere, and there is no setpriv")
    def test_no_right_to_write(self):
        self.folder.chmod(0o555)
        command = self.command(self.folder)
        if os.geteuid() == 0:
            command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *command]
        result = subprocess.run(command, capture_output=True, text=True, timeout=30)
        if "setpriv" in result.stderr or result.returncode == 126 or result.returncode == 127:
            self.skipTest(f"another user cannot run the program here: {result.stderr.strip()}")
        self.assertEqual(result.returncode, FAILED, result.stderr)
        self.assertRegex(result.stderr, "cannot be written by user|Permission denied")

    def test_list(self):
        result = self.probe("--list")
        self.assertEqual(result.returncode, DONE)
        self.assertIn("log-8k-fdatasync\n", result.stdout)
        self.assertLess(len(self.probe("--list", "--quick").stdout), len(result.stdout))

    def test_json_has_the_documented_fields(self):
        """Every field is in docs/probe.md, and everything there is a field."""
        result = self.probe(self.folder, "--json", "--seconds", 0.6, "--only", "log-8k-f*,log-bulk-8k-fdatasync,read-8k-depth1-sync", *SMALL)
        self.assertIn(result.returncode, (DONE, STOPPED), result.stderr)
        report = json.loads(result.stdout)
        seen = set(fields_of(report))
        if report["stopped"] is None:
            seen |= {"stopped.cause", "stopped.detail"}
        text = (PROJECT / "docs/probe.md").read_text().split("## JSON")[1].split("\n## ")[0]
        documented = set()
        for row in re.findall(r"^\| (.*?) \|", text, re.M):
            documented.update(re.findall(r"`([\w.\[\]]+)`", row))
        if not report["place"]["devices"]:
            documented = {name for name in documented if not name.startswith("place.devices[]")}
        self.assertEqual(seen, documented)
        self.assert_nothing_left()

    def test_text(self):
        result = self.probe(self.folder, "--seconds", 1.9, "--only", "log-8k-*", *SMALL)
        self.assertEqual(result.returncode, DONE, result.stderr)
        self.assertIn("wal_sync_method", result.stdout)
        self.assertIn("Flush: ", result.stdout)
        self.assertEqual(result.stderr, "", "no progress below two seconds")

    def test_progress(self):
        result = self.probe(self.folder, "--seconds", 3, "--only", "log-8k-fdatasync", *SMALL)
        self.assertEqual(result.returncode, DONE, result.stderr)
        self.assertRegex(result.stderr, r"1/1 log-8k-fdatasync; \d s left")
        result = self.probe(self.folder, "--seconds", 2.5, "--only", "log-8k-fdatasync", "--quiet", *SMALL)
        self.assertEqual(result.stderr, "")

    def running(self):
        process = subprocess.Popen(self.command(self.folder, "--seconds", 30, "--size-mb", 64, "--reserve-percent", 0, "--json"),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 20
        while time.monotonic() < until:  # it has its files open
            links = []
            for entry in Path(f"/proc/{process.pid}/fd").iterdir():
                try:
                    links.append(os.readlink(entry))
                except OSError:
                    pass
            if sum("(deleted)" in link and str(self.folder) in link for link in links) >= 3:
                return process
            time.sleep(0.05)
        process.kill()
        self.fail(f"no files yet: {process.communicate()[1]}")

    def test_killed(self):
        process = self.running()
        self.assert_nothing_left()
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=20)
        self.assert_nothing_left()

    def test_interrupted(self):
        process = self.running()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
        self.assertEqual(process.returncode, STOPPED, errors)
        report = json.loads(out)
        self.assertEqual(report["stopped"], {"cause": "signal", "detail": "signal 2"})
        self.assertIn("not_run", {row["state"] for row in report["patterns"]})
        self.assert_nothing_left()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--folder", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
