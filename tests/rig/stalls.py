# SPDX-License-Identifier: GPL-2.0-or-later
"""What the view of stalls says, for any measurement."""
COLUMNS = {"kind": "kind", "device": "device", "age_ms": "ms", "culprit_process": "culprit", "culprit_file": "file",
           "inflight": "inflight", "oldest_request_ms": "oldest_request_ms", "commits_hit": "commits_hit",
           "sessions_hit": "sessions_hit", "commits_waiting": "commits_waiting", "other_tasks_waiting": "other_tasks_waiting",
           "worst_query": "worst_query", "verdict": "verdict", "stall_id": "id", "ended_at": "ended_at"}


def lower_keys(rows):
    return [{key.lower(): value for key, value in row.items()} for row in rows]


def query(server, condition="1 = 1"):
    return f"SELECT {', '.join(COLUMNS)} FROM {server.views}stalls WHERE {condition} ORDER BY stall_id"


def named(rows):
    return [{COLUMNS[name]: value for name, value in row.items() if name in COLUMNS} for row in lower_keys(rows)]


def stalls_since(server, started):
    """Those of the rig's device that lasted at or after a time that the server itself gave."""
    return named(server.sql(query(server, f"device = '{server.device.loop}' AND (ended_at IS NULL OR ended_at >= '{started}')")))
