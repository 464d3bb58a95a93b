# SPDX-License-Identifier: GPL-2.0-or-later
"""flushlightd for a run: a socket folder of its own, registered so that it ends with the run."""
import signal
from pathlib import Path

from processes import RigError, end, nice_group, run, spawn, start_ticks, wait_for

START_TIMEOUT_S = 20
NICE = -20  # as the neighbours of the cpu fault: a daemon that gets no CPU loses records, which is not what is tested


class Daemon:
    def __init__(self, build, folder, registry, arguments=()):
        found = [path for path in Path(build, "sidecar").rglob("flushlightd") if path.is_file()]
        if not found:
            raise RigError(f"flushlightd is not built below {build}")
        self.program = found[0]
        self.folder = Path(folder)
        self.socket = self.folder / "flushlight.sock"
        self.log = self.folder / "flushlightd.log"
        self.registry = registry
        self.arguments = list(arguments)
        if "--metrics-listen" not in self.arguments:  # several daemons may run at once
            self.arguments += ["--metrics-listen", ""]
        self.process = None
        self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)

    def start(self):
        self.process = spawn([self.program, "--socket", self.socket, "--allow-peers", "any", *self.arguments], self.registry, "flushlightd",
                             log=self.log, die_with_parent=False, nice=NICE)
        nice_group(self.process.pid, NICE)
        wait_for(self.socket.exists, START_TIMEOUT_S, "flushlightd", self.process, self.log)
        return self

    def _entry(self):
        return {"pid": self.process.pid, "ticks": start_ticks(self.process.pid), "what": "flushlightd"}

    def stop(self):
        if self.process and not end([self._entry()], patience_s=10):
            raise RigError("flushlightd does not end")
        self.process = None

    def kill(self):
        if self.process:
            end([self._entry()], first=signal.SIGKILL)
        self.process = None

    def cpu_seconds(self):
        """CPU time that the daemon itself has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks = int(run("getconf", "CLK_TCK").stdout)
        return (int(fields[11]) + int(fields[12])) / ticks
