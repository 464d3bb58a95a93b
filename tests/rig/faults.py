# SPDX-License-Identifier: GPL-2.0-or-later
"""The faults of a run, as a table: how each is made, and how the rig itself knows what was held.

`witness` is what flushlight's account is compared with; none of them uses flushlight:
  flush, write, read   operations that the device held, from its log
  queue, dirty         the kernel's tracer (kernel_trace.py): I/O of the server that waited to be issued; pauses
  paused               the times in which the standby was stopped
  gap                  time inside COMMIT in which nothing was at the device, less that of the same load without a fault
"""
import contextlib
import os
from dataclasses import dataclass
from typing import Callable, Optional

import block_faults
import standby
import uring
from processes import end, nice_group, spawn, start_ticks

HOG_NICE = -15  # more than half of each core even against 16 sessions, each a scheduling group of its own


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


def _device_holds(kind):
    @contextlib.contextmanager
    def make(_server, device, ms):
        device.hold(**{f"{kind}_ms": ms})
        yield
    return make


@contextlib.contextmanager
def _nothing(_server, _device, _ms):
    yield


@contextlib.contextmanager
def _hogs(_server, _device, _ms):
    with neighbours():
        yield


BINLOG = ("mariadb-binlog", "postgres15", "postgres18")


@dataclass(frozen=True)
class Fault:
    """`ms` is what the matrix asks for; `late`: only while the load is timed."""
    make: Callable = _nothing
    ms: float = 0
    cause: Optional[str] = None  # must be on top
    path: Optional[str] = None  # likewise
    witness: Optional[str] = None
    tolerance: float = 0.10
    late: bool = False
    engines: Optional[tuple] = None  # None: all
    file_systems: Optional[tuple] = None
    fragmented: bool = False  # a device whose free space is in small pieces
    load: tuple = ()
    report: Optional[Callable] = None  # (server, what `make` yields): more figures, while it is still there


FAULTS = {
    "none": Fault(),
    "flush": Fault(_device_holds("flush"), 50, "flush", witness="flush"),
    "write": Fault(_device_holds("write"), 20, "write", witness="write"),
    "cpu": Fault(_hogs, late=True),
    "read": Fault(block_faults.read, 50, "read", witness="read", file_systems=("ext4",), fragmented=True,
                  load=("--think-us", "30000")),
    "queue-tag": Fault(block_faults.full_queue, 5, "queue", witness="queue", tolerance=0.15),
    "queue-sched": Fault(block_faults.scheduler, 5, "queue", witness="queue", tolerance=0.15),
    # (with the binary log most of a commit's writes are direct or the journal's, which writeback throttling lets pass)
    "wbt": Fault(block_faults.wbt, 8, "queue", witness="queue", tolerance=0.15,
                 engines=("mariadb", "mariadb-pool", "postgres15", "postgres18")),
    "throttle": Fault(block_faults.throttle, 50, "throttle", witness="gap"),
    "dirty": Fault(block_faults.dirty, 100, "throttle", witness="dirty", load=("--row-bytes", "65536")),
    "journal-neighbour": Fault(block_faults.journal_neighbour, 50, path="journal", engines=BINLOG, file_systems=("ext4",),
                               load=("--row-bytes", "8192")),
    # Commits use no ring, and none waits for that thread: this one shows in the view `rings`, not in an account.
    "sqpoll": Fault(uring.starved, 200, report=uring.report, engines=("mariadb", "postgres15", "postgres18")),
    "replication": Fault(standby.paused, 100, "replication", witness="paused", engines=BINLOG),
    "replication-after-sync": Fault(standby.paused_after_sync, 100, "replication", witness="paused", engines=("mariadb-binlog",)),
}
# What every matrix has; the others are asked for by name.
EVERYWHERE = ("none", "flush", "write", "cpu")


@contextlib.contextmanager
def held_device(server, name, ms):
    """A fault that is there before the load. Yields what the fault itself knows of its times, or None."""
    device, fault = server.device, FAULTS[name]
    device.off()
    try:
        with (_nothing if fault.late else fault.make)(server, device, ms) as times:
            yield times
    finally:
        device.off()


def while_loaded(server, name, ms):
    """A fault that is there only while the load is timed."""
    fault = FAULTS[name]
    return fault.make(server, server.device, ms) if fault.late else contextlib.nullcontext()


def applies(name, engine, fs):
    fault = FAULTS[name]
    return (fault.engines is None or engine in fault.engines) and \
        (fault.file_systems is None or any(fs == one or fs.startswith(f"{one}-") for one in fault.file_systems))
