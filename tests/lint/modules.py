#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""No engine module needs a symbol of ours that no source gave it: the server could not load it, and says so at login.

  tests/lint/modules.py MODULE.so...
"""
import subprocess
import sys

OURS = ("fl_", "flc_", "flushlight::")


def missing(path):
    """Names of ours that `path` expects its server to have."""
    lines = subprocess.run(["nm", "--dynamic", "--undefined-only", "--demangle", path], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    return [name for name in (line.split(" U ", 1)[-1].strip() for line in lines) if name.startswith(OURS)]


def main():
    modules = sys.argv[1:]
    if not modules:
        sys.exit(__doc__)
    offences = [(path, name) for path in modules for name in missing(path)]
    for path, name in offences:
        print(f"{path}: no source defines {name} (is a file missing in its CMakeLists.txt or Makefile?)")
    print(f"modules: {len(modules)} checked, {len(offences)} offences")
    return bool(offences)


if __name__ == "__main__":
    sys.exit(main())
