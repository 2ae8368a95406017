"""Open connections of a real server on loopback, by a clock that only the test moves."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from pincite import connections
from pincite.connections import ConnectionLimits, Connections, limits_for, peer_of
from tests.support.asgi import in_thread
from tests.support.waiting import HANG_SECONDS

T = TypeVar("T")
REQUEST = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = 16 << 20


class Front:
    """A server whose clock stands still. It answers `/hold` when `free` is set, `/large` with many bytes, and a POST
    before its body has come."""

    def __init__(self, **limits: Any) -> None:
        self.now, self.port = 0.0, 0
        self.book = Connections(ConnectionLimits(**limits), lambda: self.now)
        self.loop: asyncio.AbstractEventLoop
        self.free: asyncio.Event

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            self.loop, self.free = asyncio.get_running_loop(), asyncio.Event()
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
            return
        if scope["path"] == "/hold":
            await self.free.wait()
        body = b"x" * LARGE if scope["path"] == "/large" else scope["path"].encode()
        length = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": length})
        await send({"type": "http.response.body", "body": body})

    def on_loop(self, work: Callable[[], T]) -> T:
        async def working() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(working(), self.loop).result(HANG_SECONDS)

    def after(self, seconds: float) -> None:
        """Let time pass, and have all connections looked at."""
        self.now += seconds
        self.on_loop(self.book.sweep)

    def until(self, holds: Callable[[], bool]) -> None:
        """Return when something holds on the server."""
        while not self.on_loop(holds):
            pass

    def connected(self, address: str = "127.0.0.1", sent: bytes = b"") -> socket.socket:
        """A connection that the server has counted, or refused."""
        with_it = self.on_loop(lambda: self.made) + 1
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)  # whatever a system would hold by itself
        client.settimeout(HANG_SECONDS)
        client.bind((address, 0))
        client.connect(("127.0.0.1", self.port))
        self.until(lambda: self.made >= with_it)
        client.sendall(sent)
        return client

    made = 0


@contextmanager
def front(**limits: Any) -> Iterator[Front]:
    made = Front(**limits)
    opened = made.book.count_opened

    def counted(connection: Any) -> None:
        opened(connection)
        made.made += 1

    made.book.count_opened = counted  # type: ignore[method-assign]
    with in_thread(made.app, http=made.book.protocol(), interface="asgi3", timeout_keep_alive=600) as port:
        made.port = port
        try:
            yield made
        finally:
            made.on_loop(made.free.set)


def answer(client: socket.socket) -> bytes:
    """The body of a small answer; b"" where the server has closed the connection."""
    data = b""
    try:
        while b"\r\n\r\n" not in data or data.endswith(b"\r\n\r\n"):
            if not (more := client.recv(65536)):
                return b""
            data += more
    except ConnectionResetError:
        return b""
    return data.partition(b"\r\n\r\n")[2]


def closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def phases(made: Front) -> list[str]:
    return [item.phase for peer in made.book._peers.values() for item in peer.open]


def held(made: Front) -> int:
    return sum(item.held_bytes for peer in made.book._peers.values() for item in peer.open)


def test_a_head_that_is_trickled_is_cut_off() -> None:
    with front(head_seconds=10) as made, made.connected(sent=b"GET / HTTP/1.1\r\n") as client:
        for at in range(3):
            made.after(3)
            client.sendall(b"X-%d: y\r\n" % at)
            assert len(made.book) == 1
        made.after(2)
        assert closed(client)


def test_a_connection_that_says_nothing_is_cut_off() -> None:
    with front(head_seconds=10) as made, made.connected() as client:
        made.after(9)
        assert len(made.book) == 1
        made.after(2)
        assert closed(client)


@pytest.mark.parametrize("more", [b"", b"GET"])
def test_between_requests_a_connection_may_be_idle_but_not_begin_one_and_stop(more: bytes) -> None:
    with front(head_seconds=10, idle_seconds=30) as made, made.connected(sent=REQUEST % b"a") as client:
        assert answer(client) == b"/a"
        made.until(lambda: phases(made) == ["idle"])
        made.after(29)
        client.sendall(REQUEST % b"b" + more)
        assert answer(client) == b"/b", "it was kept open"
        made.until(lambda: phases(made) == ["head" if more else "idle"])
        made.after(9)
        assert len(made.book) == 1
        made.after(2 if more else 22)
        assert closed(client)


def test_a_request_takes_the_time_that_it_takes() -> None:
    with front(head_seconds=10, idle_seconds=30) as made, made.connected(sent=REQUEST % b"hold") as client:
        made.until(lambda: phases(made) == ["request"])
        made.after(100)
        made.on_loop(made.free.set)
        assert answer(client) == b"/hold"


def test_requests_that_are_sent_together_are_answered_one_after_another() -> None:
    with front() as made, made.connected(sent=(REQUEST % b"a") * 3 + b"GET") as client:
        data = b""
        while data.count(b"/a") < 3:
            data += client.recv(65536)
        made.until(lambda: phases(made) == ["head"])
        made.after(11)
        assert closed(client)


def test_the_rest_of_a_body_is_not_taken_for_ever() -> None:
    head = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    with front(head_seconds=10) as made, made.connected(sent=head) as client:
        assert answer(client) == b"/a"
        made.until(lambda: phases(made) == ["rest"])
        for _ in range(2):
            made.after(4)
            client.sendall(b"x")
            assert len(made.book) == 1
        made.after(4)
        assert closed(client)


def test_a_client_that_does_not_take_its_answer_is_cut_off() -> None:
    with front(stall_seconds=20) as made, made.connected(sent=REQUEST % b"large") as client:
        made.until(lambda: held(made) > LARGE // 4)
        made.after(19)
        before, taken = made.on_loop(lambda: held(made)), 0
        while taken < LARGE // 2:
            taken += len(client.recv(1 << 20))
        made.until(lambda: held(made) < before - LARGE // 8)
        made.after(2)
        assert len(made.book) == 1, "it has taken much of it"
        while made.on_loop(lambda: len(made.book)):  # the system's buffers take some more
            made.after(21)


def test_memory_is_bounded_and_the_address_that_holds_most_gives_it_back() -> None:
    with front(held_bytes=LARGE + 1) as made:
        other = made.connected("127.0.0.2")
        unread = [made.connected("127.0.0.3", REQUEST % b"large") for _ in range(2)]
        made.until(lambda: held(made) > LARGE + 1)
        made.after(0)
        assert len(made.book) == 2
        other.sendall(REQUEST % b"a")
        assert answer(other) == b"/a"
        del unread


# ---------------------------------------------------------------- how many


def test_an_address_that_has_its_share_gives_up_its_oldest_idle_connection() -> None:
    with front(total=9, each=3) as made:
        some = [made.connected("127.0.0.2") for _ in range(4)]
        assert closed(some[0])
        for at, client in enumerate((*some[1:], made.connected("127.0.0.3"))):
            client.sendall(REQUEST % b"%d" % at)
            assert answer(client) == b"/%d" % at
            client.close()


def test_no_request_is_given_up_for_another_of_the_same_address() -> None:
    with front(total=9, each=2) as made:
        working = [made.connected("127.0.0.2", REQUEST % b"hold") for _ in range(2)]
        made.until(lambda: phases(made) == ["request"] * 2)
        assert closed(made.connected("127.0.0.2"))
        made.on_loop(made.free.set)
        assert [answer(client) for client in working] == [b"/hold"] * 2


def test_somebody_new_always_gets_in() -> None:
    """At the cost of the address that holds most, idle connections first."""
    with front(total=5, each=4) as made:
        many = [made.connected("127.0.0.2", REQUEST % b"hold") for _ in range(3)]
        made.until(lambda: phases(made) == ["request"] * 3)
        few = [made.connected("127.0.0.3"), made.connected("127.0.0.4")]
        new = made.connected("127.0.0.5", REQUEST % b"a")
        assert answer(new) == b"/a"
        assert closed(many[0]) and len(made.book) == 5
        for client in few:
            client.sendall(REQUEST % b"b")
            assert answer(client) == b"/b"


def test_a_thousand_idle_connections_cost_nobody_an_answer() -> None:
    with front(total=64, each=32) as made:
        idle = [socket.create_connection(("127.0.0.1", made.port), source_address=("127.0.0.2", 0)) for _ in range(300)]
        with made.connected("127.0.0.3", REQUEST % b"health") as client:
            assert answer(client) == b"/health"
        assert len(made.book) <= 33
        for client in idle:
            client.close()


def test_the_limits_fit_the_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [(1_024, 4_096)]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: files[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, wanted: files.append(wanted))
    limits, backlog = limits_for(10_000)
    assert files[-1] == (4_096, 4_096)
    assert limits.total + backlog + connections.FILES_OF_OUR_OWN <= 4_096 and limits.each == limits.total // 4
    assert limits_for(100)[0].total == 100
    assert limits_for(100, one_peer=True)[0].each == 100


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        ("127.0.0.2", "127.0.0.2"), ("::ffff:10.1.2.3", "10.1.2.3"), ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"), ("nonsense", "nonsense"),
    ],
)  # fmt: skip
def test_the_peer_of_an_address(address: str, peer: str) -> None:
    assert peer_of((address, 1)) == peer
    assert peer_of(None) == connections.OWNER
