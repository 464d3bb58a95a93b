# SPDX-License-Identifier: GPL-2.0-or-later
"""What a measurement must show, one rule a function; each returns None or says what is wrong.

A rule gets the figures and those of the same load without a fault (or None where it was not measured)."""
from faults import FAULTS

POOL = "mariadb-pool"
SUM_TOLERANCE = 0.01
CLOSURE_FAULT, CLOSURE_ELSE, CLOSURE_POOL = 0.98, 0.97, 0.95
CLOSURE_FAULT_FROM_MS = 20
HELD_MIN_MS = 2  # less proves nothing
BEHIND_TOLERANCE, BEHIND_SHARE_MIN = 0.05, 0.80
PERCENTILE_TOLERANCE = 0.05
PERCENTILE_FROM_MS = 20
PERCENTILE_QUIET_MS = 0.2
CPU_FACTOR = 5
COVERAGE_MIN = 0.99
RING_TOLERANCE = 0.01
HELD_FAULTS = ("flush", "write")


def missing(result, *names):
    return [name for name in names if result.get(name) is None]


def observed(result, _none):
    absent = missing(result, "commits", "cause_sum", "path_sum", "closure", "coverage", "lost", "commit_p50_ms", "commit_p99_ms", "top_cause")
    return f"not observed: {', '.join(absent)}" if absent else None


def sums(result, _none):
    bad = [f"{name} {result[name]:.4f}" for name in ("cause_sum", "path_sum") if abs(result[name] - 1) > SUM_TOLERANCE]
    return ", ".join(bad) or None


def closure(result, _none):
    much = result["fault"] in HELD_FAULTS or (result["held_in_commit_ms"] or 0) >= CLOSURE_FAULT_FROM_MS
    limit = CLOSURE_POOL if result["engine"] == POOL else CLOSURE_FAULT if much else CLOSURE_ELSE
    return f"closure {result['closure']:.4f} < {limit}" if result["closure"] < limit else None


def top_cause(result, _none):
    wanted = FAULTS[result["fault"]].cause
    if wanted and result["top_cause"] != wanted:
        return f"top cause {result['top_cause']}"


def top_path(result, _none):
    wanted, paths = FAULTS[result["fault"]].path, result.get("paths") or {}
    if wanted and wanted != max(paths, key=lambda name: paths[name] or 0, default=None):
        return "paths " + ", ".join(f"{name} {value}" for name, value in paths.items())


def as_held(result, _none):
    fault = FAULTS[result["fault"]]
    if not fault.witness:
        return None
    if result["held_in_commit_ms"] is None or result["held_in_commit_ms"] < HELD_MIN_MS:
        return f"hardly anything was held: {result['held_in_commit_ms']} ms"
    account, held = result["account"], result["held_in_commit_ms"]
    seen = account[fault.cause]
    if result["fault"] in HELD_FAULTS and seen is not None and result["sessions"] > 1 and seen >= BEHIND_SHARE_MIN * held:
        # Of several sessions some wait for their write behind another's held flush, or the other way round (README.md): at
        # the device under the other cause. Then both together must fit, more closely.
        both = sum(account[name] or 0 for name in HELD_FAULTS)
        if abs(both - held) <= BEHIND_TOLERANCE * held:
            return None
    if seen is None or abs(seen - held) > fault.tolerance * held:
        return f"{fault.cause} {seen if seen is None else round(seen, 3)} ms, held in commits {held:.3f} ms"


def cpu(result, none):
    if result["fault"] != "cpu":
        return None
    if none is None:
        return "no load without a fault to compare with"
    seen, quiet = result["account"]["cpu"] or 0, none["account"]["cpu"] or 0
    return f"cpu {seen:.3f} ms, without a fault {quiet:.3f} ms" if seen < CPU_FACTOR * quiet or seen == 0 else None


def percentiles(result, _none):
    bad = []
    for name in ("p50", "p99"):
        view, client = result[f"commit_{name}_ms"], result[f"client_{name}_ms"]
        if result["fault"] in HELD_FAULTS and (result["held_ms"] or 0) >= PERCENTILE_FROM_MS:
            wrong = abs(view - client) > PERCENTILE_TOLERANCE * client
            # A COMMIT that waits for a thread of the pool has not reached the server's code: only its client sees that.
            if result["engine"] == POOL and result["sessions"] > 1 and view < client:
                wrong = False
        elif result["fault"] == "none":
            wrong = abs(view - client) > PERCENTILE_QUIET_MS if result["sessions"] == 1 else view > client
        else:
            wrong = False
        if wrong:
            bad.append(f"{name} {view:.3f} ms, client's {client:.3f} ms")
    return ", ".join(bad) or None


def roles(result, _none):
    parts = [result[name] or 0 for name in ("led", "followed", "unsynced")]
    return f"roles {'+'.join(map(str, parts))}, commits {result['commits']}" if sum(parts) != result["commits"] else None


def coverage(result, _none):
    if not COVERAGE_MIN <= result["coverage"] <= 2 - COVERAGE_MIN:
        return f"coverage {result['coverage']:.4f} ({result['commits']} of {result['client_commits']})"


def rings(result, _none):
    if result["fault"] != "sqpoll":
        return None
    if not result.get("rings"):
        return "no ring seen"
    bad = [f"{name} {ring['seen'].get(name)}, done {done}" for ring in result["rings"] for name, done in ring["done"].items()
           if ring["seen"].get(name) is None or abs(ring["seen"][name] - done) > RING_TOLERANCE * done]
    return ", ".join(bad) or None


def lost(result, _none):
    return f"lost {result['lost']} ({result.get('lost_detail')})" if result["lost"] else None


RULES = (sums, closure, top_cause, top_path, as_held, cpu, percentiles, roles, coverage, rings, lost)


def judge(result, none):
    """Everything that is wrong with a measurement; empty: it passed."""
    absent = observed(result, none)
    return [absent] if absent else [wrong for rule in RULES if (wrong := rule(result, none))]
