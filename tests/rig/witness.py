# SPDX-License-Identifier: GPL-2.0-or-later
"""What was really held while clients waited: arithmetic on intervals."""
import array
import bisect
import statistics


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


def held_between(intervals, windows, span):
    """(median ms of the intervals, mean ms of their overlap with the COMMIT windows); None: nothing was held."""
    within = [(begin, end_) for begin, end_ in intervals if end_ > span[0] and begin < span[1]]
    if not within:
        return None, None
    coverage = Coverage(intervals)
    begins, ends = windows
    overlaps = [coverage.overlap(begin, end_) for begin, end_ in zip(begins, ends)]
    median_ms = statistics.median(end_ - begin for begin, end_ in within) / 1e6
    return median_ms, (sum(overlaps) / len(overlaps) / 1e6 if overlaps else None)


def held(operations, kind, windows, span):
    """The same for a kind of operation that the device was asked to hold."""
    return held_between([(row[1], row[3]) for row in operations if row[0] == kind and row[6]], windows, span)


def gap(operations, windows):
    """Mean ms of the COMMIT windows in which nothing was at the device."""
    begins, ends = windows
    if not len(begins):
        return None
    coverage = Coverage([(row[1], row[3]) for row in operations])
    return sum(end_ - begin - coverage.overlap(begin, end_) for begin, end_ in zip(begins, ends)) / len(begins) / 1e6
