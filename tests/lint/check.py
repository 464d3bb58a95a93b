#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Facts about every tracked file that are easy to forget. Prints one line for each offence; exits 1 if any.

  tests/lint/check.py            all checks but formatting
  tests/lint/check.py --format   clang-format would change nothing
"""
import os
import re
import subprocess
import sys

TOP = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse", "--show-toplevel"],
                     check=True, capture_output=True, text=True).stdout.strip()

# The licence of a file follows from its folder: the longest prefix decides.
LICENCES = {
    "": "GPL-2.0-or-later",
    "abi/": "BSD-2-Clause",
    "engine_client/": "BSD-2-Clause",
    "bpf/": "GPL-2.0-only",
    "mariadb_plugin/": "GPL-2.0-only",
    "pg_extension/": "PostgreSQL",
}
# Formats without comments, and texts that are compared byte by byte.
NO_SPDX = re.compile(r"(^LICENSES/|^pg_extension/sql/|\.json$|/expected/|/golden/|\.(out|csv|txt\.golden|corpus)$|^\.gitignore$)")

SOURCE = re.compile(r"\.(c|cc|cpp|h|hpp|pl|py|sh|def)$")
LINES_MAX = 500
# Files that may be longer, each with its own limit and why.
LONGER = {}

FORMATTED = re.compile(r"\.(c|cc|cpp|h|hpp)$")

UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "not imple" + "mented",
                                          "place" + "holder"]) + r")\b")
UNFINISHED_ALLOWED = re.compile(r"^(docs/|CHANGELOG\.md$|LICENSES/)")

# Folders that are everybody's: a checkout directly below one of them makes only its own path telling.
COMMON_FOLDERS = {"/", "/tmp", "/var/tmp", "/home", "/root", "/opt", "/usr", "/usr/src", "/srv", "/src"}


def tracked():
    listing = subprocess.run(["git", "-C", TOP, "ls-files", "-z"], check=True, capture_output=True).stdout
    return [name for name in listing.decode().split("\0") if name and os.path.isfile(os.path.join(TOP, name))]


def text_of(name):
    with open(os.path.join(TOP, name), "rb") as file:
        data = file.read()
    return None if b"\0" in data else data.decode("utf-8", "replace")


def registry_hosts():
    """Read from the machine, so that none is written down here."""
    found = set()
    sources = ["/etc/apt/sources.list"]
    for folder, _, names in os.walk("/etc/apt/sources.list.d"):
        sources += [os.path.join(folder, name) for name in names]
    for source in sources:
        try:
            with open(source, encoding="utf-8", errors="replace") as file:
                found.update(re.findall(r"://([^/\s]+)", file.read()))
        except OSError:
            continue
    try:
        npm = subprocess.run(["npm", "config", "get", "registry"], capture_output=True, text=True, timeout=20)
        found.update(re.findall(r"://([^/\s]+)", npm.stdout))
    except (OSError, subprocess.TimeoutExpired):
        pass
    return found


def telling_paths():
    parent = os.path.dirname(TOP)
    paths = [TOP] if TOP not in COMMON_FOLDERS else []
    if parent not in COMMON_FOLDERS:
        paths.append(parent)
    return [path + "/" for path in paths]


def licence_for(name):
    return LICENCES[max((prefix for prefix in LICENCES if name.startswith(prefix)), key=len)]


def check_licence(name, lines):
    if NO_SPDX.search(name) or not any(line.strip() for line in lines):
        return
    head = "\n".join(lines[:6])
    match = re.search(r"SPDX-License-" r"Identifier: ([A-Za-z0-9.+-]+)", head)
    if not match:
        yield 1, "no SPDX line in the first six"
    elif match.group(1) != licence_for(name):
        yield 1, f"SPDX says {match.group(1)}, files here are {licence_for(name)}"


def check_length(name, lines):
    limit = LONGER.get(name, LINES_MAX)
    if SOURCE.search(name) and len(lines) > limit:
        yield len(lines), f"{len(lines)} lines, at most {limit}: divide it"


def check_words(name, lines, machine_words):
    for number, line in enumerate(lines, 1):
        if not UNFINISHED_ALLOWED.search(name) and UNFINISHED.search(line):
            yield number, "unfinished mark"
        for word in machine_words:
            if word in line:
                yield number, f"names this machine ({word})"


def check_mode(name, lines):
    """ctest starts scripts by their name."""
    if lines and lines[0].startswith("#!") and not os.access(os.path.join(TOP, name), os.X_OK):
        yield 1, "starts with #! but is not executable (chmod +x)"


def check_texts():
    machine_words = sorted(registry_hosts()) + telling_paths()
    offences = 0
    names = tracked()
    for name in names:
        text = text_of(name)
        if text is None:
            continue
        lines = text.splitlines()
        for checker in (check_licence(name, lines), check_length(name, lines),
                        check_words(name, lines, machine_words), check_mode(name, lines)):
            for number, what in checker:
                print(f"{name}:{number}: {what}")
                offences += 1
    for name in LONGER:
        if name not in names:
            print(f"{name}:1: listed as an exception in tests/lint/check.py, but not there")
            offences += 1
    print(f"lint: {len(names)} files, {offences} offences")
    return offences


def check_format():
    files = [name for name in tracked() if FORMATTED.search(name)]
    offences = 0
    for name in files:
        run = subprocess.run(["clang-format", "--style=file", "--dry-run", "-Werror", name], cwd=TOP,
                             capture_output=True, text=True)
        if run.returncode:
            first = (run.stderr.splitlines() or ["?"])[0].split(": ")[0]
            print(f"{first}: not formatted (tools/format {name})")
            offences += 1
    print(f"format: {len(files)} files, {offences} offences")
    return offences


if __name__ == "__main__":
    sys.exit(1 if (check_format() if "--format" in sys.argv[1:] else check_texts()) else 0)
