"""Limits on open connections for every server of pincite: idle time, connections of one address, and memory of all
connections. uvicorn has no time limit for the head of a request, and counts connections as requests, so idle
connections would block everybody.

Here a connection is closed if the head of its request is late, if it is idle too long, or if its client stops reading.
A new client is always accepted: at the limit, the address with the most connections loses one.
"""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

LARGEST_HEAD = 80 << 10
"""Most bytes of a request's line and headers."""
SWEEP_SECONDS = 1.0
LEAST_TAKEN = 16 << 10
"""Fewest bytes of an answer that a client must read within `ConnectionLimits.stall_seconds`."""
FILES_OF_OUR_OWN = 128
"""File descriptors that a server needs besides those of connections."""
OWNER = "owner"
"""Name of the peer of a Unix socket, which has no address."""

Phase = Literal["head", "request", "rest", "idle"]
"""The phase of a connection: it waits for the head of a request, works on a request, receives the rest of an answered
request's body, or is idle."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of connections: `total` at once, and `each` from one address. `held_bytes` bounds the memory of all
    requests without an answer yet and of all answers that clients have not read yet."""

    total: int = 4_096
    each: int = 1_024
    head_seconds: float = 10.0
    idle_seconds: float = 30.0
    stall_seconds: float = 20.0
    held_bytes: int = 512 << 20


def limits_for(most: int, one_peer: bool = False) -> tuple[ConnectionLimits, int]:
    """Return the limits for at most `most` connections, and the length of the queue of the listening sockets.

    Both fit the process's limit of open files, which is raised as far as allowed. With `one_peer`, one address (a
    proxy) may have all connections.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = (1 << 20) if files == resource.RLIM_INFINITY else files - FILES_OF_OUR_OWN
    # Up to `backlog` connections are accepted at once, before any of them is counted.
    backlog = max(16, min(1_024, room // 4))
    total = max(16, min(most, room - backlog))
    return ConnectionLimits(total, total if one_peer else max(8, total // 4)), backlog


def peer_of(client: tuple[Any, ...] | None) -> str:
    """Return the address under which a client's connections are counted: for IPv6 its /64 network, since one customer
    usually has all addresses of such a network."""
    if client is None:
        return OWNER
    try:
        address = ipaddress.ip_address(str(client[0]).partition("%")[0])
    except ValueError:
        return str(client[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return str(ipaddress.ip_network((address, 64), strict=False))
        address = address.ipv4_mapped
    return str(address)


@dataclass(slots=True)
class _Peer:
    """The open connections of one address, and its idle connections, longest idle first."""

    open: dict[Connection, None] = field(default_factory=dict)
    idle: dict[Connection, None] = field(default_factory=dict)


class Connections:
    """The open connections of one server. Its `protocol` is passed to uvicorn as `http`."""

    def __init__(self, limits: ConnectionLimits | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits, self.clock = limits or ConnectionLimits(), clock
        self._peers: defaultdict[str, _Peer] = defaultdict(_Peer)
        self._count = 0
        self._sweeping = False

    def __len__(self) -> int:
        return self._count

    def protocol(self) -> type[H11Protocol]:
        """Return a connection class whose connections are counted here."""
        return type("Connection", (Connection,), {"book": self})

    # ------------------------------------------------------------ events of connections

    def count_opened(self, connection: Connection) -> None:
        """Count a new connection. If there are too many, close another one or this one."""
        limits, own = self.limits, self._peers[connection.peer]
        if len(own.open) >= limits.each:
            if not own.idle:
                connection.abort()
                return
            self._end(next(iter(own.idle)))
        elif self._count >= limits.total:
            largest = max(self._peers.values(), key=lambda peer: len(peer.open))
            if len(largest.open) <= len(own.open):
                largest = own
            if largest is own and not own.idle:
                connection.abort()
                return
            self._end(next(iter(largest.idle or largest.open)))
        self._peers[connection.peer].open[connection] = None
        self._count += 1
        self.note_phase(connection)
        if not self._sweeping:
            self._sweeping = True
            asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._tick)

    def note_phase(self, connection: Connection) -> None:
        """Record that a connection has just entered its phase."""
        peer = self._peers.get(connection.peer)
        if peer is None or connection not in peer.open:
            return
        peer.idle.pop(connection, None)
        if connection.phase != "request":
            peer.idle[connection] = None

    def count_closed(self, connection: Connection) -> None:
        """Stop counting a connection; do nothing if it is not counted."""
        peer = self._peers.get(connection.peer)
        if peer is None or connection not in peer.open:
            return
        del peer.open[connection]
        peer.idle.pop(connection, None)
        self._count -= 1
        if not peer.open:
            del self._peers[connection.peer]

    # ------------------------------------------------------------ closing

    def sweep(self) -> None:
        """Close connections that are overdue, and the largest ones while all together use too much memory."""
        now = self.clock()
        held: dict[str, int] = defaultdict(int)
        for peer in list(self._peers.values()):
            for connection in list(peer.open):
                if connection.overdue(now, self.limits):
                    self._end(connection)
                else:
                    held[connection.peer] += connection.held_bytes
        excess = sum(held.values()) - self.limits.held_bytes
        while excess > 0:
            largest = max(held, key=lambda name: held[name])
            connection = max(self._peers[largest].open, key=lambda each: each.held_bytes)
            excess -= connection.held_bytes
            held[largest] -= connection.held_bytes
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        self.count_closed(connection)
        connection.end()

    def _tick(self) -> None:
        self.sweep()
        self._sweeping = self._count > 0
        if self._sweeping:
            asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._tick)


class Connection(H11Protocol):
    """One connection, with its phase and the time at which the phase began."""

    book: ClassVar[Connections]
    peer = OWNER
    phase: Phase = "head"
    since = 0.0
    _received = 0
    """Bytes received of the current request."""
    _unsent: tuple[float, int] | None = None
    """Time of a measurement, and the bytes of an answer that the client had not read then."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.peer, self.since = peer_of(self.client), self.book.clock()
        self.book.count_opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.book.count_closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.phase == "idle":
            self._enter("head")
        before = self.cycle
        super().data_received(data)
        self._received = len(data) if self.cycle is not before else self._received + len(data)
        self._look()

    def on_response_complete(self) -> None:
        self._received = 0
        super().on_response_complete()
        self._look()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self.book.count_closed(self)  # another protocol has it from here on
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unsent = self.book.clock(), self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unsent = self.book.clock(), self.transport.get_write_buffer_size()

    @property
    def held_bytes(self) -> int:
        """Bytes of its request, and of its answer, that are in memory."""
        return self._received + self.transport.get_write_buffer_size()

    def overdue(self, now: float, limits: ConnectionLimits) -> bool:
        """Say whether the connection must be closed now."""
        waiting = self.transport.get_write_buffer_size()
        if not waiting:
            self._unsent = None
        elif self._unsent is None or waiting > self._unsent[1]:
            self._unsent = now, waiting
        elif now - self._unsent[0] >= limits.stall_seconds:
            if self._unsent[1] - waiting < LEAST_TAKEN:
                return True
            self._unsent = now, waiting
        if self.phase == "request" or self.transport.is_closing():
            return False
        if waiting and self.phase == "idle":
            return False  # the answer is still on its way
        return now - self.since >= (limits.idle_seconds if self.phase == "idle" else limits.head_seconds)

    def end(self) -> None:
        """Close the connection; abort it if part of an answer is still unsent."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def abort(self) -> None:
        """Abort a connection that was just opened."""
        self.transport.abort()

    def _look(self) -> None:
        """Enter the phase that follows from the last event."""
        if self.cycle is not None and not self.cycle.response_complete:
            # A pipelined request, whose bytes had come earlier, is in this phase too.
            self._enter("request")
        elif self.conn.their_state is h11.SEND_BODY:
            self._received = 0  # what comes is thrown away
            self._enter("rest")
        elif self.phase != "head":
            self._enter("head" if self.conn.trailing_data[0] else "idle")

    def _enter(self, phase: Phase) -> None:
        if phase != self.phase:
            self.phase, self.since = phase, self.book.clock()
            self.book.note_phase(self)
