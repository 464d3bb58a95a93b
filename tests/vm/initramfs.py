# SPDX-License-Identifier: GPL-2.0-or-later
"""An initramfs: a busybox, programs of this build and of this system with their libraries, kernel modules."""
import gzip
import lzma
import shutil
import subprocess
from pathlib import Path

from processes import RigError

FOLDERS = ["bin", "dev", "etc", "mnt", "proc", "run", "sys", "tmp", "vm", "vm/modules"]


class Initramfs:
    """A cpio archive (newc) in the making: what is added first is first."""

    def __init__(self):
        self._parts, self._known, self._number = [], set(), 0
        for folder in FOLDERS:
            self._folder(folder)

    def _entry(self, name, mode, data=b""):
        self._number += 1
        header = [self._number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        entry = b"070701" + b"".join(b"%08X" % number for number in header) + name.encode() + b"\0"
        self._parts.append(entry + b"\0" * (-len(entry) % 4) + data + b"\0" * (-len(data) % 4))

    def _folder(self, name):
        for folder in [*reversed(Path(name).parents), Path(name)]:
            if str(folder) not in (".", *self._known):
                self._known.add(str(folder))
                self._entry(str(folder), 0o40755)

    def add(self, name, data, mode=0o100755):
        name = str(name).lstrip("/")
        if name not in self._known:
            self._known.add(name)
            self._folder(str(Path(name).parent))
            self._entry(name, mode, data)

    def add_program(self, path, name=None):
        """A program and the libraries that it loads, at their own places."""
        path = Path(shutil.which(path) or path)
        if not path.exists():
            raise RigError(f"{path} is missing: build it, or tools/install-deps")
        self.add(name or f"vm/{path.name}", path.read_bytes())
        listing = subprocess.run(["ldd", path], text=True, capture_output=True)
        for line in listing.stdout.splitlines():
            words = line.split()
            found = words[2] if "=>" in words and len(words) > 2 else words[0]
            if found == "not":
                raise RigError(f"{path}: {words[0]} is missing")
            if found.startswith("/"):
                self.add(found, Path(found).read_bytes())

    def add_modules(self, folder, wanted):
        """Kernel modules with what they need, in loading order; what is built in needs none."""
        order, needs = [], {}
        builtin = {Path(line).name for line in (folder / "modules.builtin").read_text().split()}
        paths = {path.name.split(".ko")[0].replace("-", "_"): path for path in folder.glob("kernel/**/*.ko*")}

        def data_of(path):
            return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()

        def visit(name):
            name = name.replace("-", "_")
            if name in needs or any(b.split(".ko")[0].replace("-", "_") == name for b in builtin):
                return
            if name not in paths:
                raise RigError(f"the kernel has no module {name} below {folder}")
            data = needs[name] = data_of(paths[name])
            start = data.find(b"\0depends=") + len(b"\0depends=")
            for need in data[start:data.index(b"\0", start)].decode().split(","):
                if need:
                    visit(need)
            order.append(f"{name}.ko")

        for name in wanted:
            visit(name)
        for name in order:
            self.add(f"vm/modules/{name}", needs[name.removesuffix(".ko")], 0o100644)
        self.add("vm/modules.order", "".join(f"{name}\n" for name in order).encode(), 0o100644)

    def write(self, path):
        self._entry("TRAILER!!!", 0)
        with open(path, "wb") as file:
            file.write(gzip.compress(b"".join(self._parts), 1))
