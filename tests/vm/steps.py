# SPDX-License-Identifier: GPL-2.0-or-later
"""The steps of each boot, and what their output must say."""
import json
import re
from dataclasses import dataclass, field
from typing import Callable


@dataclass
class Planned:
    name: str
    seconds: int  # at most
    command: list
    check: Callable = field(default=lambda lines: None)  # None, or what is wrong


def said(lines, word):
    """The JSON behind @word; None: it was not said."""
    for line in lines:
        if line.startswith(f"@{word} {{"):
            return json.loads(line.split(" ", 1)[1])
    return None


def gtest(lines):
    """A run of gtest that reached its end: None; else what is wrong."""
    text = "\n".join(lines)
    passed = re.search(r"^\[  PASSED  \] (\d+) test", text, re.M)
    failed = re.findall(r"^\[  FAILED  \] (\S+?),? ", text, re.M)
    if failed:
        return "failed: " + ", ".join(dict.fromkeys(failed))
    return None if passed and int(passed[1]) > 0 else "the tests did not reach their end"


def summary_of(lines):
    text = "\n".join(lines)
    ran = re.search(r"^\[==========\] (\d+) tests? from .* ran", text, re.M)
    skipped = len(set(re.findall(r"^\[  SKIPPED \] (\w+\.\w+)", text, re.M)))
    return f"{ran[1]} tests ran" + (f", {skipped} skipped" if skipped else "") if ran else ""


def tracing_works(lines, layers=""):
    """The daemon's programs are loaded and attached, it saw the drive's flushes and knows where its file system is
    mounted; health and doctor tell of the layers above the drive, and of none where there are none."""
    report, doctor = said(lines, "report"), said(lines, "doctor")
    if not report or not doctor:
        return "daemon or command line said nothing"
    missing = [r["name"] for r in doctor["requirements"] if r["required"] and not r["present"]]
    if missing:
        return f"doctor misses {missing}"
    health = {row["component"]: row for row in report["health"]}
    if health.get("tracing", {}).get("tier") != "A" or health["tracing"]["state"] != "ok":
        return f"health: {health.get('tracing')}"
    if not any((device["flushes"] or 0) >= 5 and device["mount_point"] == "/mnt" for device in report["devices"]):
        return f"no device at /mnt with the flushes of five syncs: {report['devices']}"
    doctors = [r["detail"] for r in doctor["requirements"] if r["name"] == "block devices make requests themselves"]
    for where, text in (("health", health.get("devices", {}).get("detail") or ""), ("doctor", "".join(doctors))):
        if layers not in text or ("lies on" in text) != bool(layers):
            return f"{where} says of layers: {text}"
    return None


def layered(layers):
    return lambda lines: tracing_works(lines, layers)


BOOTS = [
    ("nvme_core.multipath=N", [
        Planned("gate.ext4", 120, ["guest", "gate", "ext4", "Gate.*:Group.*"], gtest),
        Planned("gate.xfs", 120, ["guest", "gate", "xfs", "Gate.*:Group.*"], gtest),
        Planned("gate.enrolment", 90, ["guest", "gate", "ext4", "Enrolment.*"], gtest),  # no matter what file system
        Planned("drive.ext4", 60, ["guest", "drive", "ext4"], gtest),
        Planned("drive.xfs", 60, ["guest", "drive", "xfs"], gtest),
        Planned("delay.ext4", 60, ["guest", "drive-delayed", "ext4", "30"], gtest),
        Planned("daemon.delay", 60, ["guest", "daemon-delayed"], layered("dm-0 (/mnt) lies on nvme0n1")),
    ]),
    ("nvme_core.multipath=Y", [
        Planned("multipath.ext4", 60, ["guest", "drive", "ext4"], gtest),
        Planned("daemon.multipath", 60, ["guest", "daemon"], layered("nvme0n1 (/mnt) lies on nvme0c0n1")),
    ]),
]


def judge(planned, step):
    if step is None:
        return {"name": planned.name, "passed": False, "seconds": 0, "summary": "did not begin", "measured": [], "lines": []}
    wrong = planned.check(step.lines)
    if step.code != 0:
        how = {None: "did not end", 137: f"not within {planned.seconds} s"}.get(step.code, f"exit {step.code}")
        wrong = f"{how}{f'; {wrong}' if wrong else ''}"
    measured = [json.loads(line.split(" ", 1)[1]) for line in step.lines if line.startswith("@measured {")]
    return {"name": planned.name, "passed": not wrong, "seconds": round(step.seconds, 1),
            "summary": wrong or summary_of(step.lines), "measured": measured, "lines": step.lines}
