# SPDX-License-Identifier: GPL-2.0-or-later
"""A daemon for tests of the engines' side: hands out memory (no ledger), keeps every record it reads.

Not flushlightd: it computes nothing. It shows what a database really sends, byte for byte, and can be absent,
hung or wrong when told.
"""
import fcntl
import mmap
import os
import select
import socket
import struct
import threading
import time

MAGIC, VERSION = 0x464C5548, 1
HELLO, WELCOME, REFUSED, QUERY, ROWS, END, COMMAND = range(1, 8)
CONTROL_MAGIC = 0x464C4354
RING_HEAD, RING_DATA = 4096, 32768
F_ADD_SEALS, SEALS = 1033, 0x1 | 0x2 | 0x4
PAD, SESSION, TEXT, STATEMENT, COMMIT, SESSION_END = range(6)
HELLO_FIXED = struct.Struct("<IHHII IIII QII 64x")  # message, engine.. pid, state word; rules follow
VECTOR = 14
COMMIT_NESTED, COMMIT_ACCOUNTED, COMMIT_XA = 1, 2, 64


def message(kind, body=b""):
    return struct.pack("<IHHII", MAGIC, VERSION, kind, 16 + len(body), 0) + body


def end(status=0, rows=0, text=b""):
    return message(END, struct.pack("<II256s", status, rows, text))


def memory_file(name, size):
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.posix_fallocate(fd, 0, size)
    fcntl.fcntl(fd, F_ADD_SEALS, SEALS)
    return fd, mmap.mmap(fd, size)


def parse(record, memory):
    """A record as a dictionary; `memory` is only for error texts."""
    _, kind, version = struct.unpack_from("<IHH", record)
    assert version == 1, memory
    if kind == SESSION:
        pid, userid, dbid, start, *lengths = struct.unpack_from("<QQQQ4H", record, 8)
        names, at = [], 48
        for length in lengths:
            names.append(record[at:at + length].decode())
            at += length
        return dict(type="session", session=pid, userid=userid, dbid=dbid, start_ns=start, user=names[0], database=names[1],
                    application=names[2], address=names[3])
    if kind == TEXT:
        queryid, length, flags = struct.unpack_from("<QII", record, 8)
        return dict(type="text", queryid=queryid, text=record[24:24 + length].decode(), truncated=flags & 1)
    if kind == STATEMENT:
        session, queryid, begin, duration, work, flags, how = struct.unpack_from("<QQQQQII", record, 8)
        return dict(type="statement", session=session, queryid=queryid, begin_ns=begin, duration_ns=duration, work=work,
                    nested=flags & 1, failed=bool(flags & 2), kind=("statement", "commit")[how])
    if kind == COMMIT:
        fields = struct.unpack_from(f"<10Q{VECTOR}QII", record, 8)
        names = ("session", "queryid", "cause", "begin_ns", "duration_ns", "work", "xid", "position", "syncs", "inherited")
        result = dict(zip(names, fields))
        result.update(type="commit", flags=fields[-2], kind=("statement", "commit")[fields[-1]],
                      nested=fields[-2] & COMMIT_NESTED, xa=bool(fields[-2] & COMMIT_XA))
        return result
    if kind == SESSION_END:
        return dict(type="session_end", session=struct.unpack_from("<Q", record, 8)[0])
    raise AssertionError(f"unknown record {kind}")


class Lease:
    """One attached process: its connection and its only ring."""

    def __init__(self, connection, hello, control_fd, epoch):
        self.connection = connection
        self.hello = hello
        rings_fd, self.ring = memory_file("rings", RING_HEAD + RING_DATA)
        body = struct.pack("<QQIIIIII", 0, epoch, 0, 1, 0, 0, RING_DATA, 2)
        socket.send_fds(connection, [message(WELCOME, body)], [control_fd, rings_fd])
        os.close(rings_fd)

    def head(self, index):
        return struct.unpack_from("<Q", self.ring, 8 * index)[0]

    def drain(self):
        head, tail = self.head(0), struct.unpack_from("<Q", self.ring, 128)[0]
        records = []
        while tail < head:
            at = RING_HEAD + tail % RING_DATA
            length, kind = struct.unpack_from("<IH", self.ring, at)
            assert 8 <= length <= 4096 or kind == PAD, (length, kind)
            if kind != PAD:
                records.append(parse(bytes(self.ring[at:at + length]), self))
            tail += length
        struct.pack_into("<Q", self.ring, 128, tail)
        return records


class FakeDaemon:
    """with FakeDaemon(path) as daemon: ... daemon.records"""

    def __init__(self, path, answers=None, hang=False, query_text=True):
        self.path = str(path)
        self.answers = answers or [end()]
        self.hang = hang
        self.query_text = query_text
        self.records, self.queries, self.commands, self.hellos = [], [], [], []
        self.dropped = 0
        self.commits_seen = 0
        self.commits_missed = 0
        self._leases, self._mute = [], []
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self.epoch = time.monotonic_ns()
        self._control_fd, self.control = memory_file("control", 4096)
        struct.pack_into("<IIQQIII", self.control, 0, CONTROL_MAGIC, 1, self.epoch, time.monotonic_ns(), 0, 0, int(self.query_text))
        if os.path.exists(self.path):
            os.unlink(self.path)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.path)
        os.chmod(self.path, 0o777)
        self._listener.listen(128)
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def stop(self):
        """Dies like a daemon that was killed: connections close, the heartbeat stands still."""
        if not self._thread:
            return
        self._stop.set()
        self._thread.join()
        self._thread = None
        self.drain()
        for lease in self._leases:
            lease.connection.close()
        for connection in [self._listener, *self._mute]:
            connection.close()
        self._leases, self._mute = [], []
        os.close(self._control_fd)

    def _run(self):
        while not self._stop.is_set():
            struct.pack_into("<Q", self.control, 16, time.monotonic_ns())
            watched = [self._listener, *[lease.connection for lease in self._leases]]
            for ready in select.select(watched, [], [], 0.005)[0]:
                if ready is self._listener:
                    try:
                        self._accept()
                    except OSError:
                        pass  # it left before it was answered: a session may be that short
                else:
                    self._closed(ready)
            self.drain()

    def _accept(self):
        connection, _ = self._listener.accept()
        packet = connection.recv(65536)
        if len(packet) < 16 or self.hang:
            self._mute.append(connection)
            return
        kind = struct.unpack_from("<IHH", packet)[2]
        if kind == HELLO:
            with self._lock:
                self.hellos.append(packet)
                self._leases.append(Lease(connection, packet, self._control_fd, self.epoch))
            return
        if kind == QUERY:
            view, instance, user, flags, columns = struct.unpack_from("<32s64s192sII", packet, 16)
            names = packet[312:].split(b"\0")[:columns]
            self.queries.append(dict(view=view.rstrip(b"\0").decode(), instance=instance.rstrip(b"\0").decode(),
                                     user=user.rstrip(b"\0").decode(), see_all=flags & 1, columns=[name.decode() for name in names]))
        else:
            self.commands.append(struct.unpack_from("<II64sQQQ", packet, 16))
        try:
            for answer in self.answers:
                connection.send(answer(self.queries[-1]) if callable(answer) else answer)
        except OSError:
            pass
        connection.close()

    def _closed(self, connection):
        with self._lock:
            for lease in [lease for lease in self._leases if lease.connection is connection]:
                self._take(lease)
                self.dropped += lease.head(1)
                self.commits_seen += lease.head(2)
                self.commits_missed += lease.head(6)
                self._leases.remove(lease)
                lease.connection.close()

    def _take(self, lease):
        self.records += lease.drain()

    def drain(self):
        with self._lock:
            for lease in self._leases:
                self._take(lease)

    def take(self, kind=None):
        """All records since the last call (of a type)."""
        self.drain()
        with self._lock:
            records, self.records = self.records, []
        return [record for record in records if kind in (None, record["type"])]

    def missed(self):
        """Commits that sessions made while nobody observed them, as the attached ones say."""
        with self._lock:
            return self.commits_missed + sum(lease.head(6) for lease in self._leases)

    @property
    def sessions(self):
        return len(self._leases)

    def all_memory(self):
        """Everything that the databases wrote into shared memory."""
        with self._lock:
            return b"".join(bytes(lease.ring) for lease in self._leases)
