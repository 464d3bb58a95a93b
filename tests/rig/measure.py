# SPDX-License-Identifier: GPL-2.0-or-later
"""One measurement: a load on a running server under a fault, and what the SQL views say about it."""
import json
import re
import subprocess
import tempfile
from pathlib import Path

from faults import HELD_KIND, busy_cores, held, held_device, read_windows
from processes import RigError, spawn
from stalls import stalls_since

PROJECT = Path(__file__).resolve().parents[2]
WARMUP_TRANSACTIONS = 5


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


def measure(server, fault_name, ms, sessions, seconds, load_extra=()):
    """Runs the load under the fault; returns the figures as a dictionary."""
    device = server.device
    load = Load(server, sessions, seconds, load_extra)
    with held_device(device, fault_name, ms):
        lost_before = started = None
        if server.with_flushlight:
            server.reset_statistics()
            lost_before = lost_now(server)
            started = server.sql("SELECT CURRENT_TIMESTAMP(6) AS t")[0]["t"]
        first = device.logged()
        with busy_cores(fault_name):
            summary, windows = load.go()
        operations = device.operations(first)
    held_ms, in_commit_ms = held(operations, HELD_KIND[fault_name], windows, (summary["begin_ns"], summary["end_ns"]))
    result = {
        "engine": server.name, "fs": device.fs, "fault": fault_name, "ms": ms, "sessions": sessions, "seconds": seconds,
        "held_ms": held_ms, "held_in_commit_ms": in_commit_ms,
        "client_commits": summary["commits"], "client_p50_ms": summary.get("p50_ms"), "client_p99_ms": summary.get("p99_ms"),
        "client_mean_ms": summary.get("mean_ms"),
    }
    if not server.with_flushlight:
        return result
    rows = lower_keys(server.sql(f"SELECT * FROM {server.views}statements WHERE db_name = 'rig' AND commits > 0"))
    result.update(view_figures(rows, summary["commits"]))
    slowest = server.sql(f"SELECT verdict, cause, path, duration_ms FROM {server.views}slow_commits "
                         f"WHERE ended_at >= '{started}' ORDER BY duration_ms DESC LIMIT 1")
    result["verdict"] = lower_keys(slowest)[0]["verdict"] if slowest else None
    result["stalls"] = stalls_since(server, started)
    lost_since = {name: lost - lost_before.get(name, 0) for name, lost in lost_now(server).items()}
    result["lost"] = sum(lost_since.values())
    if result["lost"]:
        details = lower_keys(server.sql(f"SELECT component, detail FROM {server.views}health WHERE lost > 0"))
        result["lost_detail"] = "; ".join(f"{row['component']}: {row['detail']}" for row in details)
    return result
