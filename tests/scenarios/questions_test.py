#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The four questions of a bad night (docs/runbook.md) during a slow flush, a freeze and a neighbour that crowds the journal: what
the views answer, against golden files. The queries come from the runbook itself.

Numbers are replaced by words or ranges; names, order, causes and the words of verdicts are exact. A session asks that was
opened before, again and again: a row that the golden file has must come, unless it says `at times`, and none may come often that
it does not have.

  tests/scenarios/questions_test.py --engine postgres15 [--build DIR]
  FLUSHLIGHT_QUESTIONS_UPDATE=1 ...     writes the golden files anew: read the difference before you believe it
"""
import argparse
import collections
import os
import re
import sys
import threading
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "rig"))
from freeze import FREEZE_MS, OpenSession, measure_freeze  # noqa: E402
from measure import measure  # noqa: E402
from session import running  # noqa: E402
from stalls import lower_keys  # noqa: E402

RUNBOOK = HERE.parents[1] / "docs/runbook.md"
UPDATE = "FLUSHLIGHT_QUESTIONS_UPDATE"
SESSIONS, SECONDS = 4, 5
ASK_EVERY_S = 0.1
SELDOM, PART, OFTEN = 0.05, 0.2, 0.6  # of the samples that a row is in
WORTH = 0.02  # of the commit time, for a statement to be in the golden file: our own questions commit nothing
# Chance decides whether a freeze meets a commit in its write or in its flush.
BY_CHANCE = {"freeze": {"wait_cause": {"write": "write or flush", "flush": "write or flush"},
                        "flush_ms": dict.fromkeys(("little", "part", "most"), "N")}}
STATEMENTS = 2
AT_TIMES = "at times"
OPTIONS = None


def questions(prefix):
    """The runbook's queries, in its order, for one engine."""
    text = RUNBOOK.read_text()
    found = re.findall(r"```sql\n(.*?);?\n```", text, re.S)
    return [" ".join(query.split()).replace("F.", prefix).rstrip(";") for query in found]


def masked(text, device, mount):
    text = text.replace(str(mount), "<mount>").replace(device, "<device>")
    text = re.sub(r"[0-9A-F]{24}", "<segment>", text)
    text = re.sub(r"(base|global)/[\d/]+", r"\1/<file>", text)
    text = re.sub(r"binlog\.\d+", "binlog.<n>", text)
    return re.sub(r"\d+(\.\d+)?", "N", text)


def share(part, whole):
    return "little" if part < 0.25 * whole else "part" if part < 0.6 * whole else "most"


def words(row, device, mount, by_chance):
    """A row as text: a column a line, NULL left out."""
    lines = []
    for name, value in row.items():
        if value is None:
            continue
        if name in ("flush_ms", "replication_ms", "lock_ms", "other_ms"):
            value = share(value, row["total_commit_ms"] or 1)
        elif isinstance(value, str) and not re.fullmatch(r"[\d.]+|\d{4}-.*", value):
            value = masked(value, device, mount)
        else:
            value = "N"
        lines.append(f"  {name} {by_chance.get(name, {}).get(value, value)}")
    return "\n".join(lines)


def rows_of(golden):
    """For each question of a golden file its rows, with what stands beside the dash."""
    return [{row.rstrip("\n"): mark.strip() for mark, row in re.findall(r"^ -(.*)\n((?:  .*\n?)+)", part, re.M)}
            for part in re.split(r"^\d\. .*\n", golden.read_text(), flags=re.M)[1:]]


class Asker:
    """Asks all questions from a session of its own until the block ends."""

    def __init__(self, server):
        self.server, self.session, self.stop = server, OpenSession(server), threading.Event()
        self.queries = questions(server.views)
        self.samples, self.slowest_s = [], 0

    def ask(self):
        while not self.stop.wait(ASK_EVERY_S):
            began = time.monotonic()
            self.samples.append([lower_keys(self.session.sql(query)) for query in self.queries])
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    def __enter__(self):
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self.session.close()


class Questions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        session = running(OPTIONS.engine, "ext4", OPTIONS.build, OPTIONS.engines, name="questions")
        cls.server, _ = session.__enter__()
        cls.addClassCleanup(session.__exit__, None, None, None)

    def answers(self, samples, by_chance):
        """For each question its rows as text, each with the share of the samples that had it."""
        device, mount, result = self.server.device.loop, self.server.device.mount, []
        for number in range(len(samples[0])):
            of_question = samples[-1:] if number == STATEMENTS else samples  # sums: the last one has all
            seen = collections.Counter()
            for sample in of_question:
                rows = sample[number]
                least = WORTH * max((row.get("total_commit_ms") or 0 for row in rows), default=0)
                seen.update({words(row, device, mount, by_chance) for row in rows if row.get("total_commit_ms", least) >= least})
            result.append({row: times / len(of_question) for row, times in seen.items()})
        return result

    def write(self, golden, answers):
        """What was in it stays, at least `at times`: once is no proof of what cannot come. (Anew: delete it first.)"""
        for rows, wanted in zip(answers, rows_of(golden) if golden.exists() else ()):
            for row in [*rows]:
                rows[row] = rows[row] if row in wanted and not wanted[row] else min(rows[row], PART)
            for row in wanted:
                rows.setdefault(row, PART)
        titles = re.findall(r"^## (.*)$", RUNBOOK.read_text(), re.M)
        text = ""
        for number, (title, rows) in enumerate(zip(titles, answers), 1):
            text += f"{number}. {title}\n"
            text += "".join(f" - {'' if rows[row] >= OFTEN else AT_TIMES}\n{row}\n" for row in sorted(rows) if rows[row] >= SELDOM)
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(re.sub(" +$", "", text, flags=re.M))

    def compare(self, golden, answers):
        everything = rows_of(golden)
        self.assertEqual(len(everything), len(answers))
        for wanted, rows in zip(everything, answers):
            for row, times in rows.items():
                self.assertTrue(times < PART or row in wanted, f"in {times:.0%} of the answers, not in {golden.name}:\n{row}")
            for row, mark in wanted.items():
                self.assertTrue(mark or rows.get(row, 0) >= SELDOM, f"in {golden.name}, in no answer:\n{row}\n\nhave:\n{rows}")

    def check(self, name, samples, slowest_s):
        self.assertGreater(len(samples), 5, "nobody could ask")
        self.assertLess(slowest_s, 1.0, "views must answer during a stall")
        for sample in samples:
            ages = [row["commit_age_ms"] for row in sample[0]]
            self.assertEqual(ages, sorted(ages, reverse=True))
            spent = [row["total_commit_ms"] for row in sample[2]]
            self.assertEqual(spent, sorted(spent, reverse=True))
        answers = self.answers(samples, BY_CHANCE.get(name, {}))
        golden = HERE / f"golden/questions_{name}_{OPTIONS.engine.replace('-', '_')}.txt"
        if os.environ.get(UPDATE):
            self.write(golden, [dict(rows) for rows in answers])
        self.compare(golden, answers)

    def test_1_journal_neighbour(self):
        """(Before the others: what a journal took once is nearer to usual then.)"""
        with Asker(self.server) as asker:
            measure(self.server, "journal-neighbour", 50, SESSIONS, SECONDS, ("--autocommit",))
        time.sleep(5)
        self.assertEqual(self.server.sql(questions(self.server.views)[1]), [], "it ends with the neighbour")
        self.check("journal_neighbour", [sample for sample in asker.samples if sample[1] and sample[0]], asker.slowest_s)

    def test_2_flush(self):
        with Asker(self.server) as asker:
            measure(self.server, "flush", 50, SESSIONS, SECONDS, ("--autocommit",))
        self.check("flush", [sample for sample in asker.samples if sample[0] and sample[2]], asker.slowest_s)

    def test_3_freeze(self):
        with Asker(self.server) as asker:
            measure_freeze(self.server, FREEZE_MS, SESSIONS, load_extra=("--autocommit",))
        self.check("freeze", [sample for sample in asker.samples if sample[1]], asker.slowest_s)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build")
    parser.add_argument("--engines")
    parser.add_argument("--engine", default="postgres15", choices=["postgres15", "postgres18", "mariadb-binlog"])
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
