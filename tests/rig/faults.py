# SPDX-License-Identifier: GPL-2.0-or-later
"""The faults of a run by name, and what was really held while clients waited."""
import array
import bisect
import contextlib
import os
import statistics

from processes import end, nice_group, spawn, start_ticks

HOG_NICE = -15  # more than half of each core even against 16 sessions, each a scheduling group of its own

# Which setting of the device each fault turns; none and cpu turn none.
HELD_KIND = {"none": None, "flush": "flush", "write": "write", "cpu": None}
FAULTS = tuple(HELD_KIND)


@contextlib.contextmanager
def neighbours():
    """A spinning process for each core that this one may use, at a better nice level."""
    cores = sorted(os.sched_getaffinity(0))
    hogs = []
    with open(os.devnull, "w") as nowhere, _Unregistered() as registry:
        try:
            for core in cores:
                hog = spawn(["taskset", "-c", core, "sh", "-c", "while :; do :; done"], registry, "hog", nice=HOG_NICE, stdout=nowhere)
                hogs.append(hog)
                nice_group(hog.pid, HOG_NICE)
            yield
        finally:
            end([{"pid": hog.pid, "ticks": start_ticks(hog.pid), "what": "hog"} for hog in hogs], patience_s=1)


class _Unregistered:
    """Hogs die with this process; nobody needs to know them."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def add(self, pid, what):
        pass


@contextlib.contextmanager
def held_device(device, name, ms):
    """The part of a fault that the device makes."""
    kind = HELD_KIND[name]
    device.off()
    try:
        if kind:
            device.hold(**{f"{kind}_ms": ms})
        yield
    finally:
        device.off()


def busy_cores(name):
    """The part of a fault that neighbours make."""
    return neighbours() if name == "cpu" else contextlib.nullcontext()


def read_windows(path):
    """COMMIT windows of the load client: two arrays, begins and ends, in ns."""
    numbers = array.array("Q")
    with open(path, "rb") as file:
        numbers.frombytes(file.read())
    return numbers[0::2], numbers[1::2]


def union(intervals):
    """Disjoint, sorted intervals that cover the same time."""
    merged = []
    for begin, end_ in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end_)
        else:
            merged.append([begin, end_])
    return merged


class Coverage:
    """How much of any window a set of intervals covers, by bisection in their running sum."""

    def __init__(self, intervals):
        self.intervals = union(intervals)
        self.begins = [begin for begin, _ in self.intervals]
        self.before = [0]
        for begin, end_ in self.intervals:
            self.before.append(self.before[-1] + end_ - begin)

    def _until(self, when):
        index = bisect.bisect_right(self.begins, when) - 1
        if index < 0:
            return 0
        begin, end_ = self.intervals[index]
        return self.before[index] + min(when, end_) - begin

    def overlap(self, begin, end_):
        return self._until(end_) - self._until(begin)


def held(operations, kind, windows, span):
    """(median ms really held, mean ms of overlap with the COMMIT windows) of a kind of operation; None: nothing was."""
    intervals = [(row[1], row[3]) for row in operations if row[0] == kind and row[6]]
    within = [(begin, end_) for begin, end_ in intervals if end_ > span[0] and begin < span[1]]
    if not within:
        return None, None
    coverage = Coverage(intervals)
    begins, ends = windows
    overlaps = [coverage.overlap(begin, end_) for begin, end_ in zip(begins, ends)]
    median_ms = statistics.median(end_ - begin for begin, end_ in within) / 1e6
    return median_ms, (sum(overlaps) / len(overlaps) / 1e6 if overlaps else None)
