#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""flushlight probe on the slow device: its medians are what was held, its percentiles are fio's, it leaves nothing, and
it ends when the databases' commits suffer."""
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from device import SlowDevice, clean  # noqa: E402
from locations import build_folder, lacking, run_folder, tools_folder  # noqa: E402
from processes import run  # noqa: E402

HELD_TOLERANCE = 0.05
HELD_MS = 100  # a wake-up on a busy machine takes a tick of 4 ms more
FIO_TOLERANCE = 0.10
FIO_ROUNDS, FIO_SECONDS = 5, 3
AGAIN = 3  # a busy machine spoils the one or the other, a wrong figure is wrong each time
PERCENTILES = (("p50_ms", "50.000000"), ("p90_ms", "90.000000"), ("p95_ms", "95.000000"), ("p99_ms", "99.000000"))
# What fsync and O_SYNC cost on ext4 beside the data: the time stamp of the file is in the journal, whose commit (no FUA
# here) is descriptor, flush, commit block, flush; the data are written before.
JOURNAL_TOO = ("fsync", "open_sync")
FLUSHES_WITH_JOURNAL, WRITES_WITH_JOURNAL = 2, 3
DONE, FAILED, STOPPED = 0, 1, 3
SLOWER_MS = 80


def program():
    found = build_folder() / "sidecar/flushlight"
    return found if found.exists() else None


class OnDevice(unittest.TestCase):
    def setUp(self):
        self.folder = run_folder() / "probe"
        self.assertEqual(clean(self.folder, tools_folder() / "slowctl"), [])
        self.addCleanup(clean, self.folder, tools_folder() / "slowctl")

    def device(self, fs="ext4"):
        return SlowDevice(self.folder, tools_folder(), fs, size_mb=400, fifo=True)

    @staticmethod
    def command(where, *arguments):
        small = [] if "--reserve-percent" in arguments else ["--reserve-percent", 1]
        return [str(part) for part in (program(), "probe", "--json", "--quiet", where, "--size-mb", 32, *small, *arguments)]

    def probe(self, where, *arguments, code=DONE):
        result = subprocess.run(self.command(where, *arguments), capture_output=True, text=True, timeout=240)
        self.assertEqual(result.returncode, code, result.stderr + result.stdout[-2000:])
        return json.loads(result.stdout) if result.stdout else result.stderr

    def assert_nothing_left(self, device):
        self.assertEqual([name for name in os.listdir(device.mount) if name != "lost+found"], [])


class Held(OnDevice):
    """One thread, and what each of its operations waits for is one after the other: the medians must agree."""

    def measure(self, device, kind, ms, only, with_journal):
        """The probe's report, and rows (pattern, what was held of an operation, its p50)."""
        device.hold(**{f"{kind}_ms": ms})
        first = device.logged()
        report = self.probe(device.mount, "--seconds", 14, "--only", only)
        operations = device.operations(first, kind)
        device.off()
        self.assertIsNone(report["stopped"], report["stopped"])
        rows = []
        for row in report["patterns"]:
            self.assertEqual(row["state"], "measured", row["reason"])
            held = [(end - begin) / 1e6 for _, begin, _, end, *_ in operations if row["began_ns"] <= begin and end <= row["ended_ns"]]
            self.assertGreaterEqual(len(held), 10)
            self.assertGreaterEqual(statistics.median(held), ms)
            journal = row["group"] == "log-grows" or (device.fs == "ext4" and row["method"] in JOURNAL_TOO)
            rows.append((row["name"], (with_journal if journal else 1) * statistics.median(held), row["p50_ms"]))
        return report, rows

    def check(self, fs, kind, ms, only, with_journal=1):
        with self.device(fs) as device:
            for again in range(AGAIN):
                report, rows = self.measure(device, kind, ms, only, with_journal)
                print(f"{fs} {kind} {ms} ms: " + ", ".join(f"{name} {held:.2f} / {p50:.2f}" for name, held, p50 in rows) + " (held / p50)",
                      flush=True)
                if all(abs(p50 / held - 1) < HELD_TOLERANCE for _, held, p50 in rows):
                    break
            self.assert_nothing_left(device)
        for name, held, p50 in rows:
            with self.subTest(fs=fs, kind=kind, pattern=name):
                self.assertLess(abs(p50 / held - 1), HELD_TOLERANCE, f"tried {again + 1} times")
        return report

    def test_flush_ext4(self):
        report = self.check("ext4", "flush", HELD_MS, "log-8k-*", FLUSHES_WITH_JOURNAL)
        self.assertEqual(report["flush"]["state"], "plausible")
        self.assertEqual(len(report["wal_sync_method"]["methods"]), 4)
        sync = next(row for row in report["patterns"] if row["name"] == "log-8k-fdatasync")["sync"]
        self.assertGreaterEqual(sync["p50_ms"], HELD_MS)

    def test_flush_xfs(self):
        self.check("xfs", "flush", HELD_MS, "log-512-fdatasync,log-64k-open_datasync,log-4k-io_uring")

    def test_write_ext4(self):
        self.check("ext4", "write", HELD_MS, "log-8k-fdatasync,log-8k-open_sync,log-64k-rwf_dsync,log-8k-io_uring",
                   WRITES_WITH_JOURNAL)

    def test_journal_of_a_log_that_grows(self):
        self.check("ext4", "flush", HELD_MS, "log-grows-4k-fdatasync", FLUSHES_WITH_JOURNAL)

    def test_read_ext4(self):
        self.check("ext4", "read", HELD_MS, "read-8k-depth1-*,read-16k-depth4-io_uring,read-16k-depth4-sqpoll")

    def test_without_a_hold_the_flush_is_not_believed(self):
        with self.device() as device:
            report = self.probe(device.mount, "--seconds", 3, "--only", "log-8k-f*")
            self.assertEqual(report["place"]["disk"], device.loop)
            fast = report["flush"]["p50_ms"] < report["flush"]["limit_ms"]
            print(f"without a hold: {report['flush']['text']}", flush=True)
            self.assertEqual(report["flush"]["state"], "implausible" if fast else "plausible")
            if fast:
                report = self.probe(device.mount, "--seconds", 3, "--only", "log-8k-f*", "--power-loss-protection")
                self.assertIn(report["flush"]["state"], ("declared", "plausible"))


class Place(OnDevice):
    def test_full_file_system(self):
        with self.device() as device:
            usage = os.statvfs(device.mount)
            with open(device.mount / "filler", "wb") as file:
                os.posix_fallocate(file.fileno(), 0, usage.f_bavail * usage.f_frsize - (20 << 20))
            self.assertIn("MB free", self.probe(device.mount, code=FAILED))
            os.unlink(device.mount / "filler")

    def test_read_only_file_system(self):
        with self.device() as device:
            run("mount", "-o", "remount,ro", device.mount)
            self.assertIn("mounted read-only", self.probe(device.mount, code=FAILED))

    def test_block_device(self):
        with self.device() as device:
            self.assertIn("is a block device", self.probe(f"/dev/{device.loop}", code=FAILED))

    def test_others_fill_it(self):
        with self.device() as device:
            device.hold(flush_ms=5)
            process = subprocess.Popen(self.command(device.mount, "--seconds", 60, "--only", "log-8k-fdatasync",
                                                    "--reserve-percent", 10), stdout=subprocess.PIPE, text=True)
            time.sleep(2)
            usage = os.statvfs(device.mount)
            with open(device.mount / "filler", "wb") as file:
                os.posix_fallocate(file.fileno(), 0, usage.f_bavail * usage.f_frsize - (8 << 20))
            out, _ = process.communicate(timeout=20)
            self.assertEqual(process.returncode, STOPPED)
            report = json.loads(out)
            self.assertEqual(report["stopped"]["cause"], "space")
            self.assertEqual(report["patterns"][0]["state"], "measured")

    def test_killed(self):
        with self.device() as device:
            free_before = os.statvfs(device.mount).f_bfree
            device.hold(flush_ms=50)
            for seconds in (0.3, 1.5, 3):  # while it writes its files, while it measures
                process = subprocess.Popen(self.command(device.mount, "--seconds", 60), stdout=subprocess.DEVNULL)
                time.sleep(seconds)
                self.assert_nothing_left(device)
                process.send_signal(signal.SIGKILL)
                process.wait(timeout=20)
                self.assert_nothing_left(device)
            device.off()
            os.sync()
            self.assertAlmostEqual(os.statvfs(device.mount).f_bfree, free_before, delta=64)


@unittest.skipUnless(shutil.which("fio"), "fio is not installed")
class Fio(OnDevice):
    """The same pattern, in turns: probe, fio, probe, fio, ..."""

    def fio(self, where, seconds, *arguments):
        command = ["nice", "-n", "-20", "fio", "--name=f", f"--filename={where}/fio", "--size=32m", "--output-format=json", "--time_based",
                   f"--runtime={seconds}", "--percentile_list=50:90:95:99", "--invalidate=0", *arguments]
        return json.loads(run(*command, timeout=120).stdout)["jobs"][0]

    def compared(self, device, pattern, fio_arguments, of_probe, of_fio):
        """Rows (percentile, the probe's, fio's), each the median of the rounds."""
        ours, theirs = [], []
        for _ in range(FIO_ROUNDS):
            command = ["nice", "-n", "-20", *self.command(device.mount, "--seconds", FIO_SECONDS + 1, "--only", pattern)]
            ours.append(of_probe(json.loads(run(*command, timeout=60).stdout)["patterns"][0]))
            theirs.append(of_fio(self.fio(device.mount, FIO_SECONDS, *fio_arguments)))
        rows = []
        for our_name, their_name in PERCENTILES:
            rows.append((our_name, statistics.median(figures[our_name] for figures in ours),
                         statistics.median(figures["percentile"][their_name] for figures in theirs) / 1e6))
        print(f"{pattern}: " + ", ".join(f"{name[:-3]} {mine:.2f} / {fios:.2f}" for name, mine, fios in rows) + " ms (probe / fio)", flush=True)
        return rows

    def check(self, hold, pattern, *how):
        with self.device() as device:
            self.fio(device.mount, 1, "--rw=write", "--bs=1m", "--end_fsync=1")  # the file is there, in full
            device.hold(**hold)
            for again in range(AGAIN):
                rows = self.compared(device, pattern, *how)
                if all(abs(mine / fios - 1) < FIO_TOLERANCE for _, mine, fios in rows):
                    break
            device.off()
        for name, mine, fios in rows:
            self.assertLess(abs(mine / fios - 1), FIO_TOLERANCE, f"{pattern} {name}, tried {again + 1} times")

    def test_fdatasync(self):
        self.check({"flush_ms": 10}, "log-8k-fdatasync", ["--rw=write", "--bs=8k", "--ioengine=psync", "--fdatasync=1", "--overwrite=1"],
                   lambda row: row["sync"], lambda job: job["sync"]["lat_ns"])

    def test_open_datasync(self):
        self.check({"flush_ms": 6, "write_ms": 4}, "log-8k-open_datasync",
                   ["--rw=write", "--bs=8k", "--ioengine=psync", "--sync=dsync", "--overwrite=1"],
                   lambda row: row, lambda job: job["write"]["clat_ns"])

    def test_reads(self):
        self.check({"read_ms": 10}, "read-8k-depth1-sync", ["--rw=randread", "--bs=8k", "--ioengine=psync", "--direct=1"],
                   lambda row: row, lambda job: job["read"]["clat_ns"])

    def test_reads_in_a_ring(self):
        self.check({"read_ms": 10}, "read-16k-depth16-io_uring",
                   ["--rw=randread", "--bs=16k", "--ioengine=io_uring", "--iodepth=16", "--direct=1"],
                   lambda row: row, lambda job: job["read"]["clat_ns"])


class Matrix(OnDevice):
    """Queue settings of the rig's own loop device, changed and put back. Never another device's."""

    def setUp(self):
        super().setUp()
        self.state = self.folder.with_name("probe-queue-state")
        shutil.rmtree(self.state, ignore_errors=True)
        self.addCleanup(shutil.rmtree, self.state, True)

    def settings(self, device):
        folder = Path("/sys/block") / device.loop / "queue"
        return {name: (folder / name).read_text().strip() for name in ("scheduler", "nr_requests", "nomerges")}

    def matrix(self, device, seconds=20):
        return self.command(device.mount, "--matrix", "--device", device.loop, f"--yes-change-{device.loop}", "--seconds", seconds,
                            "--only", "log-8k-fdatasync", "--state-folder", self.state)

    def restore(self):
        return subprocess.run([str(program()), "probe", "--restore", "--state-folder", str(self.state)], capture_output=True, text=True,
                              timeout=30)

    def begin(self, device, before):
        """A matrix under way, with settings that differ from what they were."""
        process = subprocess.Popen(self.matrix(device, 60), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 20
        # The first combination is the present one, and setting nr_requests goes by way of another number.
        while time.monotonic() < until and self.settings(device)["nomerges"] == before["nomerges"]:
            time.sleep(0.01)
        self.assertNotEqual(self.settings(device), before)
        return process

    def guard_of(self, process):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        self.assertEqual(len(children), 1)
        return int(children[0])

    def wait_until_back(self, device, before):
        until = time.monotonic() + 5
        while time.monotonic() < until and (self.settings(device) != before or os.listdir(self.state)):
            time.sleep(0.02)
        self.assertEqual(self.settings(device), before)
        self.assertEqual(os.listdir(self.state), [])

    def test_all_of_it(self):
        with self.device() as device:
            before = self.settings(device)
            result = subprocess.run(self.matrix(device), capture_output=True, text=True, timeout=120)
            self.assertEqual(result.returncode, DONE, result.stderr)
            self.assertEqual(self.settings(device), before)
            report = json.loads(result.stdout)
            rows = report["combinations"]
            print(f"{len(rows)} combinations: {report['text']}", flush=True)
            self.assertTrue(rows[0]["present"] and rows[-1]["present"])
            measured = [row for row in rows if row["figure_ms"] is not None]
            self.assertGreater(len(measured), len(rows) / 2, [row["refusal"] for row in rows])
            tags = int((Path("/sys/block") / device.loop / "mq/0/nr_tags").read_text())
            self.assertLessEqual(max(row["nr_requests"] for row in rows[1:-1]), tags)
            schedulers = before["scheduler"].replace("[", "").replace("]", "").split()
            self.assertEqual({row["scheduler"] for row in measured}, set(schedulers))
            self.assertEqual(self.restore().stdout, "nothing to put back\n")

    def test_interrupted(self):
        with self.device() as device:
            before = self.settings(device)
            process = self.begin(device, before)
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=20)
            self.assertEqual(process.returncode, STOPPED, errors)
            self.assertEqual(json.loads(out)["stopped"]["cause"], "signal")
            self.assertEqual(self.settings(device), before)

    def test_killed_the_guard_puts_back(self):
        with self.device() as device:
            before = self.settings(device)
            process = self.begin(device, before)
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=20)
            self.wait_until_back(device, before)

    def test_killed_with_the_guard_restore_puts_back(self):
        with self.device() as device:
            before = self.settings(device)
            process = self.begin(device, before)
            os.kill(self.guard_of(process), signal.SIGKILL)
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=20)
            self.assertNotEqual(self.settings(device), before)
            again = subprocess.run(self.matrix(device), capture_output=True, text=True, timeout=30)
            self.assertEqual(again.returncode, FAILED)
            self.assertIn("--restore", again.stderr)
            result = self.restore()
            self.assertEqual(result.returncode, DONE, result.stderr)
            self.assertIn(f"{device.loop}: put back", result.stdout)
            self.assertEqual(self.settings(device), before)

    def test_what_it_refuses(self):
        with self.device() as device:
            before = self.settings(device)
            other = next(name for name in sorted(os.listdir("/sys/block")) if name != device.loop)
            for arguments, code, says in [
                    (("--matrix",), 64, "--device"),
                    (("--matrix", "--device", device.loop), 64, "not confirmed"),
                    (("--matrix", "--device", device.loop, f"--yes-change-{other}"), 64, "another device"),
                    (("--matrix", "--device", other, f"--yes-change-{other}"), FAILED, f"it lies on {device.loop}"),
                    (("--matrix", "--device", "../x", "--yes-change-../x"), FAILED, "not the name"),
                    (("--device", device.loop), 64, "--matrix"),
                    ((f"--yes-change-{device.loop}",), 64, "--matrix"),
                    (("--matrix", "--device", device.loop, f"--yes-change-{device.loop}", "--seconds", 1), FAILED, "--seconds")]:
                with self.subTest(arguments=arguments):
                    result = subprocess.run(self.command(device.mount, "--state-folder", self.state, *arguments), capture_output=True,
                                            text=True, timeout=30, stdin=subprocess.DEVNULL)
                    self.assertEqual(result.returncode, code, result.stderr)
                    self.assertIn(says, result.stderr)
                    self.assertEqual(self.settings(device), before)


class Commits(unittest.TestCase):
    """A real server beside it, and a daemon that knows what its commits suffer."""

    def run_beside(self, *arguments, slower_after_s=None):
        """The probe's result, how long it took, and after how long the device became slower."""
        from measure import Load
        from session import running
        with running("postgres15", "ext4", name="probe-commits") as (server, daemon):
            server.device.hold(flush_ms=2)
            load = Load(server, 4, 14)
            beside = threading.Thread(target=load.go)
            beside.start()
            time.sleep(2)
            began, slower = time.monotonic(), []
            process = subprocess.Popen(OnDevice.command(server.device.mount, "--socket", daemon.socket, "--seconds", 9, *arguments),
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if slower_after_s:
                time.sleep(slower_after_s)
                self.assertIsNone(process.poll(), "it ended before there was a reason")
                server.device.hold(flush_ms=SLOWER_MS)
                slower.append(time.monotonic() - began)
            out, errors = process.communicate(timeout=60)
            took = time.monotonic() - began
            beside.join()
        return subprocess.CompletedProcess(process.args, process.returncode, out, errors), took, *slower

    def test_ends_when_they_suffer(self):
        result, took, slower = self.run_beside("--only", "log-8k-fdatasync", "--rate", "20", "--stop-at-commit-p99-ms", SLOWER_MS - 20,
                                               slower_after_s=4)
        self.assertEqual(result.returncode, STOPPED, result.stderr)
        report = json.loads(result.stdout)
        print(f"slower after {slower:.1f} s, ended after {took:.1f} s: {report['stopped']['detail']}; before: "
              f"{report['watch']['baseline_p99_ms']:.1f} ms", flush=True)
        self.assertEqual(report["stopped"]["cause"], "commits")
        self.assertLess(report["watch"]["baseline_p99_ms"], SLOWER_MS - 20)
        self.assertLess(took - slower, 4)

    def test_goes_on_while_they_do_not(self):
        result, *_ = self.run_beside("--only", "log-8k-fdatasync", "--rate", "20", "--stop-at-commit-p99-ms", "5000")
        self.assertEqual(result.returncode, DONE, result.stderr)
        watch = json.loads(result.stdout)["watch"]
        self.assertEqual(watch["state"], "watched")
        self.assertGreater(watch["commits"], 100)
        self.assertGreater(watch["baseline_p99_ms"], 2)
        self.assertLess(watch["worst_p99_ms"], 5000)


if __name__ == "__main__":
    missing = lacking() or (None if program() else "flushlight is not built")
    if missing:
        print(f"skipped: {missing}")
        sys.exit(77)
    unittest.main(verbosity=2, warnings="ignore")
