# SPDX-License-Identifier: GPL-2.0-or-later
"""The daemon's way of asking a server for its settings, one question at a time (engine_facts.cpp)."""
import json
import subprocess
from pathlib import Path


class Asker:
    def __init__(self, build, engine, target, timeout_ms=2000):
        self.process = subprocess.Popen([Path(build) / "tests/scenarios/engine_facts", engine, target, str(timeout_ms)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.process.stdout.close()
