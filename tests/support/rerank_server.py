"""A reranking endpoint on loopback, in the forms of vLLM, Cohere and Jina (`results`), Voyage (`data`) and Text
Embeddings Inference (a bare list): it records what it is asked, and answers as told."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], tuple[int, Any]]


def passages_of(body: dict[str, Any]) -> list[str]:
    return list(body["texts"] if "texts" in body else body["documents"])


def shared_words(question: str, passage: str) -> float:
    """The share of the question's words that a passage has."""
    asked, held = (set(re.findall(r"\w+", text.lower())) for text in (question, passage))
    return len(asked & held) / len(asked)


def scored(body: dict[str, Any], score: str = "relevance_score") -> list[dict[str, Any]]:
    """A result for each passage, best first."""
    passages = enumerate(passages_of(body))
    made = [{"index": number, score: shared_words(body["query"], text)} for number, text in passages]
    return sorted(made, key=lambda item: -item[score])


FORMS: dict[str, Answer] = {
    "results": lambda body: (
        200,
        {"id": "r-1", "results": scored(body), "meta": {"billed_units": {"search_units": 1}}},
    ),
    "data": lambda body: (200, {"object": "list", "data": scored(body), "usage": {"total_tokens": 9}}),
    "list": lambda body: (200, scored(body, "score")),
}


class RerankServer:
    def __init__(self) -> None:
        self.paths: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.answer: Answer = FORMS["results"]
        self.faults: list[Answer] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(server: RerankServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.paths.append(self.path)
            server.bodies.append(body)
            server.keys.append(self.headers.get("Authorization"))
            status, reply = (server.faults.pop(0) if server.faults else server.answer)(body)
            data = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            if status != 200:
                self.send_header("retry-after-ms", "1")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *values: Any) -> None:
            pass

    return Handler


@contextmanager
def rerank_server() -> Iterator[RerankServer]:
    server = RerankServer()
    try:
        yield server
    finally:
        server.close()
