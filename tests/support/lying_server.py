"""A server on loopback that answers with whatever bytes a test says, for as long as its asker listens."""

from __future__ import annotations

import re
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

Said = bytes | Iterable[bytes] | Callable[[str, str], bytes | Iterable[bytes]]
"""A whole answer, its pieces, or what makes one of the request's first line and its headers."""


@dataclass
class LyingServer:
    """`says` by a pattern of `METHOD path`, of which the first that is found counts. `asked` are first lines and
    headers of the requests, `sent` the bytes of all answers."""

    port: int = 0
    says: dict[str, Said] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    sent: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def trickle(self, head: bytes, piece: bytes = b"x", seconds: float = 0.02) -> Callable[[str, str], Iterator[bytes]]:
        """A head, and then a piece at a time without end."""

        def made(line: str, headers: str) -> Iterator[bytes]:
            yield head
            while not self.ended.wait(seconds):
                yield piece

        return made


def answer(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """An answer whose Content-Length may lie."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


class _Session(socketserver.StreamRequestHandler):
    server: _Listener

    def handle(self) -> None:
        lying = self.server.lying
        with suppress(OSError):
            while line := self.rfile.readline().decode("latin-1").strip():
                headers = ""
                while more := self.rfile.readline().decode("latin-1").strip():
                    headers += f"{more}\n"
                if found := re.search(r"(?i)^content-length: (\d+)", headers, re.MULTILINE):
                    self.rfile.read(int(found[1]))
                lying.asked.append((line, headers))
                said = next((said for part, said in lying.says.items() if re.search(part, line)), None)
                said = answer(b"", status="404 Not Found") if said is None else said
                said = said(line, headers) if callable(said) else said
                for piece in [said] if isinstance(said, bytes) else said:
                    lying.sent += len(piece)
                    self.wfile.write(piece)
                if not isinstance(said, bytes):
                    return


class _Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    lying: LyingServer

    def handle_error(self, request: object, client_address: object) -> None:
        """An asker that goes in the middle is what tests want."""


@contextmanager
def lying_server() -> Iterator[LyingServer]:
    lying = LyingServer()
    with _Listener(("127.0.0.1", 0), _Session) as listener:
        listener.lying, lying.port = lying, listener.server_address[1]
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield lying
        finally:
            lying.ended.set()
            listener.shutdown()
            thread.join()
