# SPDX-License-Identifier: GPL-2.0-or-later
"""A server on a slow device with a daemon, for a `with` block; everything is gone afterwards, however it ends."""
import contextlib

from daemon import Daemon
from device import SlowDevice
from engines import make_server
from locations import build_folder, engines_folder, run_folder, tools_folder


@contextlib.contextmanager
def running(engine, fs, build=None, engines=None, flushlight=True, fifo=True, name="stall", fragmented=False):
    """Yields (server, daemon or None). `name` tells runs side by side apart."""
    build = build_folder(build)
    with SlowDevice(run_folder(build) / name, tools_folder(build), fs, fifo=fifo, fragmented=fragmented) as device:
        daemon = Daemon(build, device.folder / "daemon", device.registry).start() if flushlight else None
        server = make_server(engine, device, engines_folder(engines), daemon and daemon.folder, build)
        server.start()
        yield server, daemon
        device.off()
        server.stop()
        if daemon:
            daemon.stop()
