#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Healthy load at changing rates: not one stall. Idle times, few and many sessions, bursts, bulk loads, checkpoints, backups,
a neighbour that syncs; one engine after the other, each on a fresh device, at random but the same each time.

  tests/scenarios/healthy_hour_test.py [--minutes 60] [--engine postgres15] [--engine mariadb] [--fs ext4] [--seed 1]

Prints a line for each phase, each stall as soon as there is one, and at the end one line of JSON. Exit 1: there was a stall.
"""
import argparse
import json
import os
import random
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "rig"))
from block_faults import neighbour  # noqa: E402
from device import LAYOUTS  # noqa: E402
from engines import SERVERS  # noqa: E402
from locations import lacking  # noqa: E402
from measure import Load, lost_now  # noqa: E402
from processes import RigError  # noqa: E402
from session import running  # noqa: E402
from stalls import named, query  # noqa: E402

SKIPPED = 77
FLUSH_MS = 1  # as a good drive's
BULK_ROWS = 100_000


class Phases:
    """Each phase runs for about the seconds that it is given and answers the commits of its clients."""

    def __init__(self, server, dice):
        self.server, self.dice = server, dice

    def load(self, sessions, seconds, *extra):
        load = Load(self.server, sessions, seconds, extra)
        return load.go()[0]["commits"]

    def idle(self, seconds):
        time.sleep(seconds)
        return 0

    def steady(self, seconds):
        return self.load(self.dice.choice((1, 2, 4, 8, 16)), seconds, "--think-us", self.dice.choice((500, 2000, 10000, 50000)))

    def busy(self, seconds):
        return self.load(self.dice.choice((4, 8, 16)), seconds)

    def burst(self, seconds):
        commits = 0
        for _ in range(max(1, int(seconds / 4))):
            commits += self.load(self.dice.choice((32, 64, 128)), 2)
            time.sleep(1)
        return commits

    def big_rows(self, seconds):
        commits = self.load(4, seconds, "--row-bytes", self.dice.choice((8192, 32768)), "--think-us", 20000)
        self.server.sql("TRUNCATE TABLE rig_big")
        return commits

    def bulk(self, _seconds):
        rows = f"generate_series(1, {BULK_ROWS}) AS s(seq)" if self.server.product == "postgresql" else f"seq_1_to_{BULK_ROWS}"
        self.server.sql("DROP TABLE IF EXISTS bulk", f"CREATE TABLE bulk AS SELECT seq AS id, repeat('x', 400) AS v FROM {rows}",
                        "CREATE INDEX bulk_id ON bulk (id)")
        commits = self.load(2, 2)
        self.server.sql("DROP TABLE bulk")
        return commits

    def checkpoint(self, seconds):
        commits = self.load(8, seconds / 2)
        if self.server.product == "postgresql":
            self.server.sql("CHECKPOINT")
        else:
            self.server.sql("SET GLOBAL innodb_max_dirty_pages_pct = 0", "FLUSH TABLES")
            time.sleep(2)
            self.server.sql("SET GLOBAL innodb_max_dirty_pages_pct = 90")
        return commits + self.load(8, seconds / 2)

    def backup(self, seconds):
        """Reads all that there is, writes a part of it again, syncs once."""
        source, target = self.server.data, self.server.device.mount / "backup"
        written = 0
        with open(target, "wb") as file:
            for path in sorted(source.rglob("*")):
                if path.is_file() and written < 50 << 20:
                    with open(path, "rb") as part:
                        shutil.copyfileobj(part, file)
                        written += part.tell()
            os.fsync(file.fileno())
        commits = self.load(4, seconds)
        target.unlink()
        return commits

    def syncing_neighbour(self, seconds):
        with neighbour(self.server.device, "extend", block_bytes=64 << 10, file_bytes=16 << 20, blocks_per_sync=16):
            self.server.device.hold(flush_ms=FLUSH_MS)
            commits = self.load(self.dice.choice((1, 4, 8)), seconds)
        self.server.device.hold(flush_ms=FLUSH_MS)
        return commits

    ALL = (idle, steady, busy, burst, big_rows, bulk, checkpoint, backup, syncing_neighbour)


def healthy(engine, options, seconds, dice):
    """(phases, commits, stalls, losses) of one engine."""
    stalls, count, commits = {}, 0, 0
    with running(engine, options.fs, options.build, options.engines, name="healthy") as (server, _):
        server.device.hold(flush_ms=FLUSH_MS)
        phases, until = Phases(server, dice), time.monotonic() + seconds
        while time.monotonic() < until:
            # all of them in each round, each round in another order
            for phase in dice.sample(Phases.ALL, len(Phases.ALL)):
                begin, wanted = time.monotonic(), dice.uniform(4, 20)
                done = phase(phases, min(wanted, max(until - begin, 2)))
                commits, count = commits + done, count + 1
                print(f"{engine:14} {phase.__name__:18} {time.monotonic() - begin:6.1f} s {done:8} commits", flush=True)
                for stall in named(server.sql(query(server))):
                    if stalls.setdefault(stall["id"], stall) is stall:
                        print(f"STALL {stall['kind']}: {stall['verdict']}", flush=True)
                if time.monotonic() >= until:
                    break
        time.sleep(1)
        stalls.update({stall["id"]: stall for stall in named(server.sql(query(server)))})
        return count, commits, list(stalls.values()), {name: lost for name, lost in lost_now(server).items() if lost}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="of all engines together")
    parser.add_argument("--engine", action="append", choices=list(SERVERS))
    parser.add_argument("--fs", default="ext4", choices=list(LAYOUTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build")
    parser.add_argument("--engines")
    options = parser.parse_args()
    if why := lacking():
        print(f"skipped: {why}")
        return SKIPPED
    engines = options.engine or ["postgres15", "mariadb"]
    dice, result = random.Random(options.seed), {}
    for engine in engines:
        count, commits, stalls, lost = healthy(engine, options, options.minutes * 60 / len(engines), dice)
        result[engine] = {"phases": count, "commits": commits, "stalls": stalls, "lost": lost}
    print(json.dumps({"minutes": options.minutes, "seed": options.seed, **result}))
    return 1 if any(part["stalls"] or not part["commits"] for part in result.values()) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RigError as error:
        sys.exit(f"healthy_hour: {error}")
