# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults that settings of the kernel and processes beside the server make; each puts back what it changed."""
import contextlib
import os
import re
import subprocess
import threading
import time
from pathlib import Path

from processes import RigError, end, run, spawn, start_ticks
from server_threads import processes_below
from witness import union

BLKIO = Path("/sys/fs/cgroup/blkio")
DIRTY_MAX_BYTES, DIRTY_WRITE_KB, DIRTY_WRITERS = 4 << 20, 64, 3
DROP_QUIETLY = "7"  # page cache, dentries and inodes; no line in the kernel's log
DROP_PAUSE_S = 0.005
QUEUE_DEPTH = 4
WBT_WRITERS = 48


@contextlib.contextmanager
def setting(path, value):
    path = Path(path)
    before = path.read_text().strip()
    if "[" in before:  # a list, the active one in brackets
        before = before.split("[")[1].split("]")[0]
    path.write_text(str(value))
    try:
        yield
    finally:
        path.write_text(before)


@contextlib.contextmanager
def neighbour(device, mode, threads=1, **options):
    """rig-neighbour on the device's file system, writing before the block begins."""
    folder = device.mount / "neighbour"
    folder.mkdir(exist_ok=True)
    command = [device.tools / "rig-neighbour", "--mode", mode, "--folder", folder, "--threads", threads]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}", value]
    process = spawn(command, device.registry, "neighbour", stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout.readline().strip() != "writing":
            raise RigError(f"rig-neighbour ended with {process.wait()}")
        yield process
    finally:
        device.off()
        end([{"pid": process.pid, "ticks": start_ticks(process.pid), "what": "neighbour"}], patience_s=5)
        process.wait()


def queue_of(device):
    return Path("/sys/block") / device.loop / "queue"


def number_of(device):
    number = os.stat(f"/dev/{device.loop}").st_rdev
    return f"{os.major(number)}:{os.minor(number)}"


@contextlib.contextmanager
def throttle(server, device, ms):
    """The server in a cgroup that may start a write every `ms`."""
    if not (BLKIO / "blkio.throttle.write_iops_device").exists():
        raise RigError("no blkio cgroup (version 1) with blk-throttle here")
    group = BLKIO / f"flushlight-rig-{os.getpid()}"
    group.mkdir()
    pids = processes_below(server.process.pid)
    home = BLKIO / Path(f"/proc/{server.process.pid}/cgroup").read_text().split(":blkio:")[1].split("\n")[0].lstrip("/")

    def move(to):
        for pid in pids:
            with contextlib.suppress(OSError):
                (to / "cgroup.procs").write_text(str(pid))

    try:
        (group / "blkio.throttle.write_iops_device").write_text(f"{number_of(device)} {max(round(1000 / ms), 1)}")
        move(group)
        yield
    finally:
        (group / "blkio.throttle.write_iops_device").write_text(f"{number_of(device)} 0")
        pids = processes_below(server.process.pid)
        move(home)
        for _ in range(100):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.01)


@contextlib.contextmanager
def buffered_log(server):
    """A log that is written through the page cache, as PostgreSQL's always is."""
    if server.product != "mariadb":
        yield
        return
    server.sql("SET GLOBAL innodb_log_file_buffering = ON")
    try:
        yield
    finally:
        server.sql("SET GLOBAL innodb_log_file_buffering = OFF")


@contextlib.contextmanager
def dirty(server, device, ms):
    """Writers have more dirty pages on the device than it may have, and their writes take `ms`: all who dirty pages are
    paused. What the limit lets them have at the device at once leaves tags for the server, whose writes are not held."""
    bdi = Path(f"/sys/class/bdi/{number_of(device)}")
    with buffered_log(server), neighbour(device, "buffered", threads=DIRTY_WRITERS, file_bytes=8 << 20), \
            setting(queue_of(device) / "max_sectors_kb", DIRTY_WRITE_KB), setting(bdi / "max_bytes", DIRTY_MAX_BYTES), \
            setting(bdi / "strict_limit", 1):
        offset, length = where_they_lie(device)
        device.hold(write_ms=ms, offset_bytes=offset, length_bytes=length)
        time.sleep(1.5)  # until the kernel knows the device's new speed
        yield


def where_they_lie(device):
    """The largest piece of the device that the neighbour's one file is in: (offset, length) in bytes."""
    blocks = []
    for line in run("filefrag", "-b4096", "-v", device.mount / "neighbour/neighbour0").stdout.splitlines():
        if match := re.match(r"\s*\d+:\s*\d+\.\.\s*\d+:\s*(\d+)\.\.\s*(\d+):", line):
            blocks.append((int(match.group(1)), int(match.group(2)) + 1))
    first, last = max(union(blocks), key=lambda piece: piece[1] - piece[0])
    return first * 4096, (last - first) * 4096


@contextlib.contextmanager
def read(server, device, ms):
    """Reads take `ms`, and where the log's blocks lie is forgotten all the time: before it can write, the file system
    reads that again (the device is `fragmented`: that is too much for the inode)."""
    stop = threading.Event()

    def forget():
        while not stop.wait(DROP_PAUSE_S):
            Path("/proc/sys/vm/drop_caches").write_text(DROP_QUIETLY)

    run("sync", "-f", device.mount)  # what the journal still has to write back cannot be forgotten
    thread = threading.Thread(target=forget)
    device.hold(read_ms=ms)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def full_queue(server, device, ms):
    """Bulk writers have all tags of the device: who comes waits for one, before there is a request."""
    queue = queue_of(device)
    with setting(queue / "scheduler", "none"), setting(queue / "nr_requests", QUEUE_DEPTH), \
            neighbour(device, "direct", threads=16, block_bytes=4096):
        device.hold(write_ms=ms)
        yield


@contextlib.contextmanager
def scheduler(server, device, ms):
    """The same with a scheduler that has more room than the device: who comes waits there."""
    queue = queue_of(device)
    with setting(queue / "scheduler", "none"), setting(queue / "nr_requests", QUEUE_DEPTH), \
            setting(queue / "scheduler", "mq-deadline"), neighbour(device, "direct", threads=16, block_bytes=4096):
        device.hold(write_ms=ms)
        yield
    (queue / "nr_requests").write_text("127")  # tags stay few until the number changes
    (queue / "nr_requests").write_text("128")


@contextlib.contextmanager
def wbt(server, device, ms):
    """Writeback throttling, and write-back that others wait for."""
    with buffered_log(server), setting(queue_of(device) / "wbt_lat_usec", 2000), \
            neighbour(device, "synced", threads=WBT_WRITERS, block_bytes=4096, file_bytes=1 << 20):
        device.hold(write_ms=ms)
        yield


@contextlib.contextmanager
def journal_neighbour(server, device, ms):
    """A process that extends and fsyncs big files; the server's commits need the journal too (its log grows)."""
    with server.growing_log(), neighbour(device, "extend", block_bytes=1 << 20, file_bytes=64 << 20, blocks_per_sync=8):
        device.hold(write_ms=ms)
        yield
