# SPDX-License-Identifier: GPL-2.0-or-later
"""What BPF programs cost, as the kernel itself counts it (kernel.bpf_stats_enabled)."""
import contextlib
import json
import subprocess
import time
from pathlib import Path

STATS = Path("/proc/sys/kernel/bpf_stats_enabled")
BLOCK_PROGRAMS = ("fl_io_start", "fl_issue", "fl_complete", "fl_io_done", "fl_requeue", "fl_merge")


@contextlib.contextmanager
def run_statistics():
    before = STATS.read_text()
    STATS.write_text("1")
    try:
        yield
    finally:
        STATS.write_text(before)


def programs():
    """name -> (run time in ns, runs), summed over programs of one name."""
    listing = json.loads(subprocess.run(["bpftool", "prog", "show", "--json"], capture_output=True, text=True, check=True,
                                        env={"PATH": "/usr/sbin:/usr/bin"}).stdout)
    result = {}
    for program in listing:
        name = program.get("name", "")
        ns, runs = result.get(name, (0, 0))
        result[name] = (ns + program.get("run_time_ns", 0), runs + program.get("run_cnt", 0))
    return result


def between(before, after):
    return {name: (ns - before.get(name, (0, 0))[0], runs - before.get(name, (0, 0))[1]) for name, (ns, runs) in after.items()}


def ours(costs):
    return {name: cost for name, cost in costs.items() if name.startswith("fl_") and cost[1]}


def per_io(costs, names, requests):
    """ns of these programs for each request that the device completed."""
    return sum(costs[name][0] for name in names if name in costs) / requests if requests else None


def requests_of(device):
    """Requests that the block device `device` has completed: reads, writes, discards and flushes."""
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if fields[2] == device:
            return sum(int(fields[i]) for i in (3, 7, 14, 18))
    raise RuntimeError(f"{device} is not in /proc/diskstats")


class Attached:
    """A program that attaches BPF programs of its own while it runs; `programs`: their names."""

    def __init__(self, command, programs, wait_s=0.0):
        self.command, self.programs, self.wait_s = command, programs, wait_s

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if self.wait_s:
            time.sleep(self.wait_s)
        else:
            self.process.stdout.readline()
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.command[0]} does not run: {self.process.stderr.read().decode()[-300:]}")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=10)


def biolatency():
    """bcc's `biolatency -Q` (Debian's libbpf-tools)."""
    events = ("block_rq_insert", "block_rq_issue", "block_rq_complete")
    return Attached(["/usr/sbin/biolatency", "-Q", "3600", "1"], events + tuple(f"{name}_btf" for name in events), wait_s=2)


def empty_programs(build):
    """Programs that do nothing at our events."""
    folder = Path(build) / "tests/bench"
    return Attached([folder / "empty", folder / "empty.bpf.o"], ())
