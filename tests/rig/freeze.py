# SPDX-License-Identifier: GPL-2.0-or-later
"""The device stops for a while under a load: what really waited, and what the views say meanwhile and afterwards.

The truth is the device's own log (first operation that came and was held, first one that was answered), the kernel's own
tracer (how long requests were at the device) and the client's COMMIT windows; the views are asked by a session that was
opened before.
"""
import contextlib
import json
import os
import signal
import subprocess
import threading
import time

import kernel_trace
from processes import spawn
from stalls import lower_keys, named, query, stalls_since

FREEZE = "freeze"
FREEZE_MS = 1500
HEALTHY_SECONDS, FLOOD_SECONDS, AFTER_SECONDS = 4, 3, 2
COMPLETIONS_SECONDS = 0.5  # after a freeze, until what was held has ended
FLOOD_MB = 256
ASK_EVERY_S = 0.05
WAITED_MIN_MS = 5  # as the views count it
FLOOD_FILE = "flood.dat"


class OpenSession:
    """One session for many queries."""

    def __init__(self, server):
        command = [server.device.tools / "rig-sql", "--engine", server.product, "--socket", server.socket, "--database", "rig",
                   "--user", server.administrator, "--json", "--lines", "SELECT 1 AS one"]
        self.process = spawn(command, server.device.registry, "sql", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def sql(self, statement):
        self.process.stdin.write(statement + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


@contextlib.contextmanager
def flood(device, wanted):
    """Another process writes to the device without end, through the page cache, and syncs."""
    if not wanted:
        yield
        return
    target = device.mount / FLOOD_FILE
    command = ["sh", "-c", f"while :; do dd if=/dev/zero of={target} bs=1M count={FLOOD_MB} conv=notrunc,fsync; done"]
    flooder = spawn(command, device.registry, "flood")
    try:
        yield
    finally:
        os.killpg(flooder.pid, signal.SIGKILL)  # a group of its own: the shell and the dd of the moment
        flooder.wait(60)


def freeze_and_watch(server, ms, session):
    """Freezes, asks the views until it is over; answers: (seconds since the freeze, rows that last, seconds the query took)."""
    frozen_at = time.monotonic()
    server.device.freeze(ms)
    seen = []
    while time.monotonic() < frozen_at + ms / 1000:
        asked_at = time.monotonic()
        rows = session.sql(query(server, "ended_at IS NULL"))
        tasks = session.sql(f"SELECT * FROM {server.views}stall_tasks")
        seen.append((asked_at - frozen_at, named(rows), tasks, time.monotonic() - asked_at))
        time.sleep(ASK_EVERY_S)
    return seen


def truth(operations, windows, ms):
    """(length ms, commits that waited) by the device's log and the client's clock."""
    held = [row for row in operations if row[6] and row[2] - row[1] > WAITED_MIN_MS * 1e6]
    if not held:
        return None, None
    begin, end_ = min(row[1] for row in held), min(row[2] for row in held)
    begins, ends = windows
    least = WAITED_MIN_MS * 1e6
    # one that came back meanwhile had its answer from the device already, and waited for a CPU
    waited = sum(1 for first, last in zip(begins, ends) if min(last, end_) - max(first, begin) >= least and last >= end_ - least)
    return (end_ - begin) / 1e6, waited


def with_truth(requests, traced):
    """Slow requests of the view, each with the device's time as the kernel's tracer has it (`traced_ms`; None: not seen)."""
    for request in requests:
        said = request["device_ms"]
        times = [(end_ - begin) / 1e6 for sector, begin, end_ in traced if sector == request["sector"] and said is not None]
        request["traced_ms"] = min(times, key=lambda time_ms: abs(time_ms - said), default=None)
    return requests


def measure_freeze(server, ms, sessions, flooded=False, load_extra=()):
    from measure import Load, from_views, lost_now  # it imports faults, which need not know of freezes
    seconds = HEALTHY_SECONDS + (FLOOD_SECONDS if flooded else 0) + ms / 1000 + AFTER_SECONDS
    session = OpenSession(server)
    load = Load(server, sessions, seconds, load_extra)
    server.reset_statistics()
    lost_before = lost_now(server)
    started = server.sql("SELECT CURRENT_TIMESTAMP(6) AS t")[0]["t"]
    first = server.device.logged()
    done = []
    runner = threading.Thread(target=lambda: done.append(load.go()))
    runner.start()
    time.sleep(HEALTHY_SECONDS)
    number = os.stat(f"/dev/{server.device.loop}").st_rdev
    number = os.major(number) << 20 | os.minor(number)
    with flood(server.device, flooded), kernel_trace.recording(server.device.folder / "tracefs", "device", number, ()) as rows:
        if flooded:
            time.sleep(FLOOD_SECONDS)
        seen = freeze_and_watch(server, ms, session)
        time.sleep(COMPLETIONS_SECONDS)
    runner.join()
    summary, windows = done[0]
    operations = server.device.operations(first)
    length_ms, waited = truth(operations, windows, ms)
    time.sleep(0.5)
    stalls = stalls_since(server, started)
    hit = server.sql(f"SELECT stall_id, count(*) AS n, max(duration_ms) AS longest, max(verdict) AS verdict FROM {server.views}slow_commits "
                     f"WHERE ended_at >= '{started}' AND stall_id IS NOT NULL GROUP BY stall_id")
    writers = server.sql(f"SELECT process, file, bytes, recent_bytes, syncs, sync_ms FROM {server.views}writers "
                         f"WHERE device = '{server.device.loop}' ORDER BY bytes DESC LIMIT 3")
    requests = server.sql(f"SELECT operation, sector, process, file, total_ms, queue_ms, device_ms, stall_id FROM {server.views}slow_requests "
                          f"WHERE completed_at >= '{started}' AND device = '{server.device.loop}' ORDER BY total_ms DESC LIMIT 5")
    tasks = server.sql(f"SELECT * FROM {server.views}stall_tasks WHERE stall_id IN (SELECT stall_id FROM {server.views}stalls "
                       f"WHERE started_at >= '{started}')")
    session.close()
    lost = {name: value - lost_before.get(name, 0) for name, value in lost_now(server).items()}
    return {
        **from_views(server, started, summary["commits"]),
        "engine": server.name, "fs": server.device.fs, "fault": FREEZE, "ms": ms, "sessions": sessions, "flooded": flooded,
        "held_ms": length_ms, "commits_waited": waited, "client_commits": summary["commits"], "stalls": stalls,
        "seen_after_ms": next((at * 1000 for at, rows, _, _ in seen if rows), None),
        "seen_last": next((rows for _, rows, _, _ in reversed(seen) if rows), None),
        "slowest_query_ms": max(took for *_, took in seen) * 1000,
        "slow_commits": hit, "writers": writers, "slow_requests": with_truth(lower_keys(requests), kernel_trace.device_times(rows)), "tasks": tasks,
        "lost": sum(lost.values()), "lost_detail": {name: value for name, value in lost.items() if value},
    }
