# SPDX-License-Identifier: GPL-2.0-or-later
"""Tracing on and off in turn within one load: the client's own windows say how many commits fell into each slice."""
import bisect
import os
import statistics
import threading
import time
from pathlib import Path

from measure import Load
from processes import run

SLICE_S = 0.5
SETTLED_NS = 100_000_000  # of each slice left out: programs attach, caches turn over


def busy_ticks():
    """Busy time of all CPUs, in clock ticks."""
    fields = [int(v) for v in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4]


class Switcher(threading.Thread):
    def __init__(self, daemon):
        super().__init__()
        self.command = [daemon.program.parent / "flushlight", "--socket", daemon.socket]
        self.ended = threading.Event()
        self.slices = []  # (on, begin ns, end ns, CPU ticks)

    def run(self):
        on = True
        while not self.ended.is_set():
            run(*self.command, "on" if on else "off")
            begin, ticks = time.monotonic_ns() + SETTLED_NS, busy_ticks()
            time.sleep(SLICE_S)
            self.slices.append((on, begin, time.monotonic_ns(), busy_ticks() - ticks))
            on = not on
        run(*self.command, "on")


def against_neighbours(values):
    """(on, value) in turn -> of each but the first and last: the value and the mean of the two beside it, on first."""
    for (_, before), (on, value), (_, after) in zip(values, values[1:], values[2:]):
        beside = (before + after) / 2
        yield (value, beside) if on else (beside, value)


def measure(server, daemon, sessions, count):
    switcher = Switcher(daemon)
    load = Load(server, sessions, count * SLICE_S * 1.05)
    switcher.start()
    try:
        _, (_, ends) = load.go()
    finally:
        switcher.ended.set()
        switcher.join()
    ends = sorted(ends)

    def commits(begin, end):
        return bisect.bisect(ends, end) - bisect.bisect(ends, begin)

    inside = [one for one in switcher.slices if ends[0] <= one[1] - SETTLED_NS and one[2] <= ends[-1]]
    tps = [(on, commits(begin, end) / (end - begin) * 1e9) for on, begin, end, _ in inside]
    tick_us = 1e6 / os.sysconf("SC_CLK_TCK")
    cpu = [(on, ticks * tick_us / max(1, commits(begin - SETTLED_NS, end))) for on, begin, end, ticks in inside]
    ratios = [on / off for on, off in against_neighbours(tps)]
    return {"on_tps_ratio": statistics.mean(ratios), "on_tps_error": statistics.stdev(ratios) / len(ratios) ** 0.5,
            "on_cpu_us_per_commit": statistics.median(on - off for on, off in against_neighbours(cpu)), "slices": len(ratios)}
