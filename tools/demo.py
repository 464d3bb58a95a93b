#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What demo.sh runs once everything is built: two private servers on slow devices, a mixed load, a fault, and what
the SQL views of each engine say about it, during the fault and after it."""
import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "tests/rig"))
from device import SlowDevice, clean  # noqa: E402
from engines import make_server  # noqa: E402
from locations import build_folder, engines_folder, run_folder, tools_folder  # noqa: E402
from processes import Registry, RigError, end, spawn, wait_for  # noqa: E402

ENGINES = {"mariadb": "MariaDB", "postgres15": "PostgreSQL"}
DEVICE_MB = 1024
DAEMON_START_S = 15
CAUSES = ["oncpu", "flush", "write", "read", "queue", "throttle", "cpu", "replication", "lock", "idle", "other"]
PATHS = ["self", "journal", "peer"]
STATEMENTS = ("SELECT commits, caused_commits, mean_commit_ms, p99_commit_ms, total_commit_ms, caused_commit_ms,\n"
              "       {account}, query\n"
              "FROM {view} WHERE db_name = 'rig' AND commits + caused_commits > 0\n"
              "ORDER BY total_commit_ms + caused_commit_ms DESC LIMIT 5")
WORST = ("SELECT duration_ms, role, cause, path, verdict, query\n"
         "FROM {view} WHERE db_name = 'rig' ORDER BY duration_ms DESC LIMIT 1")
HEALTH = "SELECT component, state, tier, coverage, lost, detail FROM {view}"
DETAIL_SHOWN = 100

# A shop: what its sessions send. {n} counts up, {k} runs over a few keys.
SCHEMA = [
    "CREATE TABLE orders (id INT PRIMARY KEY, customer INT NOT NULL, total DECIMAL(10,2))",
    "CREATE TABLE order_lines (order_id INT NOT NULL, line INT NOT NULL, item INT, amount INT, PRIMARY KEY (order_id, line))",
    "CREATE TABLE stock (item INT PRIMARY KEY, amount BIGINT NOT NULL)",
    "CREATE TABLE web_sessions (id INT PRIMARY KEY, hits BIGINT NOT NULL)",
    "CREATE TABLE audit (id BIGINT PRIMARY KEY, what VARCHAR(80))",
    "INSERT INTO stock VALUES " + ", ".join(f"({k}, 100000)" for k in range(20)),
    "INSERT INTO web_sessions VALUES " + ", ".join(f"({k}, 0)" for k in range(20)),
]
SESSIONS = {
    "checkout": ["BEGIN", "INSERT INTO orders VALUES ({n}, {k}, 42.50)",
                 "INSERT INTO order_lines VALUES ({n}, 1, {k}, 2), ({n}, 2, {k}, 1)",
                 "UPDATE stock SET amount = amount - 3 WHERE item = {k}", "COMMIT"],
    "hits": ["UPDATE web_sessions SET hits = hits + 1 WHERE id = {k}"],
    "hits too": ["UPDATE web_sessions SET hits = hits + 1 WHERE id = {k}"],
    "audit": ["INSERT INTO audit VALUES ({n}, 'logged in')"],
    "reader": ["SELECT SUM(total) FROM orders WHERE customer = {k}"],
}
ROUNDS = 6  # of a session's statements in one connection
THINK_S = 0.05  # between connections: two cores are enough for the load, so that it is not the load that is slow


INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    pass


def say(text):
    print(f"demo {time.monotonic() - STARTED:3.0f} s  {text}", flush=True)


class PlainDisk:
    """Where FUSE or loop devices are missing: a folder on the disk that is there, and no fault to hold."""

    slow = False

    def __init__(self, folder, tools):
        self.folder = Path(folder)
        self.tools = Path(tools)
        self.mount = self.folder / "mnt"
        self.registry = Registry(self.folder / "processes.jsonl")

    def up(self):
        self.down()
        self.mount.mkdir(parents=True)
        return self

    def down(self):
        clean(self.folder)

    def hold(self, **_):
        pass

    def off(self):
        pass


class Slow(SlowDevice):
    slow = True


def make_device(name):
    folder = run_folder() / f"demo-{name}"
    device = Slow(folder, tools_folder(), "ext4", DEVICE_MB)
    try:
        if not os.path.exists("/dev/fuse") or not os.path.exists("/dev/loop-control"):
            raise RigError("no /dev/fuse or no /dev/loop-control")
        return device.up()
    except (RigError, OSError, subprocess.TimeoutExpired) as error:
        with contextlib.suppress(RigError):
            device.down()
        say(f"no slow device here ({' '.join(str(error).split())}): using the plain disk, so no fault will be held")
        return PlainDisk(folder, tools_folder()).up()


class Daemon:
    def __init__(self):
        self.folder = run_folder() / "demo-daemon"
        clean(self.folder)
        self.folder.mkdir(parents=True)
        os.chmod(self.folder, 0o755)
        self.registry = Registry(self.folder / "processes.jsonl")
        self.log = self.folder / "flushlightd.log"
        self.socket = self.folder / "flushlight.sock"
        self.program = build_folder() / "sidecar/flushlightd"

    def start(self):
        process = spawn([self.program, "--socket", self.socket, "--allow-peers", "any", "--metrics-listen", ""], self.registry, "flushlightd",
                        log=self.log, cwd="/")
        wait_for(self.socket.exists, DAEMON_START_S, "flushlightd", process, self.log)

    def stop(self):
        end(self.registry.living(), first=signal.SIGTERM, patience_s=10)
        shutil.rmtree(self.folder, ignore_errors=True)


class Load:
    """Sessions in threads of ours; each connection is a short rig-sql process, as of a web application."""

    counter = iter(range(1, 1 << 30))
    counter_lock = threading.Lock()

    def __init__(self, server):
        self.server = server
        self.stopping = threading.Event()
        self.failures = []
        self.threads = [threading.Thread(target=self._session, args=(steps,), daemon=True) for steps in SESSIONS.values()]

    def _session(self, steps):
        while not self.stopping.is_set():
            statements = []
            for _ in range(ROUNDS):
                with self.counter_lock:
                    n = next(self.counter)
                statements += [step.format(n=n, k=n % 20) for step in steps]
            try:
                self.server.sql(*statements, user="rig")
            except RigError as error:
                self.failures.append(str(error))
                return
            self.stopping.wait(THINK_S)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join(timeout=30)


def load_all(servers, seconds):
    with contextlib.ExitStack() as loads:
        running = [loads.enter_context(Load(server)) for server in servers.values()]
        time.sleep(seconds)
    for failure in (failure for load in running for failure in load.failures):
        raise RigError(f"load: {failure}")


def shares(row, names, total):
    parts = [(row[f"{name}_ms"] or 0, name) for name in names if row[f"{name}_ms"] is not None]
    if not parts or not total:
        return "not observed"
    shown = [f"{name} {100 * ms / total:.0f} %" for ms, name in sorted(parts, reverse=True) if ms >= 0.01 * total]
    return ", ".join(shown)


def indented(text, by="    "):
    return "\n".join(by + line for line in text.splitlines())


def view(server, name):
    return server.views + (name.upper() if server.product == "mariadb" else name)


def show_statements(server):
    account = ", ".join(f"{name}_ms" for name in CAUSES + PATHS)
    print(indented(STATEMENTS.format(view=view(server, "statements"), account="<causes>_ms, <paths>_ms")))
    rows = server.sql(STATEMENTS.format(view=view(server, "statements"), account=account))
    print(f"\n    {'commits':>8} {'mean ms':>9} {'p99 ms':>9}  statement, and where its commit time went")
    for row in rows:
        if row["commits"]:
            total = row["total_commit_ms"]
            print(f"    {row['commits']:8d} {row['mean_commit_ms']:9.2f} {row['p99_commit_ms']:9.2f}  {row['query']}")
            print(f"    {'':28}  {shares(row, CAUSES, total)}")
            print(f"    {'':28}  by {shares(row, PATHS, total)}")
        else:
            mean = row["caused_commit_ms"] / row["caused_commits"]
            print(f"    {'':8} {mean:9.2f} {'':9}  {row['query']}")
            print(f"    {'':28}  wrote most of the transaction in {row['caused_commits']} of the COMMITs")
    if not rows:
        raise RigError(f"{server.name}: the statements view is empty")
    print()


def show_worst(server):
    print(indented(WORST.format(view=view(server, "slow_commits"))))
    rows = server.sql(WORST.format(view=view(server, "slow_commits")))
    if not rows:
        print("\n    none: no commit took longer than 10 ms\n")
    for row in rows:
        print(f"\n    {row['duration_ms']:.1f} ms, {row['role']}, cause {row['cause']}, path {row['path']}: {row['query']}")
        print(f"    \"{row['verdict']}\"\n")


def show(servers, title):
    for name, server in servers.items():
        print(f"\n--- {ENGINES[name]}: {title} ---\n")
        show_statements(server)
        show_worst(server)
    sys.stdout.flush()


def show_health(servers):
    for name, server in servers.items():
        print(f"\n--- {ENGINES[name]}: the instrument itself ---\n")
        print(indented(HEALTH.format(view=view(server, "health"))) + "\n")
        for row in server.sql(HEALTH.format(view=view(server, "health"))):
            facts = [f"{key} {row[key]}" for key in ("tier", "coverage", "lost") if row[key] is not None]
            detail = row["detail"] or ""
            detail = detail if len(detail) <= DETAIL_SHOWN else detail[:DETAIL_SHOWN] + " ..."
            print(f"    {row['component']}: {row['state']}" + (f", {', '.join(facts)}" if facts else "")
                  + (f" ({detail})" if detail else ""))
    print(flush=True)


def run_phase(servers, seconds, title):
    for server in servers.values():
        server.reset_statistics()
    load_all(servers, seconds)
    show(servers, title)


def demo(options):
    with contextlib.ExitStack() as stack:
        say("flushlightd")
        daemon = Daemon()
        stack.callback(daemon.stop)
        daemon.start()
        servers = {}
        devices = []
        for name, title in ENGINES.items():
            device = make_device(name)
            stack.callback(device.down)
            devices.append(device)
            say(f"{title} on {'a slow device (FUSE, loop, ext4)' if device.slow else 'the plain disk'}")
            server = make_server(name, device, engines_folder(), daemon.folder, build_folder())
            stack.callback(server.stop)
            stack.callback(device.off)
            servers[name] = server.start()
            server.sql(*SCHEMA, user="rig")
        slow = all(device.slow for device in devices)
        say("warming up")
        load_all(servers, 2)
        if slow:
            say(f"load for {options.seconds:g} s; each cache flush of the devices is held for {options.flush_ms} ms")
            for device in devices:
                device.hold(flush_ms=options.flush_ms)
            run_phase(servers, options.seconds, f"each flush held for {options.flush_ms} ms")
            for device in devices:
                device.off()
            say(f"the same load for {options.seconds:g} s, nothing held any more")
            run_phase(servers, options.seconds, "after the fault")
        else:
            run_phase(servers, options.seconds, "on the plain disk, no fault")
        show_health(servers)
        say("cleaning up")
    with contextlib.suppress(OSError):
        run_folder().rmdir()  # not ours alone: only if nothing else is in it
    say("done: nothing is left but build/")


def interrupt(number, _frame):
    for other in INTERRUPTS:
        signal.signal(other, signal.SIG_IGN)  # cleaning up is not to be interrupted again
    raise Interrupted(signal.Signals(number).name)


def main():
    global STARTED
    parser = argparse.ArgumentParser(prog="demo.sh", description=__doc__)
    parser.add_argument("--flush-ms", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--already", type=float, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    STARTED = time.monotonic() - options.already
    for number in INTERRUPTS:
        signal.signal(number, interrupt)
    try:
        demo(options)
    except Interrupted as reason:
        say(f"{reason}: cleaned up")
        return 130
    except RigError as error:
        say(f"failed: {error}")
        return 1
    return 0


STARTED = time.monotonic()

if __name__ == "__main__":
    sys.exit(main())
