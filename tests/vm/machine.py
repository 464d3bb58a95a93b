# SPDX-License-Identifier: GPL-2.0-or-later
"""One boot of a virtual machine whose NVMe drive is held as one likes.

    slownbd (memory, log of what it held) -- socket --> QEMU's NVMe drive
    its control block (a memfd)           -- shared --> an ivshmem device: the guest sets delays and reads the log

Nothing of this has a name on the host but the work folder: memfd and socket are handed down as descriptors, and both
processes die with the one that started them, however it went.
"""
import contextlib
import fcntl
import os
import re
import signal
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

from processes import RigError, Registry, end, spawn

DISK_MB = 1024
SHARED_MB = 32  # a power of two, more than the control block has
MEMORY_MB = 1024
LINES_SHOWN = 40
FIFO_PRIORITY = 10


def accelerator(wanted):
    """(kvm or tcg, why): KVM only where the CPU has it. There are kernels whose /dev/kvm runs special guests alone."""
    flags = set(re.findall(r"\b(vmx|svm)\b", Path("/proc/cpuinfo").read_text()))
    if wanted != "auto":
        return wanted, "as asked"
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg", "no /dev/kvm: the CPU is emulated"
    if not flags:
        return "tcg", "/dev/kvm is there, but the CPU shows neither vmx nor svm, so ordinary kernels do not boot: the CPU is emulated"
    return "kvm", "/dev/kvm"


def serve_promptly(pid):
    """QEMU's main thread answers for the drive, like the rig's own processes ahead of other work; the CPUs' threads stay
    what they are. Not permitted: going on, less exact."""
    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.sched_setscheduler(pid, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(FIFO_PRIORITY))


@dataclass
class Step:
    name: str
    code: int | None = None  # None: did not end
    seconds: float = 0
    lines: list = field(default_factory=list)


@dataclass
class Boot:
    release: str = ""
    done: bool = False
    steps: list = field(default_factory=list)
    problems: list = field(default_factory=list)
    seconds: float = 0


def read_protocol(text):
    """What the guest said on its second serial line; see guest."""
    boot, step = Boot(), None
    for line in text.replace("\r", "").splitlines():
        word, _, rest = line.partition(" ")
        if word == "@boot":
            boot.release = rest
        elif word == "@begin":
            step = Step(rest)
            boot.steps.append(step)
        elif word == "@end" and step:
            name, code, began, ended = rest.split()
            step.code, step.seconds = int(code), float(ended) - float(began)
            step = None
        elif word == "@done":
            boot.done = True
        elif word == "@problem":
            boot.problems.append(rest)
        elif step:
            step.lines.append(line)
    return boot


class Machine:
    def __init__(self, folder, kernels, tools, accel):
        self.folder, self.kernels, self.tools, self.accel = Path(folder), Path(kernels), Path(tools), accel
        self.registry = Registry(self.folder / "processes.jsonl")

    def _qemu(self, kernel, initramfs, parameters, shared, disk):
        root = self.kernels / "qemu"
        cpu = "host" if self.accel == "kvm" else "max,+invtsc"
        command = [root / "usr/bin/qemu-system-x86_64", "-L", root / "usr/share/qemu", "-L", root / "usr/share/seabios",
                   "-nodefaults", "-display", "none", "-no-reboot", "-m", MEMORY_MB, "-smp", 2,
                   "-accel", "kvm" if self.accel == "kvm" else "tcg,thread=multi,tb-size=512", "-cpu", cpu,
                   "-kernel", kernel, "-initrd", initramfs,
                   "-append", f"console=ttyS0 panic=-1 oops=panic quiet tsc=reliable mitigations=off {parameters}",
                   "-serial", f"file:{self.folder / 'console.log'}", "-serial", f"file:{self.folder / 'guest.log'}",
                   "-blockdev", f"driver=nbd,node-name=drive,server.type=fd,server.str={disk}",
                   "-device", "nvme,drive=drive,serial=flushlight",
                   "-object", f"memory-backend-file,id=shared,mem-path=/proc/self/fd/{shared},size={SHARED_MB}M,share=on",
                   "-device", "ivshmem-plain,memdev=shared"]
        libraries = [str(root / part) for part in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")]
        return command, dict(os.environ, LD_LIBRARY_PATH=":".join(libraries))

    def boot(self, kernel, initramfs, parameters, timeout_s, watch=None):
        """Runs the guest to its end; a Boot with what it said. watch(Boot) is called as it goes."""
        began = time.monotonic()
        shared = os.memfd_create("flushlight-vm-control")
        os.ftruncate(shared, SHARED_MB << 20)
        ours, theirs = socket.socketpair()
        log = self.folder / "host.log"
        try:
            for descriptor in (shared, ours.fileno(), theirs.fileno()):
                fcntl.fcntl(descriptor, fcntl.F_SETFD, 0)
            spawn([self.tools / "slownbd", ours.fileno(), f"/proc/self/fd/{shared}", DISK_MB, "--policy", "fifo"],
                  self.registry, "slownbd", log=log, pass_fds=(shared, ours.fileno()))
            ours.close()
            command, environment = self._qemu(kernel, initramfs, parameters, shared, theirs.fileno())
            qemu = spawn(command, self.registry, "qemu", log=log, env=environment, pass_fds=(shared, theirs.fileno()))
            theirs.close()
            serve_promptly(qemu.pid)
            boot = Boot()
            while qemu.poll() is None and time.monotonic() - began < timeout_s:
                time.sleep(0.2)
                boot = self._read()
                if watch:
                    watch(boot)
            late = qemu.poll() is None
        finally:
            end(self.registry.living(), first=signal.SIGKILL)
            os.close(shared)
        boot = self._read()
        boot.seconds = time.monotonic() - began
        if late:
            boot.problems.append(f"not done within {timeout_s:.0f} s")
        elif not boot.done:
            boot.problems.append(f"the machine stopped ({qemu.returncode}): {self._tail()}")
        return boot

    def _read(self):
        log = self.folder / "guest.log"
        return read_protocol(log.read_text(errors="replace")) if log.exists() else Boot()

    def _tail(self):
        lines = []
        for name in ("host.log", "console.log"):
            path = self.folder / name
            lines += path.read_text(errors="replace").splitlines()[-LINES_SHOWN:] if path.exists() else []
        return "\n".join(lines)


__all__ = ["Boot", "Machine", "RigError", "Step", "accelerator", "read_protocol"]
