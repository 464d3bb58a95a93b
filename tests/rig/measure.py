# SPDX-License-Identifier: GPL-2.0-or-later
"""One measurement: a load on a running server under a fault, and what the SQL views say about it."""
import contextlib
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

import kernel_trace
from faults import FAULTS, held_device, while_loaded
from processes import RigError, spawn
from server_threads import journal_threads, processes_below, threads_of
from stalls import stalls_since
from witness import gap, held, held_between, read_windows

PROJECT = Path(__file__).resolve().parents[2]
WARMUP_TRANSACTIONS = 5
QUIET_SECONDS = 2  # of the load without a fault that a `gap` is compared with


def account_columns():
    """Causes and paths, from the file that defines the views: path columns are the last three."""
    text = (PROJECT / "abi/views.def").read_text()
    block = text[text.index("#define FL_ACCOUNT_COLUMNS"):text.index("#define FL_STATEMENT_COLUMNS")]
    names = re.findall(r"FL_COLUMN\(view, (\w+)_ms,", block)
    return names[:-3], names[-3:]


CAUSES, PATHS = account_columns()


class Load:
    """The load client: started and warmed up at construction; go() runs the timed part."""

    def __init__(self, server, sessions, seconds, extra=()):
        self.windows_file = tempfile.NamedTemporaryFile(dir=server.folder / "tmp")
        command = [server.device.tools / "rig-load", *server.load_arguments(), "--sessions", sessions, "--seconds", seconds,
                   "--warmup", WARMUP_TRANSACTIONS, "--windows", self.windows_file.name, "--wait", *extra]
        self.process = spawn(command, server.device.registry, "load", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            raise RigError(f"the load client failed: {self.process.communicate()[1]}")

    def go(self):
        """Runs the timed part; returns (summary, windows)."""
        out, errors = self.process.communicate("go\n")
        if self.process.returncode:
            raise RigError(f"the load client failed: {errors}")
        windows = read_windows(self.windows_file.name)
        self.windows_file.close()
        return json.loads(out.splitlines()[-1]), windows


def ratio(part, whole):
    return part / whole if part is not None and whole else None


def total(rows, column):
    """Sum of a column over rows; None when it was observed in none."""
    values = [row[column] for row in rows if row[column] is not None]
    return sum(values) if values else None


def view_figures(rows, client_commits):
    """What the statements view says about the load's commits. None stays None: not observed is not 0."""
    commits = total(rows, "commits")
    wall_ms = total(rows, "total_commit_ms")
    observed = sum(row["commits"] * (row["coverage"] or 0) for row in rows)
    causes = {name: total(rows, f"{name}_ms") for name in CAUSES}
    paths = {name: total(rows, f"{name}_ms") for name in PATHS}
    known = {name: value for name, value in causes.items() if value is not None}
    main = max(rows, key=lambda row: row["commits"], default=None)
    other = causes["other"]
    coverage = ratio(observed, commits)
    # of the commits that have an account: what was not observed has none to add up
    accounted_ms = wall_ms * coverage if wall_ms is not None and coverage is not None else None
    return {
        "commits": commits,
        "commit_p50_ms": main and main["p50_commit_ms"],
        "commit_p99_ms": main and main["p99_commit_ms"],
        "commit_mean_ms": ratio(wall_ms, commits),
        "account": {name: ratio(value, observed) for name, value in causes.items()},
        "paths": {name: ratio(value, observed) for name, value in paths.items()},
        "attributed_ms": ratio(total(rows, "attributed_ms"), observed),
        "cause_sum": ratio(sum(known.values()), accounted_ms) if known else None,
        "path_sum": ratio(sum(value for value in paths.values() if value is not None), accounted_ms) if known else None,
        "closure": 1 - other / accounted_ms if other is not None and accounted_ms else None,
        "led": total(rows, "led"),
        "followed": total(rows, "followed"),
        "unsynced": total(rows, "unsynced"),
        "binlog_led": total(rows, "binlog_led"),
        "coverage": ratio(observed, client_commits),
        "top_cause": max(known, key=known.get) if known else None,
    }


def lost_now(server):
    """Losses counted so far, by component."""
    rows = lower_keys(server.sql(f"SELECT component, lost FROM {server.views}health WHERE lost IS NOT NULL"))
    return {row["component"]: row["lost"] for row in rows}


def lower_keys(rows):
    return [{key.lower(): value for key, value in row.items()} for row in rows]


def details_now(server):
    """What causes consist of, in ms, of all traced threads since the daemon's start."""
    rows = lower_keys(server.sql(f"SELECT detail FROM {server.views}health WHERE component = 'causes'"))
    text = rows[0]["detail"] or "" if rows else ""
    return {name: float(value) for name, value in re.findall(r"(\w+: [^;]+) ([\d.]+) ms", text)}


def quiet_gap(server, sessions, load_extra):
    """Of a load without a fault: time inside COMMIT in which nothing was at the device."""
    first = server.device.logged()
    load = Load(server, sessions, QUIET_SECONDS, load_extra)
    _, windows = load.go()
    return gap(server.device.operations(first), windows)


@contextlib.contextmanager
def traced_by_kernel(server, witness):
    """For a witness that is the kernel's tracer: yields a list, filled with intervals (begin, end) in ns at the end."""
    found = []
    if witness not in kernel_trace.EVENTS:
        yield found
        return
    device = server.device
    number = os.stat(f"/dev/{device.loop}").st_rdev
    threads = threads_of(processes_below(server.process.pid)) | journal_threads(device.loop)
    number = os.major(number) << 20 | os.minor(number)
    with kernel_trace.recording(device.folder / "tracefs", witness, number, threads) as rows:
        yield found
    found += kernel_trace.INTERVALS[witness](rows, threads)


def held_by(witness, operations, windows, span, times, traced, quiet):
    """(held_ms, held_in_commit_ms) as the witness says."""
    if witness in ("flush", "write", "read"):
        return held(operations, witness, windows, span)
    if witness == "gap":
        return None, gap(operations, windows) - quiet
    if witness is None:
        return None, None
    return held_between(times if witness == "paused" else traced, windows, span)


def timed(server, fault_name, load):
    """The timed part: (summary, windows, the device's operations, intervals that the kernel's tracer saw)."""
    first = server.device.logged()
    with traced_by_kernel(server, FAULTS[fault_name].witness) as traced:
        with while_loaded(server, fault_name, 0):
            summary, windows = load.go()
        operations = server.device.operations(first)
    return summary, windows, operations, traced


def from_views(server, started, client_commits):
    rows = lower_keys(server.sql(f"SELECT * FROM {server.views}statements WHERE db_name = 'rig' AND commits > 0"))
    result = view_figures(rows, client_commits)
    slowest = server.sql(f"SELECT verdict, cause, path, duration_ms FROM {server.views}slow_commits "
                         f"WHERE ended_at >= '{started}' ORDER BY duration_ms DESC LIMIT 1")
    result["verdict"] = lower_keys(slowest)[0]["verdict"] if slowest else None
    return result


def measure(server, fault_name, ms, sessions, seconds, load_extra=()):
    """Runs the load under the fault; returns the figures as a dictionary."""
    fault = FAULTS[fault_name]
    load_extra = [*load_extra, *fault.load]
    quiet = quiet_gap(server, sessions, load_extra) if fault.witness == "gap" else None
    load = Load(server, sessions, seconds, load_extra)
    with held_device(server, fault_name, ms) as times:
        lost_before = details_before = started = None
        if server.with_flushlight:
            server.reset_statistics()
            lost_before, details_before = lost_now(server), details_now(server)
            started = server.sql("SELECT CURRENT_TIMESTAMP(6) AS t")[0]["t"]
        summary, windows, operations, traced = timed(server, fault_name, load)
        details = details_now(server) if server.with_flushlight else {}
        more = fault.report(server, times) if server.with_flushlight and fault.report else {}
    span = (summary["begin_ns"], summary["end_ns"])
    held_ms, in_commit_ms = held_by(fault.witness, operations, windows, span, times, traced, quiet)
    result = {
        "engine": server.name, "fs": server.device.fs, "fault": fault_name, "ms": ms, "sessions": sessions, "seconds": seconds,
        "held_ms": held_ms, "held_in_commit_ms": in_commit_ms,
        "client_commits": summary["commits"], "client_p50_ms": summary.get("p50_ms"), "client_p99_ms": summary.get("p99_ms"),
        "client_mean_ms": summary.get("mean_ms"),
    }
    if not server.with_flushlight:
        return result
    result.update(from_views(server, started, summary["commits"]))
    result["detail"] = {name: value - details_before.get(name, 0) for name, value in details.items()
                        if value > details_before.get(name, 0)}
    result["stalls"] = stalls_since(server, started)
    result.update(more)
    lost_since = {name: lost - lost_before.get(name, 0) for name, lost in lost_now(server).items()}
    result["lost"] = sum(lost_since.values())
    if result["lost"]:
        details = lower_keys(server.sql(f"SELECT component, detail FROM {server.views}health WHERE lost > 0"))
        result["lost_detail"] = "; ".join(f"{row['component']}: {row['detail']}" for row in details)
    return result
