# SPDX-License-Identifier: GPL-2.0-or-later
"""rig-uring: io_uring in trouble by its own count, and what the view `rings` says of it."""
import contextlib
import json
import subprocess

from processes import RigError

# what the program counts and the view has under the same name
COUNTS = ("submissions", "completions", "failed_submissions", "worker_punts", "cq_overflows", "sqpoll_starved_ms")


class Program:
    """`did`: what it did by its own count, once it has; its ring stays open until the block ends."""

    def __init__(self, tools, mode, *arguments, until_told=False):
        self.process = subprocess.Popen([str(tools / "rig-uring"), mode, *map(str, arguments)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.did = None
        if not until_told:
            self._read()

    def _read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RigError(f"rig-uring ended with {self.process.wait()}")
        self.did = json.loads(line)

    def end_work(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self._read()

    def row(self, server):
        """Of the view."""
        rows = server.sql(f"SELECT * FROM {server.views}rings WHERE process_id = {self.process.pid}")
        if len(rows) != 1:
            raise RigError(f"{len(rows)} rings of rig-uring")
        return {name.lower(): value for name, value in rows[0].items()}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


@contextlib.contextmanager
def starved(server, _device, ms):
    """A program beside the server whose polling thread has no CPU for `ms`, again and again."""
    with Program(server.device.tools, "starved", "--count", 0, "--ms", round(ms), until_told=True) as program:
        yield program


def report(server, program):
    """What the program counted and what the view says, side by side."""
    program.end_work()
    row = program.row(server)
    return {"rings": [{"process": row["process"], "done": {name: program.did[name] for name in COUNTS if name in program.did},
                       "seen": {name: row[name] for name in COUNTS}, "longest_ms": program.did["longest_ms"]}]}
