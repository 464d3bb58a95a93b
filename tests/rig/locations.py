# SPDX-License-Identifier: GPL-2.0-or-later
"""Where things are: the build folder (programs), the engines, and the folder for what exists only during a run."""
import hashlib
import os
import tempfile
from pathlib import Path

from processes import RigError

PROJECT = Path(__file__).resolve().parents[2]
SOCKET_PATH_ROOM = 60  # what a Unix socket's path may need below the run folder, of 107 bytes


def build_folder(named=None):
    """The folder given, or $FLUSHLIGHT_BUILD_DIR, or the first below build/ that has the rig's programs."""
    named = named or os.environ.get("FLUSHLIGHT_BUILD_DIR")
    candidates = [Path(named)] if named else [PROJECT / "build/release", *sorted((PROJECT / "build").glob("*"))]
    for candidate in candidates:
        if (candidate / "tests/rig/slowfs").exists():
            return candidate.resolve()
    raise RigError(f"the rig is not built{f' in {named}' if named else ''}: cmake --preset release && cmake --build --preset release")


def tools_folder(named=None):
    return build_folder(named) / "tests/rig"


def engines_folder(named=None):
    return Path(named or os.environ.get("FLUSHLIGHT_ENGINES_DIR") or PROJECT / "build/engines").resolve()


def run_folder(named=None):
    """Below the build folder, unless a socket's path would be too long there."""
    folder = build_folder(named) / "rig-run"
    if len(str(folder)) + SOCKET_PATH_ROOM > 107:
        folder = Path(tempfile.gettempdir()) / f"flushlight-rig-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    return folder


def lacking():
    """Why the slow device cannot be made here; None: it can."""
    if os.geteuid() != 0:
        return "not root"
    for path in ("/dev/fuse", "/dev/loop-control"):
        if not os.path.exists(path):
            return f"no {path}"
    return None
