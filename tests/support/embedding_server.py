"""An embeddings endpoint on loopback, as OpenAI's: it records what it is asked, and answers as told."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from tests.support.waiting import HANG_SECONDS

Answer = Callable[[list[str]], tuple[int, dict[str, Any]] | tuple[int, dict[str, Any], Mapping[str, str]]]
"""Status, body, and headers, which by default say of a failure that it passes at once."""
MODEL = "fake"


def hashed_vector(text: str, dimension: int, model: str = MODEL) -> list[float]:
    """The sum of one random vector a word: deterministic, and texts that share words are alike. Vectors of two
    models have nothing to do with one another."""
    total = np.zeros(dimension)
    for word in re.findall(r"\w+", text.lower()) or [""]:
        total += _word_vector(word if model == MODEL else f"{model} {word}", dimension)
    return [float(value) for value in total]


@lru_cache(10_000)
def _word_vector(word: str, dimension: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).standard_normal(dimension)


class EmbeddingServer:
    """An OpenAI-compatible embeddings endpoint on loopback that records the texts it is asked for."""

    def __init__(self, dimension: int = 16) -> None:
        self.dimension = dimension
        self.requests: list[list[str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.faults: list[Answer] = []
        self._usual: Answer = self.good
        self.arrived, self.released = threading.Event(), threading.Event()
        self._holds: Callable[[list[str]], bool] | None = None
        self._holds_every = False
        self._lock = threading.Lock()
        self._asked = threading.local()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def asker(self) -> int:
        """The port from which the request comes that is answered now."""
        return int(self._asked.port)

    @property
    def texts(self) -> list[str]:
        """Every text asked for, in order."""
        return [text for texts in self.requests for text in texts]

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def forget(self) -> None:
        self.requests.clear()
        self.bodies.clear()

    def next(self, *faults: Answer) -> None:
        """Answers that the next requests get, one each."""
        self.faults.extend(faults)

    @contextmanager
    def answering(self, answer: Answer) -> Iterator[None]:
        """Within the block every request is answered so."""
        self._usual = answer
        try:
            yield
        finally:
            self._usual = self.good

    def hold(self, which: Callable[[list[str]], bool], every: bool = False) -> None:
        """The first request that fits, or every one, sets `arrived` and waits for `released`."""
        self.arrived.clear()
        self.released.clear()
        self._holds, self._holds_every = which, every

    def answer(self, texts: list[str], key: str | None, model: str) -> tuple[int, dict[str, Any], Mapping[str, str]]:
        self._asked.model = model
        with self._lock:
            self.requests.append(texts)
            self.keys.append(key)
            answer = self.faults.pop(0) if self.faults else self._usual
            held = self._holds is not None and self._holds(texts)
            if held and not self._holds_every:
                self._holds = None
        if held:
            self.arrived.set()
            self.released.wait(HANG_SECONDS)
        status, reply, *headers = answer(texts)
        return status, reply, headers[0] if headers else {} if status == 200 else {"retry-after-ms": "1"}

    def good(self, texts: list[str], dimension: int | None = None) -> tuple[int, dict[str, Any]]:
        model = getattr(self._asked, "model", MODEL)
        vectors = [hashed_vector(text, dimension or self.dimension, model) for text in texts]
        data = [{"object": "embedding", "index": number, "embedding": vector} for number, vector in enumerate(vectors)]
        usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        return 200, {"object": "list", "model": model, "data": data, "usage": usage}

    # Faults, each to be given to `next`.

    def shuffled(self, texts: list[str]) -> tuple[int, dict[str, Any]]:
        status, reply = self.good(texts)
        return status, {**reply, "data": reply["data"][::-1]}

    def one_short(self, texts: list[str]) -> tuple[int, dict[str, Any]]:
        status, reply = self.good(texts)
        return status, {**reply, "data": reply["data"][:-1]}

    def other_dimension(self, texts: list[str]) -> tuple[int, dict[str, Any]]:
        return self.good(texts, self.dimension + 1)

    def uneven(self, texts: list[str]) -> tuple[int, dict[str, Any]]:
        status, reply = self.good(texts)
        reply["data"][-1]["embedding"].append(0.5)
        return status, reply

    @staticmethod
    def status(code: int, headers: Mapping[str, str] | None = None) -> Answer:
        reply = {"error": {"message": "no", "type": "error", "code": str(code)}}
        return lambda texts: (code, reply) if headers is None else (code, reply, headers)


def _handler(server: EmbeddingServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.bodies.append(body)
            server._asked.port = self.client_address[1]
            asked = list(body["input"]), self.headers.get("Authorization"), str(body["model"])
            status, reply, headers = server.answer(*asked)
            data = json.dumps(reply).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True  # the asker was killed meanwhile

        def log_message(self, format: str, *values: Any) -> None:
            pass

    return Handler


@contextmanager
def embedding_server(dimension: int = 16) -> Iterator[EmbeddingServer]:
    server = EmbeddingServer(dimension)
    try:
        yield server
    finally:
        server.close()
