"""An embeddings endpoint at loopback that answers at once, so that what a benchmark times is all else."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Embeddings = Callable[[Sequence[str]], Iterable[list[float] | str]]
"""What is answered for texts: numbers, or in base64 what is packed."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of an asker that was killed."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def _answering(embeddings: Embeddings) -> type[BaseHTTPRequestHandler]:
    class Endpoint(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            data = [
                {"object": "embedding", "index": number, "embedding": embedding}
                for number, embedding in enumerate(embeddings(texts))
            ]
            usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
            reply = json.dumps({"object": "list", "model": "quick", "data": data, "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, format: str, *values: Any) -> None:
            pass

    return Endpoint


@contextmanager
def quick_endpoint(embeddings: Embeddings, port: int = 0) -> Iterator[str]:
    """Its address; at a port that the system chooses where none is given."""
    server = _Server(("127.0.0.1", port), _answering(embeddings))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
