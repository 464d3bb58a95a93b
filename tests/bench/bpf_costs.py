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


def per_io(costs):
    """ns of our block programs for each request that was started."""
    started = costs.get("fl_io_start", (0, 0))[1]
    return sum(costs[name][0] for name in BLOCK_PROGRAMS if name in costs) / started if started else None


class Biolatency:
    """bcc's `biolatency -Q` (Debian's libbpf-tools), attached beside us to the same events."""

    PROGRAMS = ("block_rq_insert", "block_rq_insert_btf", "block_rq_issue", "block_rq_issue_btf", "block_rq_complete",
                "block_rq_complete_btf")

    def __enter__(self):
        self.process = subprocess.Popen(["/usr/sbin/biolatency", "-Q", "3600", "1"], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE)
        time.sleep(2)
        if self.process.poll() is not None:
            raise RuntimeError(f"biolatency does not run: {self.process.stderr.read().decode()[-300:]}")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)

    @classmethod
    def per_io(cls, costs):
        """Of its programs for each request that was started: the same count of requests as ours."""
        started = costs.get("fl_io_start", (0, 0))[1]
        return sum(costs.get(name, (0, 0))[0] for name in cls.PROGRAMS) / started if started else None
