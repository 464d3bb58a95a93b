# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own tracer (tracefs) as a witness beside flushlight: when a server's I/O waited before it was issued, how
long requests were at the device, when threads were paused for dirty pages. An instance of its own; nothing else on the machine is touched."""
import contextlib
import os
import re
from pathlib import Path

from processes import RigError, run

INSTANCE = "flushlight-rig-"
BUFFER_KB = 16384
EVENTS = {
    "queue": ("block/block_bio_queue", "block/block_getrq", "block/block_rq_issue", "block/block_bio_backmerge",
              "block/block_bio_frontmerge"),
    "device": ("block/block_rq_issue", "block/block_rq_complete"),
    "dirty": ("writeback/balance_dirty_pages", "sched/sched_waking"),
}
# "    dd-123     [001] d.... 12345.678901: block_rq_issue: 7,0 WS 4096 () 800 + 8 none,0,0 [dd]"
LINE = re.compile(r"^.{16}-(\d+) +\[\d+\] \S+ +(\d+)\.(\d{6}): (\w+): (.*)$")
BIO = re.compile(r"^\d+,\d+ (\w+) (\d+) \+ (\d+)")
REQUEST = re.compile(r"^\d+,\d+ (\w+) \d+ \(.*?\) (\d+) \+ (\d+)")
COMPLETE = re.compile(r"^\d+,\d+ (\w+) \(.*?\) (\d+) \+ (\d+)")
PAUSE = re.compile(r" pause=(-?\d+) ")
WOKEN = re.compile(r" pid=(\d+) ")


def remove_instances(root):
    """Instances of runs that were killed. Only root of a tracefs that is mounted knows them."""
    for path in Path(root, "instances").glob(f"{INSTANCE}*"):
        if not Path(f"/proc/{path.name.removeprefix(INSTANCE)}").exists():
            with contextlib.suppress(OSError):
                path.rmdir()


@contextlib.contextmanager
def recording(folder, kind, device_number, threads):
    """Yields a list that holds (pid, ns, event, text) of the recorded events once the block has ended. Events of a device
    are recorded whoever causes them (workers issue requests), others for these threads only."""
    root = Path(folder)
    root.mkdir(exist_ok=True)
    run("mount", "-t", "tracefs", "tracefs", root)
    instance = root / f"instances/{INSTANCE}{os.getpid()}"
    rows = []
    try:
        remove_instances(root)
        instance.mkdir()
        (instance / "trace_clock").write_text("mono")
        (instance / "buffer_size_kb").write_text(str(BUFFER_KB))
        for event in EVENTS[kind]:
            if event.startswith("block/"):
                (instance / "events" / event / "filter").write_text(f"dev == {device_number}")
            else:
                (instance / "set_event_pid").write_text(" ".join(map(str, threads)))
            (instance / "events" / event / "enable").write_text("1")
        yield rows
        (instance / "tracing_on").write_text("0")
        for path in (instance / "per_cpu").glob("cpu*/stats"):
            if "overrun: 0\n" not in path.read_text():
                raise RigError("the kernel's tracer lost events: measure for a shorter time")
        rows += parsed((instance / "trace").read_text(errors="replace"))
    finally:
        with contextlib.suppress(OSError):
            instance.rmdir()
        run("umount", root, check=False)


def parsed(text):
    rows = []
    for line in text.splitlines():
        if match := LINE.match(line):
            pid, seconds, micros, event, rest = match.groups()
            rows.append((int(pid), (int(seconds) * 1_000_000 + int(micros)) * 1000, event, rest))
    return rows


def queue_intervals(rows, pids):
    """From the bio's coming to the issue of its request, for the bios of these threads. A bio with a flush before it
    waits in the queue only until it has a request: then its flush is under way."""
    waiting, found = {}, []
    for pid, ns, event, text in rows:
        if event == "block_rq_issue":
            match = REQUEST.match(text)
            first, count = int(match.group(2)), int(match.group(3))
            for sector in [s for s in waiting if first <= s < first + max(count, 1)]:
                found.append((waiting.pop(sector), ns))
            continue
        if pid not in pids or not event.startswith("block_"):
            continue
        match = BIO.match(text)
        operation, sector = match.group(1), int(match.group(2))
        flush = operation.startswith("F")
        if event == "block_bio_queue":
            waiting[(pid if flush else sector)] = ns
        elif event == "block_getrq" and flush and pid in waiting:
            found.append((waiting.pop(pid), ns))
    return found


FLUSH_FOLLOWS_NS = 1_000_000


def device_times(rows):
    """
    (sector, issue_ns, complete_ns) of all requests with data that the device was sent and completed in one piece; and, where a
    flush was issued right after, the same up to the end of that: it may be the request's own (a journal's commit block), which
    the tracer does not say.
    """
    issued, found, flushes = {}, [], []
    flush_issued = []
    for _, ns, event, text in rows:
        match = (REQUEST if event == "block_rq_issue" else COMPLETE).match(text)
        if not match:
            continue
        place = int(match.group(2)), int(match.group(3))
        if place[1] == 0 and event == "block_rq_issue":
            flush_issued.append(ns)
        elif place[1] == 0 and flush_issued:
            flushes.append((flush_issued.pop(0), ns))
        elif event == "block_rq_issue":
            issued[place] = ns
        elif place in issued:
            found.append((place[0], issued.pop(place), ns))
    own = [(sector, begin, flush_end) for sector, begin, end_ in found
           for flush_begin, flush_end in flushes if end_ <= flush_begin <= end_ + FLUSH_FOLLOWS_NS]
    return found + own


def dirty_intervals(rows, pids):
    """Pauses for dirty pages of these threads: the kernel tells just before; a timer wakes the thread."""
    paused, found = {}, []
    for pid, ns, event, text in rows:
        if event == "sched_waking":
            woken = int(WOKEN.search(text).group(1))
            if woken in paused:
                found.append((paused.pop(woken), ns))
        elif pid in pids and (match := PAUSE.search(text)) and int(match.group(1)) > 0:
            paused[pid] = ns
    return found


INTERVALS = {"queue": queue_intervals, "dirty": dirty_intervals}
