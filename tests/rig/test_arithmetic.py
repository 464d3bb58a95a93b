#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The rig's arithmetic and the rules that judge a measurement: no root, no device, no waiting."""
import array
import copy
import importlib.machinery
import importlib.util
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from faults import EVERYWHERE, FAULTS  # noqa: E402
from judge import judge  # noqa: E402
from kernel_trace import device_times, dirty_intervals, parsed, queue_intervals  # noqa: E402
from measure import CAUSES, PATHS, view_figures  # noqa: E402
from witness import Coverage, gap, held, union  # noqa: E402

MS = 1_000_000


def matrix_module():
    loader = importlib.machinery.SourceFileLoader("matrix", str(Path(__file__).resolve().parent / "matrix"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("matrix", loader))
    loader.exec_module(module)
    return module


def good(fault="flush", engine="postgres15", sessions=4):
    """Figures with which every rule is content."""
    account = dict.fromkeys(CAUSES, 0.0)
    account.update({"flush": 50.0, "cpu": 0.2, "other": 0.1})
    return {"engine": engine, "fault": fault, "sessions": sessions, "held_ms": 50.1, "held_in_commit_ms": 50.3,
            "commits": 100, "client_commits": 100, "client_p50_ms": 51.0, "client_p99_ms": 60.0, "commit_p50_ms": 50.8,
            "commit_p99_ms": 59.5, "account": account, "cause_sum": 1.0, "path_sum": 1.0, "closure": 0.998, "led": 30,
            "followed": 70, "unsynced": 0, "coverage": 1.0, "lost": 0, "top_cause": "flush"}


class Arithmetic(unittest.TestCase):
    def test_union_merges_what_overlaps_or_touches(self):
        self.assertEqual(union([(5, 9), (1, 3), (3, 4), (8, 12)]), [[1, 4], [5, 12]])

    def test_overlap(self):
        coverage = Coverage([(10, 20), (15, 30), (50, 60)])
        for begin, end, expected in ((0, 10, 0), (0, 100, 30), (12, 18, 6), (25, 55, 10), (30, 50, 0), (55, 56, 1), (60, 70, 0)):
            self.assertEqual(coverage.overlap(begin, end), expected, (begin, end))

    def test_overlap_against_counting(self):
        intervals = [(i * 7 % 97, i * 7 % 97 + i % 5 + 1) for i in range(30)]
        covered = {t for begin, end in intervals for t in range(begin, end)}
        coverage = Coverage(intervals)
        for begin in range(0, 110, 3):
            for end in range(begin, 110, 5):
                self.assertEqual(coverage.overlap(begin, end), len(covered & set(range(begin, end))))

    def test_held_counts_only_what_was_asked_of_the_kind(self):
        operations = [("flush", 0, 50 * MS, 50 * MS, 0, 0, 50 * MS), ("flush", 60 * MS, 60 * MS, 61 * MS, 0, 0, 0),
                      ("write", 0, 90 * MS, 90 * MS, 0, 0, 90 * MS)]
        windows = (array.array("Q", [10 * MS, 55 * MS]), array.array("Q", [60 * MS, 65 * MS]))
        self.assertEqual(held(operations, "flush", windows, (0, 100 * MS)), (50.0, 20.0))
        self.assertEqual(held(operations, "read", windows, (0, 100 * MS)), (None, None))

    def test_gap_is_the_time_without_any_operation(self):
        operations = [("write", 10 * MS, 10 * MS, 20 * MS, 0, 4096, 0), ("flush", 15 * MS, 15 * MS, 30 * MS, 0, 0, 0)]
        windows = (array.array("Q", [0, 40 * MS]), array.array("Q", [25 * MS, 50 * MS]))
        self.assertEqual(gap(operations, windows), 10.0)

    def test_what_the_kernels_tracer_says(self):
        rows = parsed("\n".join((
            "        postgres-77      [001] ..... 5.000100: block_bio_queue: 7,0 WS 4096 + 8 [postgres]",
            "            dd-88        [000] ..... 5.000200: block_bio_queue: 7,0 W 9000 + 8 [dd]",
            "        postgres-77      [001] ..... 5.040000: block_getrq: 7,0 WS 4096 + 8 [postgres]",
            "    kworker/0:1H-99      [000] ..... 5.050100: block_rq_issue: 7,0 WS 8192 () 4088 + 16 none,0,0 [kworker/0:1H]",
            "        postgres-77      [001] ..... 5.060000: block_bio_queue: 7,0 FWS 0 + 0 [postgres]",
            "        postgres-77      [001] ..... 5.070000: block_getrq: 7,0 FWS 0 + 0 [postgres]",
            "        postgres-77      [001] ..... 5.080000: balance_dirty_pages: bdi 7:0: limit=1 paused=0 pause=12 period=3 think=1",
            "        postgres-77      [001] ..... 5.080000: balance_dirty_pages: bdi 7:0: limit=1 paused=0 pause=-4 period=3 think=1",
            "          <idle>-0       [001] d.h.. 5.096000: sched_waking: comm=postgres pid=77 prio=120 target_cpu=001",
            "          <idle>-0       [001] d.h.. 5.099000: sched_waking: comm=postgres pid=77 prio=120 target_cpu=001")))
        self.assertEqual(queue_intervals(rows, {77}), [(5_000_100_000, 5_050_100_000), (5_060_000_000, 5_070_000_000)])
        self.assertEqual(dirty_intervals(rows, {77}), [(5_080_000_000, 5_096_000_000)])
        self.assertEqual(dirty_intervals(rows, {88}), [])

    def test_times_at_the_device(self):
        rows = parsed("\n".join((
            "    kworker/0:1H-99      [000] ..... 5.050100: block_rq_issue: 7,0 WS 8192 () 4088 + 16 none,0,0 [kworker/0:1H]",
            "    kworker/0:1H-99      [000] ..... 5.050200: block_rq_issue: 7,0 FF 0 () 0 + 0 none,0,0 [kworker/0:1H]",
            "    kworker/0:1H-99      [000] ..... 5.051000: block_rq_complete: 7,0 W () 512 + 8 none,0,0 [0]",
            "    kworker/0:1H-99      [000] ..... 5.060100: block_rq_complete: 7,0 WS () 4088 + 16 none,0,0 [0]",
            "    kworker/0:1H-99      [000] ..... 5.070000: block_rq_complete: 7,0 FF () 18446744073709551615 + 0 none,0,0 [0]")))
        self.assertEqual(device_times(rows), [(4088, 5_050_100_000, 5_060_100_000)])

    def test_a_flush_right_after_a_request_may_be_its_own(self):
        rows = parsed("\n".join((
            "    kworker/0:1H-99      [000] ..... 5.000100: block_rq_issue: 7,0 WS 4096 () 64 + 8 none,0,0 [kworker/0:1H]",
            "    kworker/0:1H-99      [000] ..... 5.000120: block_rq_complete: 7,0 WS () 64 + 8 none,0,0 [0]",
            "    kworker/0:1H-99      [000] ..... 5.000130: block_rq_issue: 7,0 FF 0 () 0 + 0 none,0,0 [kworker/0:1H]",
            "    kworker/0:1H-99      [000] ..... 6.500100: block_rq_complete: 7,0 FF () 18446744073709551615 + 0 none,0,0 [0]")))
        self.assertEqual(device_times(rows), [(64, 5_000_100_000, 5_000_120_000), (64, 5_000_100_000, 6_500_100_000)])

    def test_columns_come_from_the_definition_of_the_views(self):
        self.assertEqual((CAUSES[0], CAUSES[-1], PATHS), ("oncpu", "other", ["self", "journal", "peer"]))

    def test_view_figures_keep_unobserved_apart_from_zero(self):
        row = dict.fromkeys([f"{name}_ms" for name in CAUSES + PATHS])
        row.update(commits=4, total_commit_ms=40.0, coverage=0.0, p50_commit_ms=10.0, p99_commit_ms=11.0, attributed_ms=None,
                   led=None, followed=None, unsynced=4, binlog_led=None, binlog_followed=None)
        figures = view_figures([row], 4)
        self.assertIsNone(figures["closure"])
        self.assertIsNone(figures["cause_sum"])
        self.assertIsNone(figures["top_cause"])
        self.assertEqual(figures["coverage"], 0)


class Judge(unittest.TestCase):
    def test_good_figures_pass(self):
        self.assertEqual(judge(good(), None), [])

    def test_each_rule_can_fail(self):
        changes = {
            "cause_sum": 1.011, "path_sum": 0.989, "closure": 0.979, "top_cause": "write", "held_in_commit_ms": 56.0,
            "client_p50_ms": 54.0, "client_p99_ms": 56.0, "led": 31, "coverage": 0.98, "lost": 1, "commit_p50_ms": None,
        }
        for name, value in changes.items():
            self.assertEqual(len(judge(good() | {name: value}, None)), 1, name)

    def test_without_a_fault(self):
        quiet = good("none", sessions=1) | {"commit_p50_ms": 0.3, "client_p50_ms": 0.4, "commit_p99_ms": 0.9, "client_p99_ms": 1.0}
        self.assertEqual(judge(quiet, None), [])
        self.assertEqual(len(judge(quiet | {"client_p50_ms": 0.51}, None)), 1)
        many = quiet | {"sessions": 16, "client_p50_ms": 5.0}
        self.assertEqual(judge(many, None), [])
        self.assertEqual(len(judge(many | {"client_p50_ms": 0.29}, None)), 1)

    def test_rings_are_as_the_program_counted(self):
        ring = {"process": "rig-uring", "done": {"submissions": 100, "sqpoll_starved_ms": 2000.0},
                "seen": {"submissions": 100, "sqpoll_starved_ms": 2010.0, "worker_punts": 0}}
        figures = good("none") | {"fault": "sqpoll", "held_in_commit_ms": None, "rings": [ring]}
        self.assertEqual(judge(figures, None), [])
        for seen in ({"submissions": 98}, {"sqpoll_starved_ms": 1900.0}, {"sqpoll_starved_ms": None}):
            self.assertEqual(len(judge(figures | {"rings": [ring | {"seen": ring["seen"] | seen}]}, None)), 1, seen)
        self.assertEqual(len(judge(figures | {"rings": []}, None)), 1)

    def test_cpu_is_compared_with_the_same_load_without_a_fault(self):
        loaded, quiet = good("cpu"), good("none")
        self.assertEqual(len(judge(loaded, quiet)), 1)
        self.assertEqual(len(judge(loaded, None)), 1)
        quiet = copy.deepcopy(quiet)
        quiet["account"]["cpu"] = 0.04
        self.assertEqual(judge(loaded, quiet), [])

    def test_a_write_behind_a_held_flush(self):
        behind = good(sessions=4)
        behind["account"] |= {"flush": 44.0, "write": 6.0}  # 50 of 50.3 at the device
        self.assertEqual(judge(behind, None), [])
        self.assertEqual(len(judge(behind | {"sessions": 1}, None)), 1)
        for other in ({"flush": 44.0, "write": 2.0}, {"flush": 38.0, "write": 12.3}):
            self.assertEqual(len(judge(behind | {"account": behind["account"] | other}, None)), 1, other)

    def test_other_faults(self):
        for name, fault in FAULTS.items():
            if name in EVERYWHERE:
                continue
            fine = good(name, engine="postgres15", sessions=1)
            fine["account"]["flush"] = 0
            if fault.cause:
                fine["account"][fault.cause], fine["top_cause"] = 50.0, fault.cause
            if fault.report:
                fine["rings"] = [{"done": {"submissions": 1}, "seen": {"submissions": 1}}]
            fine["paths"] = {"self": 1.0, "journal": 60.0 if fault.path else 0.0, "peer": 2.0}
            self.assertEqual(judge(fine, None), [], name)
            if fault.cause:
                self.assertEqual(len(judge(fine | {"top_cause": "other"}, None)), 1, name)
                self.assertEqual(len(judge(fine | {"held_in_commit_ms": 50 / (1 - fault.tolerance) + 1}, None)), 1, name)
                self.assertEqual(len(judge(fine | {"held_in_commit_ms": 1.9}, None)), 1, name)
            if fault.path:
                self.assertEqual(len(judge(fine | {"paths": {"self": 9.0, "journal": 8.0, "peer": 2.0}}, None)), 1, name)

    def test_pool_of_threads_may_attribute_less(self):
        self.assertEqual(judge(good(engine="mariadb-pool") | {"closure": 0.96}, None), [])


class Matrix(unittest.TestCase):
    def setUp(self):
        self.matrix = matrix_module()

    def test_whole(self):
        self.assertEqual(len(set(self.matrix.cells(False))), 5 * 2 * 4 * 3)

    def test_quarter_lets_everything_occur(self):
        quarter = list(self.matrix.cells(True))
        self.assertEqual(len(set(quarter)), 5 * 2 * 3)
        for engine in self.matrix.SERVERS:
            mine = [cell for cell in quarter if cell[0] == engine]
            self.assertEqual({cell[1] for cell in mine}, set(self.matrix.FILE_SYSTEMS))
            self.assertEqual({cell[2] for cell in mine}, set(EVERYWHERE))
            self.assertEqual({cell[3] for cell in mine}, set(self.matrix.SESSIONS))
        for fault in EVERYWHERE:
            mine = [cell for cell in quarter if cell[2] == fault]
            self.assertEqual({cell[1] for cell in mine}, set(self.matrix.FILE_SYSTEMS))
            self.assertEqual({cell[3] for cell in mine}, set(self.matrix.SESSIONS))


if __name__ == "__main__":
    unittest.main()
