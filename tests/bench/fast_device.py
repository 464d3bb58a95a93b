# SPDX-License-Identifier: GPL-2.0-or-later
"""A device as fast as this machine has: a loop device over a file on tmpfs, without the slow FUSE file between.

Cost is a share of something: over a slow device it would vanish.
"""
import os
from pathlib import Path

from device import LAYOUTS, SlowDevice
from processes import run


class FastDevice(SlowDevice):
    def up(self, guard=True):
        for part in ("mem", "mnt"):
            (self.folder / part).mkdir(parents=True)
        (self.folder / "owner").write_text(self._owner)
        if guard:
            self._start_guard()
        run("mount", "-t", "tmpfs", "-o", f"size={self.size_mb + 64}m,mode=700", "fast-memory", self.folder / "mem")
        backing = self.folder / "mem/backing"
        with open(backing, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, self.size_mb << 20)
        self.loop = run("losetup", "--find", "--show", "--sector-size", "4096", backing).stdout.strip().removeprefix("/dev/")
        (Path("/sys/block") / self.loop / "queue/wbt_lat_usec").write_text("0")
        run(*LAYOUTS[self.fs].mkfs, f"/dev/{self.loop}")
        run("mount", "-t", self.fs, f"/dev/{self.loop}", self.mount)
        return self

    def off(self):
        """There is nothing to hold."""
