# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes and threads of a server, and the kernel's threads that work for its file system."""
from pathlib import Path


def processes_below(pid):
    """A process and all that descend from it."""
    children = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                text = (path / "stat").read_text()
            except OSError:
                continue
            parent = int(text[text.rindex(")") + 2:].split()[1])
            children.setdefault(parent, []).append(int(path.name))
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        found.append(one)
        todo += children.get(one, [])
    return found


def threads_of(pids):
    found = set()
    for pid in pids:
        try:
            found.update(int(path.name) for path in Path(f"/proc/{pid}/task").iterdir())
        except OSError:
            pass
    return found


def journal_threads(loop):
    """jbd2's thread of a device."""
    found = set()
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                name = (path / "comm").read_text().strip()
            except OSError:
                continue
            if name.startswith(f"jbd2/{loop}-"):
                found.add(int(path.name))
    return found
