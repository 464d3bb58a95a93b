#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What the runner makes of a guest's words, without a guest: nothing but a complete run may pass."""
import json
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "rig")]
sys.dont_write_bytecode = True
from initramfs import Initramfs  # noqa: E402
from machine import Step, read_protocol  # noqa: E402
from steps import BOOTS, Planned, gtest, judge, summary_of, tracing_works  # noqa: E402

GOOD = ["[==========] Running 2 tests from 1 test suite.", "[       OK ] A.B (1 ms)", "[       OK ] A.C (1 ms)",
        "[==========] 2 tests from 1 test suite ran. (3 ms total)", "[  PASSED  ] 2 tests."]


class Protocol(unittest.TestCase):
    def test_a_complete_run(self):
        boot = read_protocol("@boot 6.1.0\r\n@begin one\r\nline\r\n@end one 0 1.5 4.0\r\n@begin two\n@end two 3 4.0 5.0\n@done\n")
        self.assertEqual((boot.release, boot.done, boot.problems), ("6.1.0", True, []))
        self.assertEqual(boot.steps, [Step("one", 0, 2.5, ["line"]), Step("two", 3, 1.0, [])])

    def test_a_run_that_stops(self):
        boot = read_protocol("@boot 6.1.0\n@problem module xfs\n@begin one\nhalf a li")
        self.assertFalse(boot.done)
        self.assertEqual(boot.problems, ["module xfs"])
        self.assertIsNone(boot.steps[0].code)


class Judgement(unittest.TestCase):
    planned = Planned("one", 10, [], gtest)

    def test_passes_only_what_reached_its_end(self):
        self.assertTrue(judge(self.planned, Step("one", 0, 1, GOOD))["passed"])
        self.assertFalse(judge(self.planned, Step("one", 0, 1, GOOD[:-1]))["passed"])
        self.assertFalse(judge(self.planned, Step("one", 0, 1, ["[  PASSED  ] 0 tests."]))["passed"])
        self.assertFalse(judge(self.planned, Step("one", None, 1, GOOD))["passed"])
        self.assertFalse(judge(self.planned, Step("one", 1, 1, GOOD))["passed"])
        self.assertFalse(judge(self.planned, None)["passed"])

    def test_names_what_failed(self):
        result = judge(self.planned, Step("one", 1, 1, [*GOOD, "[  FAILED  ] A.D (9 ms)", "[  FAILED  ] A.D"]))
        self.assertEqual(result["summary"], "exit 1; failed: A.D")

    def test_says_that_time_ran_out(self):
        self.assertIn("not within 10 s", judge(self.planned, Step("one", 137, 10, []))["summary"])

    def test_counts_skips(self):
        self.assertEqual(summary_of([*GOOD, "[  SKIPPED ] A.E (0 ms)", "[  SKIPPED ] 1 test, listed below:", "[  SKIPPED ] A.E"]), "2 tests ran, 1 skipped")

    def test_takes_what_was_measured(self):
        result = judge(self.planned, Step("one", 0, 1, [*GOOD, '@measured {"what": "flush", "ratio": 1.01}']))
        self.assertEqual(result["measured"], [{"what": "flush", "ratio": 1.01}])

    def test_the_daemon_must_have_seen_flushes(self):
        layers = {"name": "block devices make requests themselves", "required": False, "present": True, "detail": "all"}

        def lines(flushes=5, btf=True, state="ok", text="", point="/mnt"):
            doctor = {"requirements": [{"name": "BTF", "required": True, "present": btf}, dict(layers, detail=text or "all")]}
            report = {"health": [{"component": "tracing", "tier": "A", "state": state},
                                 {"component": "devices", "detail": text or None}],
                      "devices": [{"name": "nvme0n1", "flushes": flushes, "mount_point": point}]}
            return [f"@doctor {json.dumps(doctor)}", f"@report {json.dumps(report)}"]

        self.assertIsNone(tracing_works(lines()))
        self.assertIn("no device", tracing_works(lines(flushes=4)))
        self.assertIn("no device", tracing_works(lines(point=None)))
        self.assertIn("BTF", tracing_works(lines(btf=False)))
        self.assertIn("health", tracing_works(lines(state="degraded")))
        self.assertIn("nothing", tracing_works(lines()[:1]))
        self.assertIsNone(tracing_works(lines(text="dm-0 lies on x: y"), "dm-0 lies on x"))
        self.assertIn("layers", tracing_works(lines(), "dm-0 lies on x"))
        self.assertIn("layers", tracing_works(lines(text="dm-0 lies on x: y")))

    def test_names_of_steps_are_unique(self):
        names = [step.name for _, plan in BOOTS for step in plan]
        self.assertEqual(len(names), len(set(names)))


class Archive(unittest.TestCase):
    def test_a_program_comes_with_its_libraries(self):
        image = Initramfs()
        image.add_program(sys.executable, "vm/python")
        self.assertIn("vm/python", image._known)
        self.assertTrue(any("libc.so" in name for name in image._known))


if __name__ == "__main__":
    unittest.main()
