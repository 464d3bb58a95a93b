#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Facts that stand in two places by necessity are the same in both. CONTRIBUTING.md says where to touch what; this
says what was forgotten."""
import os
import re
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def text_of(name):
    with open(os.path.join(TOP, name), encoding="utf-8") as file:
        return file.read()


def files_below(folder, suffix):
    for where, _, names in os.walk(os.path.join(TOP, folder)):
        yield from (os.path.relpath(os.path.join(where, name), TOP) for name in sorted(names) if name.endswith(suffix))


def same(what, first, second):
    for name in sorted(set(first) - set(second)):
        yield f"{what[0]}: {name}, but not in {what[1]}"
    for name in sorted(set(second) - set(first)):
        yield f"{what[1]}: {name}, but not in {what[0]}"


def tracepoints():
    """A signal that a program attaches to is one that `doctor` knows."""
    attached = [name for file in files_below("bpf", ".bpf.h") for name in re.findall(r'SEC\("tp_btf/(\w+)"\)', text_of(file))]
    table = re.search(r"kTracepoints\[\] = \{(.*?)\n\};", text_of("sidecar/kernel/features.cpp"), re.S).group(1)
    return same(("bpf/", "kTracepoints in sidecar/kernel/features.cpp"), attached, re.findall(r'\{"(\w+)"', table))


def bpf_files():
    """Each family's file is part of the one object."""
    everything = text_of("bpf/flushlight.bpf.c") + "".join(text_of(name) for name in files_below("bpf", ".bpf.h"))
    return [f"bpf/flushlight.bpf.c: {name} is not included" for name in files_below("bpf", ".bpf.h")
            if f'"{os.path.basename(name)}"' not in everything]


def views():
    """README's table has every view."""
    defined = re.findall(r"^FL_VIEW\((\w+),", text_of("abi/views.def"), re.M)
    section = text_of("README.md").split("## Views at a glance")[1].split("\n## ")[0]
    return same(("abi/views.def", "README.md, Views at a glance"), defined, re.findall(r"^\| `(\w+)` \|", section, re.M))


def labels():
    """CONTRIBUTING's table has every test label."""
    used = set()
    for name in files_below("tests", "CMakeLists.txt"):
        for found in re.findall(r'LABELS\s+"?(\w+)|add_rig_test\(\w+ (\w+) ', text_of(name)):
            used.update(label for label in found if label and label != "labels")
    section = text_of("CONTRIBUTING.md").split("## Build and test")[1].split("\n## ")[0]
    return same(("tests/", "CONTRIBUTING.md, Build and test"), used | {"vm", "bench"}, re.findall(r"^\| `(\w+)` \|", section, re.M))


def settings():
    """The example configuration shows every setting."""
    keys = re.findall(r'\{"(\w+)\.(\w+)", "--', text_of("sidecar/base/config.cpp"))
    shown = []
    group = ""
    for line in text_of("sidecar/packaging/flushlight.toml").splitlines():
        if match := re.match(r"\[(\w+)\]", line):
            group = match.group(1)
        elif match := re.match(r"#? ?(\w+) = ", line):
            shown.append((group, match.group(1)))
    return same(("sidecar/base/config.cpp", "sidecar/packaging/flushlight.toml"), map(".".join, keys), map(".".join, shown))


def decisions():
    names = [os.path.basename(name) for name in files_below("docs/decisions", ".md")]
    numbers = [name[:4] for name in names]
    return [f"docs/decisions: two records are number {number}" for number in sorted(set(numbers)) if numbers.count(number) > 1]


def completion():
    """The shell completes every subcommand and option that the command line has."""
    text = "".join(text_of(name) for name in files_below("sidecar/cli", ".cpp"))
    known = re.findall(r'add_(?:option|flag)\(\s*"(--[\w-]+)"(?![^;]*->group\(""\))', text)
    known += re.findall(r'add_subcommand\(\s*"(\w+)"', text) + ["--help", "--version"]
    script = text_of("sidecar/packaging/flushlight.bash-completion")
    shown = re.findall(r"--\w[\w-]*", script) + re.findall(r"^ {8}(\w+)\) +COMPREPLY", script, re.M)
    shown += re.search(r'"([\w ]+) \$global"', script).group(1).split()
    return same(("sidecar/cli/", "sidecar/packaging/flushlight.bash-completion"), known, shown)


def probe_patterns():
    """docs/probe.md explains every group and method of the probe."""
    text = text_of("sidecar/probe/pattern.cpp")
    groups = re.findall(r'"([\w-]+)"', re.search(r"kGroupNames\[\] = \{(.*?)\}", text).group(1))
    methods = re.findall(r'\{(?:Log|Read)Method::\w+, "(\w+)"', text)
    section = text_of("docs/probe.md").split("## Patterns")[1].split("\n## ")[0]
    return same(("sidecar/probe/pattern.cpp", "docs/probe.md, Patterns"), groups + methods, re.findall(r"^\| `([\w-]+)` \|", section, re.M))


CHECKS = [tracepoints, bpf_files, views, labels, settings, decisions, completion, probe_patterns]


def main():
    problems = [problem for check in CHECKS for problem in check()]
    for problem in problems:
        print(problem)
    print(f"places: {len(CHECKS)} checks, {len(problems)} offences")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
