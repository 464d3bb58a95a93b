# SPDX-License-Identifier: GPL-2.0-or-later
"""The slow device: tmpfs file -> slowfs (FUSE) -> loop device -> ext4 or XFS, all below one folder.

    folder/mem    tmpfs: the backing file and the control block
    folder/fuse   slowfs, with the one file "disk"
    folder/mnt    the file system under test
    folder/processes.jsonl   pids of everything that was started here

clean(folder) takes all of it down from whatever state it is in: it looks at what is mounted, attached and running
rather than at what a run believes it did, so it works after a kill -9 of any part. A guard process does the same
by itself when the run that owns the device dies.
"""
import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from processes import Registry, RigError, end, run, spawn, start_ticks, wait_for

EXT4 = ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard")
XFS = ("mkfs.xfs", "-q", "-f", "-K")


@dataclass(frozen=True)
class Layout:
    """How a file system is made and mounted. {log}: the device of an external journal or log, on the same slow file."""
    mkfs: tuple
    options: str = "defaults"
    external_log: tuple = ()  # how its device is prepared; () with {log} in mkfs: not at all


LAYOUTS = {
    "ext4": Layout(EXT4),
    "xfs": Layout(XFS),
    "ext4-journal": Layout(EXT4, "data=journal"),
    "ext4-writeback": Layout(EXT4, "data=writeback"),
    "ext4-fast-commit": Layout((*EXT4, "-O", "fast_commit")),
    "ext4-external": Layout((*EXT4, "-b", "4096", "-J", "device={log}"),
                            external_log=("mke2fs", "-q", "-F", "-O", "journal_dev", "-b", "4096", "{log}")),
    "xfs-external": Layout((*XFS, "-l", "logdev={log}"), "logdev={log}"),
}
FRAGMENTED_MB, FRAGMENT_BYTES, LOG_MB = 1536, 64 << 10, 128
FIFO_PRIORITY = 10
FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2
MEMORY_BESIDE_DISK_MB = 64  # control block and log


def mounts_below(folder):
    """Mount points at or below a folder, innermost first."""
    found = []
    prefix = f"{Path(folder).absolute()}/"
    with open("/proc/self/mountinfo") as info:
        for line in info:
            point = line.split()[4].replace("\\040", " ")
            if f"{point}/".startswith(prefix):
                found.append(point)
    return found[::-1]


def loops_below(folder):
    """Loop devices whose backing file lies below a folder."""
    prefix = f"{Path(folder).absolute()}/"
    found = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            if path.read_text().startswith(prefix):
                found.append(path.parts[3])
        except OSError:
            pass
    return found


def users_of(loop):
    """Processes that work on a file system on the loop device (their working directory is there)."""
    try:
        number = os.stat(f"/dev/{loop}").st_rdev
    except FileNotFoundError:
        return []
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if os.stat(entry / "cwd").st_dev == number:
                    found.append({"pid": int(entry.name), "ticks": start_ticks(int(entry.name)), "what": "user"})
            except OSError:
                pass
    return found


def slowfs_of(folder):
    """slowfs processes that serve this folder, known or not: their first argument names it."""
    wanted = f"{Path(folder).absolute()}/fuse".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if len(arguments) > 3 and arguments[0].endswith(b"slowfs") and arguments[1] == wanted:
                found.append({"pid": int(entry.name), "ticks": start_ticks(int(entry.name)), "what": "slowfs"})
    return found


def _unmount(point, when_stuck, patience_s=5.0):
    """Unmounts; when that waits for a device that does not answer, when_stuck() makes its requests fail."""
    until = time.monotonic() + patience_s
    stuck_called = False
    while True:
        attempt = subprocess.Popen(["umount", point], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while attempt.poll() is None and (time.monotonic() < until or stuck_called):
            time.sleep(0.01)
            if stuck_called and time.monotonic() > until + patience_s:
                break
        if attempt.poll() == 0:
            return
        if time.monotonic() > until:
            if stuck_called:
                break
            when_stuck()
            stuck_called = True
        time.sleep(0.05)
    subprocess.Popen(["umount", "-l", point], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.2)


@contextlib.contextmanager
def _locked(folder):
    """One at a time for devices side by side: a guard and a new run must not meet half way."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def clean(folder, slowctl=None, owner=None):
    """Takes a slow device down, whatever is left of it. Returns what could not be removed (empty: nothing left).
    With an owner: only if it is still that one's."""
    folder = Path(folder).absolute()
    with _locked(folder):
        if not folder.exists() or (owner and _owner_of(folder) != owner):
            return []
        return _clean(folder, slowctl)


def _owner_of(folder):
    try:
        return (folder / "owner").read_text()
    except FileNotFoundError:
        return None


def _clean(folder, slowctl):
    registry = Registry(folder / "processes.jsonl")
    if slowctl and (folder / "mem/control").exists():
        run(slowctl, folder / "mem/control", "off", check=False)
    end([entry for entry in registry.living() if entry["what"] != "slowfs"], patience_s=1.0)
    for loop in loops_below(folder):
        end(users_of(loop), first=signal.SIGKILL)

    def kill_slowfs():
        end(slowfs_of(folder), first=signal.SIGKILL)

    for point in mounts_below(folder):
        if point not in (str(folder / "fuse"), str(folder / "mem")):
            _unmount(point, kill_slowfs)
    for loop in loops_below(folder):
        run("losetup", "-d", f"/dev/{loop}", check=False)
    end(slowfs_of(folder))
    for point in mounts_below(folder):
        _unmount(point, kill_slowfs)
    until = time.monotonic() + 5  # a lazily detached loop device goes when its last user has
    while loops_below(folder) and time.monotonic() < until:
        time.sleep(0.05)
    left = mounts_below(folder) + loops_below(folder) + slowfs_of(folder) + registry.living()
    if not left:
        shutil.rmtree(folder)
    return left


class SlowDevice:
    def __init__(self, folder, tools, fs="ext4", size_mb=1024, fifo=False, fragmented=False):
        self.folder = Path(folder).absolute()
        self.tools = Path(tools)
        self.fs = fs
        self.size_mb = FRAGMENTED_MB if fragmented else size_mb
        self.fragmented = fragmented
        self.fifo = fifo
        self.control = self.folder / "mem/control"
        self.mount = self.folder / "mnt"
        self.registry = Registry(self.folder / "processes.jsonl")
        self.loop = self.log_loop = None
        self._guard = self._guard_process = None
        self._owner = f"{os.getpid()} {start_ticks(os.getpid())} {time.monotonic_ns()}"

    # -- life ---------------------------------------------------------------------------------------------
    def up(self, guard=True):
        with _locked(self.folder):
            left = _clean(self.folder, self.tools / "slowctl") if self.folder.exists() else []
            if left:
                raise RigError(f"{self.folder}: an earlier run left what cannot be removed: {left}")
            for part in ("mem", "fuse", "mnt"):
                (self.folder / part).mkdir(parents=True)
            (self.folder / "owner").write_text(self._owner)
        if guard:
            self._start_guard()
        run("mount", "-t", "tmpfs", "-o", f"size={self.size_mb + MEMORY_BESIDE_DISK_MB}m,mode=700", "slowfs-memory", self.folder / "mem")
        backing = self.folder / "mem/backing"
        with open(backing, "wb") as file:
            file.truncate(self.size_mb << 20)
        log = self.folder / "slowfs.log"
        command = [self.tools / "slowfs", self.folder / "fuse", backing, self.control]
        process = spawn(command + (["--policy", "fifo"] if self.fifo else []), self.registry, "slowfs", log=log,
                        die_with_parent=False)
        wait_for(lambda: self._ctl("ready", check=False).returncode == 0, 5, "slowfs", process, log)
        self._make_file_system()
        if self.fragmented:
            self._fragment()
        return self

    def _losetup(self, *options):
        loop = run("losetup", "--find", "--show", "--sector-size", "4096", "--direct-io=on", *options,
                   self.folder / "fuse/disk").stdout.strip().removeprefix("/dev/")
        (Path("/sys/block") / loop / "queue/wbt_lat_usec").write_text("0")  # no throttling of its own
        return loop

    def _make_file_system(self):
        layout, log = LAYOUTS[self.fs], None
        if "{log}" in " ".join((*layout.mkfs, layout.options)):
            # the end of the same file: what is held there is held of the file system
            data = (self.size_mb - LOG_MB) << 20
            self.loop = self._losetup("--sizelimit", data)
            self.log_loop = self._losetup("--offset", data)
            log = f"/dev/{self.log_loop}"
        else:
            self.loop = self._losetup()
        for command in (layout.external_log, (*layout.mkfs, f"/dev/{self.loop}")):
            if command:
                run(*(part.replace("{log}", str(log)) for part in command))
        run("mount", "-t", self.fs.split("-")[0], "-o", layout.options.replace("{log}", str(log)), f"/dev/{self.loop}", self.mount)

    def _fragment(self):
        """One file that takes nearly everything, with holes: what is written later lies in pieces."""
        usage = os.statvfs(self.mount)
        size = (usage.f_bavail * usage.f_frsize - (64 << 20)) // (2 * FRAGMENT_BYTES) * 2 * FRAGMENT_BYTES
        libc = ctypes.CDLL(None, use_errno=True)
        libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
        with open(self.mount / "filler", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
            for at in range(0, size, 2 * FRAGMENT_BYTES):
                if libc.fallocate(file.fileno(), FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, at, FRAGMENT_BYTES):
                    raise RigError(f"no holes in {self.mount}/filler: {os.strerror(ctypes.get_errno())}")
            os.fsync(file.fileno())

    def down(self):
        left = clean(self.folder, self.tools / "slowctl")
        if self._guard:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._guard, b"d")  # done: nothing to guard any more
            os.close(self._guard)
            self._guard = None
            self._guard_process.wait(5)
        if left:
            raise RigError(f"{self.folder}: could not be removed: {left}")

    def __enter__(self):
        return self.up()

    def __exit__(self, *_):
        self.down()

    def _start_guard(self):
        """A process that cleans up when this one is gone, however it went: the pipe's end closes."""
        reading, writing = os.pipe()
        self._guard_process = subprocess.Popen([sys.executable, Path(__file__).absolute(), "guard", self.folder, self.tools / "slowctl",
                          self._owner], stdin=reading,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(reading)
        self._guard = writing

    # -- faults and log -----------------------------------------------------------------------------------
    def _ctl(self, *commands, check=True):
        return run(self.tools / "slowctl", self.control, *commands, check=check)

    def hold(self, flush_ms=0, write_ms=0, read_ms=0, offset_bytes=0, length_bytes=0):
        self._ctl("off", f"range={offset_bytes}:{length_bytes}", f"flush={flush_ms}", f"write={write_ms}", f"read={read_ms}")

    def freeze(self, ms):
        self._ctl(f"freeze={ms}")

    def off(self):
        self._ctl("off")

    def logged(self):
        """Number of the next operation: pass it to operations() to see what comes after."""
        return int(self._ctl("logged").stdout)

    def operations(self, since=0, kind=None):
        """Rows (kind, begin_ns, released_ns, end_ns, offset_bytes, length_bytes, asked_ns)."""
        result = self._ctl(f"log={since}", check=False)
        if result.returncode:
            raise RigError("the slow device's log was overwritten: measure for a shorter time")
        rows = [(name, *map(int, rest)) for name, *rest in (line.split() for line in result.stdout.splitlines())]
        return [row for row in rows if kind in (None, row[0])]


def _guard_main(folder, slowctl, owner):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.chdir("/")
    if os.read(0, 1):
        return
    for _ in range(5):
        if not clean(folder, slowctl, owner):
            return
        time.sleep(1)


if __name__ == "__main__" and sys.argv[1:2] == ["guard"]:
    _guard_main(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
