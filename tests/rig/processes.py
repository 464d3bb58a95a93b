# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes that the rig starts: started so that they end with it, named by pid and start time, never by name."""
import ctypes
import json
import os
import signal
import subprocess
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class RigError(Exception):
    """Something outside the rig's control went wrong; the text says what a person can do."""


def run(*command, check=True, timeout=60, **kw):
    result = subprocess.run([str(part) for part in command], text=True, capture_output=True, timeout=timeout, **kw)
    if check and result.returncode:
        raise RigError(f"{' '.join(map(str, command))}: exit {result.returncode}: {(result.stderr or result.stdout).strip()[-800:]}")
    return result


def start_ticks(pid):
    """Start time of a process, which with its pid names it for good; None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2:].split()
    return None if fields[0] == "Z" else int(fields[19])


def alive(pid, ticks):
    return ticks is not None and start_ticks(pid) == ticks


class Registry:
    """The pids that a run started, in a file, so that whoever cleans up after it knows them."""

    def __init__(self, path):
        self.path = Path(path)

    def entries(self):
        try:
            return [json.loads(line) for line in self.path.read_text().splitlines() if line.endswith("}")]
        except FileNotFoundError:
            return []

    def add(self, pid, what):
        with open(self.path, "a") as file:
            file.write(json.dumps({"pid": pid, "ticks": start_ticks(pid), "what": what}) + "\n")

    def living(self):
        return [entry for entry in self.entries() if alive(entry["pid"], entry["ticks"])]


def end(entries, first=signal.SIGTERM, patience_s=3.0):
    """Ends processes: a signal, patience, then SIGKILL. True when all are gone."""
    for number, patience in ((first, patience_s), (signal.SIGKILL, 5.0)):
        left = [entry for entry in entries if alive(entry["pid"], entry["ticks"])]
        for entry in left:
            try:
                os.kill(entry["pid"], number)
            except ProcessLookupError:
                pass
        until = time.monotonic() + patience
        while time.monotonic() < until:
            for entry in left:  # our own children would stay as zombies
                try:
                    os.waitpid(entry["pid"], os.WNOHANG)
                except ChildProcessError:
                    pass
            if not any(alive(entry["pid"], entry["ticks"]) for entry in left):
                return True
            time.sleep(0.01)
    return False


def spawn(command, registry, what, log=None, nice=0, fifo_priority=0, die_with_parent=True, **kw):
    """Starts a process in its own session and registers it before anything else can go wrong."""
    parent = os.getpid()

    def prepare():
        if nice:
            os.nice(nice)
        if fifo_priority:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(fifo_priority))
        if die_with_parent:
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

    out = open(log, "ab") if log else subprocess.DEVNULL
    kw.setdefault("stdin", subprocess.DEVNULL)
    kw.setdefault("stdout", out)
    kw.setdefault("stderr", out)
    process = subprocess.Popen([str(part) for part in command], start_new_session=True, preexec_fn=prepare, **kw)
    registry.add(process.pid, what)
    if log:
        out.close()
    return process


def nice_group(pid, nice):
    """Where sessions are scheduling groups of their own (autogroup), nice must be set for the group too."""
    try:
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))
    except OSError:
        pass


def wait_for(condition, timeout_s, what, process=None, log=None, step_s=0.02):
    """Waits until condition() is true; fails at once when the process that should make it so has ended."""
    until = time.monotonic() + timeout_s
    while not condition():
        ended = process is not None and process.poll() is not None
        if ended or time.monotonic() > until:
            tail = ""
            if log and Path(log).exists():
                tail = ":\n" + "\n".join(Path(log).read_text(errors="replace").splitlines()[-12:])
            why = f"ended with {process.returncode}" if ended else f"not within {timeout_s:g} s"
            raise RigError(f"{what}: {why}{tail}")
        time.sleep(step_s)
