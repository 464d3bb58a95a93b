#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The rig itself: its faults really hold, and whatever part of it is killed, nothing is left behind."""
import mmap
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from device import SlowDevice, clean, loops_below, mounts_below, slowfs_of  # noqa: E402
from locations import lacking, run_folder, tools_folder  # noqa: E402
from processes import Registry, end, spawn, start_ticks, wait_for  # noqa: E402

BLOCK = 4096
LATE_MS = 30  # what a loaded machine may add to a hold
OWNER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from device import SlowDevice
from pathlib import Path
device = SlowDevice(sys.argv[2], sys.argv[3], sys.argv[4], size_mb=400).up()
(Path(sys.argv[2]) / "up").touch()
print("up", flush=True)
time.sleep(600)
"""
WRITER = """
import os, sys
os.chdir(sys.argv[1])
file = os.open("written", os.O_RDWR | os.O_CREAT)
print("writing", flush=True)
while True:
    os.pwrite(file, b"x" * 4096, 0)
    os.fdatasync(file)
"""


class RigTest(unittest.TestCase):
    def setUp(self):
        self.tools = tools_folder()
        self.folder = run_folder() / "selftest"
        self.assertEqual(clean(self.folder, self.tools / "slowctl"), [])

    def tearDown(self):
        clean(self.folder, self.tools / "slowctl")

    def device(self, fs="ext4"):
        return SlowDevice(self.folder, self.tools, fs, size_mb=400)

    def assert_nothing_left(self):
        self.assertEqual(mounts_below(self.folder), [])
        self.assertEqual(loops_below(self.folder), [])
        self.assertEqual(slowfs_of(self.folder), [])
        self.assertEqual(Registry(self.folder / "processes.jsonl").living(), [])
        self.assertFalse(self.folder.exists())

    def preallocated(self, device):
        file = os.open(device.mount / "file", os.O_RDWR | os.O_CREAT)
        os.pwrite(file, b"a" * BLOCK * 4, 0)
        os.fsync(file)
        return file

    def timed_ms(self, file, offset=0):
        os.pwrite(file, b"b" * BLOCK, offset)
        began = time.monotonic()
        os.fdatasync(file)
        return (time.monotonic() - began) * 1e3

    def writer(self, device):
        writer = spawn([sys.executable, "-c", WRITER, device.mount], device.registry, "writer", stdout=subprocess.PIPE, text=True)
        self.addCleanup(writer.stdout.close)
        self.assertEqual(writer.stdout.readline(), "writing\n")
        return writer


class Faults(RigTest):
    def check_hold(self, fs, kind, ms):
        with self.device(fs) as device:
            file = self.preallocated(device)
            quiet_ms = self.timed_ms(file)
            first = device.logged()
            device.hold(**{f"{kind}_ms": ms})
            slow_ms = self.timed_ms(file)
            held = [row for row in device.operations(first, kind) if row[6]]
            device.off()
            os.close(file)
        self.assert_nothing_left()
        self.assertLess(quiet_ms, ms)
        self.assertGreaterEqual(slow_ms, ms)
        self.assertLess(slow_ms, ms + LATE_MS)
        self.assertEqual(len(held), 1)
        self.assertGreaterEqual((held[0][3] - held[0][1]) / 1e6, ms)
        self.assertEqual(held[0][6], ms * 1_000_000)

    def test_flush_is_held_on_ext4(self):
        self.check_hold("ext4", "flush", 60)

    def test_flush_is_held_on_xfs(self):
        self.check_hold("xfs", "flush", 60)

    def test_write_is_held(self):
        self.check_hold("ext4", "write", 60)

    def test_read_is_held(self):
        with self.device() as device:
            file = self.preallocated(device)
            os.close(file)
            device.hold(read_ms=50)
            file = os.open(device.mount / "file", os.O_RDONLY | os.O_DIRECT)
            began = time.monotonic()
            os.preadv(file, [mmap.mmap(-1, BLOCK)], 0)  # page-aligned, as direct reads must be
            slow_ms = (time.monotonic() - began) * 1e3
            os.close(file)
        self.assertGreaterEqual(slow_ms, 50)

    def test_only_the_range_is_held(self):
        with self.device() as device:
            file = self.preallocated(device)
            first = device.logged()
            self.timed_ms(file, 0)
            place = [row for row in device.operations(first, "write")][0][4]
            device.hold(write_ms=80, offset_bytes=place, length_bytes=BLOCK)
            inside_ms, outside_ms = self.timed_ms(file, 0), self.timed_ms(file, 2 * BLOCK)
            device.off()
            os.close(file)
        self.assertGreaterEqual(inside_ms, 80)
        self.assertLess(outside_ms, 80)

    def test_freeze_holds_everything_and_can_be_lifted(self):
        with self.device() as device:
            file = self.preallocated(device)
            device.freeze(150)
            frozen_ms = self.timed_ms(file)
            device.freeze(60_000)
            lifter = subprocess.Popen(["sh", "-c", f"sleep 0.2; exec '{self.tools}/slowctl' '{device.control}' freeze=0"])
            lifted_ms = self.timed_ms(file)
            self.assertEqual(lifter.wait(), 0)
            os.close(file)
        self.assertGreaterEqual(frozen_ms, 145)
        self.assertLess(frozen_ms, 150 + LATE_MS)
        self.assertGreaterEqual(lifted_ms, 150)
        self.assertLess(lifted_ms, 2000)


class Teardown(RigTest):
    def test_after_slowfs_was_killed(self):
        device = self.device().up()
        self.writer(device)
        end(slowfs_of(self.folder), first=signal.SIGKILL)
        device.down()
        self.assert_nothing_left()

    def test_after_slowfs_was_stopped_under_a_writer(self):
        device = self.device().up()
        self.writer(device)
        for entry in slowfs_of(self.folder):
            os.kill(entry["pid"], signal.SIGSTOP)
        device.down()
        self.assert_nothing_left()

    def test_after_the_user_of_the_loop_device_was_killed(self):
        device = self.device("xfs").up()
        writer = self.writer(device)
        device.hold(flush_ms=300)
        time.sleep(0.1)
        os.kill(writer.pid, signal.SIGKILL)
        device.down()
        self.assert_nothing_left()

    def test_under_a_user_that_nobody_registered(self):
        device = self.device().up()
        user = subprocess.Popen(["sleep", "600"], cwd=device.mount, start_new_session=True)
        device.down()
        self.assertIsNotNone(user.wait(5))
        self.assert_nothing_left()

    def test_while_frozen(self):
        device = self.device().up()
        self.writer(device)
        device.freeze(600_000)
        time.sleep(0.05)
        device.down()
        self.assert_nothing_left()

    def owner(self):
        owner = subprocess.Popen([sys.executable, "-c", OWNER, Path(__file__).resolve().parent, self.folder, self.tools, "ext4"],
                                 stdout=subprocess.PIPE, text=True)
        self.addCleanup(owner.stdout.close)
        self.assertEqual(owner.stdout.readline(), "up\n")
        return owner

    def test_guard_cleans_when_the_script_was_killed(self):
        owner = self.owner()
        owner.kill()
        owner.wait()
        wait_for(lambda: not self.folder.exists(), 20, "the guard to clean")
        self.assert_nothing_left()

    def test_next_run_cleans_when_script_and_guard_were_killed(self):
        owner = self.owner()
        guards = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and self.is_guard(entry)]
        self.assertEqual(len(guards), 1)
        end([{"pid": int(guards[0].name), "ticks": start_ticks(int(guards[0].name)), "what": "guard"}], first=signal.SIGKILL)
        owner.kill()
        owner.wait()
        time.sleep(0.3)
        self.assertTrue(self.folder.exists(), "somebody else cleaned: the test shows nothing")
        with self.device() as device:
            self.assertEqual(len(mounts_below(self.folder)), 3)
            self.assertEqual(loops_below(self.folder), [device.loop])
        self.assert_nothing_left()

    def is_guard(self, entry):
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return b"guard" in arguments and str(self.folder).encode() in arguments


if __name__ == "__main__":
    if why := lacking():
        print(f"skipped: {why}")
        sys.exit(77)
    unittest.main(verbosity=2, warnings="ignore")  # processes outlive their Popen on purpose
