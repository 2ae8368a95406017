"""A language model's endpoint on loopback, as OpenAI's: it records what it is asked, answers as told, and fails
in every way an endpoint can.

    with llm_server() as server:
        server.reply = lambda prompt: f"About {prompt[:20]}."     # text, or an Answer
        server.next(status(500), too_many(2), refusal())          # what the next calls get instead, one each
        ...
        server.prompts            # the user texts that were asked, in order
        server.calls[0].headers   # whole requests
        server.completed          # user texts whose reply was sent off, all of it

Batches stay `in_progress` until `server.end_batch()`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.waiting import HANG_SECONDS

MODEL = "fake-model"


@dataclass(frozen=True)
class Call:
    """One request for a completion."""

    body: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def system(self) -> str:
        return next((str(item["content"]) for item in self.body["messages"] if item["role"] == "system"), "")

    @property
    def user(self) -> str:
        """The text of the user's message."""
        content = self.body["messages"][-1]["content"]
        return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)

    @property
    def images(self) -> list[str]:
        """The data URLs of its pictures."""
        content = self.body["messages"][-1]["content"]
        parts = [] if isinstance(content, str) else content
        return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]

    @property
    def key(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")


# ---------------------------------------------------------------- answers


@dataclass(frozen=True)
class Answer:
    """What the endpoint sends. how: `` whole; `cut` in the middle; `reset` not at all; `hang` not before
    `server.released`; `drip` blanks until the asker leaves."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    how: str = ""

    @property
    def data(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def says(text: str | None, finish: str = "stop", usage: Any = None, logprobs: Any = None, **more: Any) -> Answer:
    """A completion; without `usage`, a token for each word of the reply, and ten for the prompt."""
    message = {"role": "assistant", "content": text, **more}
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": logprobs}
    told = {"prompt_tokens": 10, "completion_tokens": len((text or "").split())} if usage is None else usage
    made = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice]}
    return Answer({**made, **({"usage": told} if told else {})})


def first_token(**logprobs: float) -> Any:
    """The `logprobs` of a reply whose first token might have been any of these."""
    pairs = [{"token": token, "logprob": value, "bytes": None} for token, value in logprobs.items()]
    return {"content": [{**pairs[0], "top_logprobs": pairs}]}


def refusal() -> Answer:
    return says("I'm sorry, but I cannot help with that request.")


def empty() -> Answer:
    return says("")


def cut_short() -> Answer:
    return says("This reply ends in the middle of a", "length")


def status(code: int, message: str = "no", **headers: str) -> Answer:
    """An error; `retry_after="2"` is sent as `Retry-After`."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer({"error": {"message": message, "type": "error", "code": str(code)}}, code, sent)


def too_many(retry_after: float | str) -> Answer:
    return status(429, "slow down", retry_after=str(retry_after))


def junk(body: bytes = b"<html>It works!</html>") -> Answer:
    return Answer(body)


def cut() -> Answer:
    return Answer(says("half of a reply").body, how="cut")


def reset() -> Answer:
    return Answer(how="reset")


def hang() -> Answer:
    return Answer(how="hang")


def drip() -> Answer:
    return Answer(how="drip")


def wrong_key(key: str) -> Answer:
    """As endpoints do, with the key in the error."""
    return status(401, f"Incorrect API key provided: {key}. It came as Authorization: Bearer {key}")


# ---------------------------------------------------------------- the server


class LlmServer:
    def __init__(self) -> None:
        self.reply: Callable[[str], str | Answer] = words_about
        self.required_key: str | None = None
        self.batch_api = True
        self.calls: list[Call] = []
        self.completed: list[str] = []
        self.arrived, self.released = threading.Event(), threading.Event()
        self.hung: Callable[[int], object] = lambda port: None
        """Function that is given the asker's port when a call hangs."""
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self._faults: list[Answer | Callable[[Call], Answer]] = []
        self._batch_faults: list[Answer] = []
        self._numbers = itertools.count(1)
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def prompts(self) -> list[str]:
        return [call.user for call in self.calls]

    def next(self, *faults: Answer | Callable[[Call], Answer]) -> None:
        """What the next calls get, one each."""
        self._faults.extend(faults)

    def next_batch(self, *faults: Answer) -> None:
        """What the next submissions of a batch get, one each. One that is `cut` is made all the same."""
        self._batch_faults.extend(faults)

    def forget(self) -> None:
        self.calls.clear()
        self.completed.clear()
        self._faults.clear()

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # ------------------------------------------------------------ what is asked

    def answer(self, call: Call) -> Answer:
        with self.lock:
            self.calls.append(call)
            fault = self._faults.pop(0) if self._faults else None
        if self.required_key is not None and call.key != self.required_key:
            return wrong_key(call.key)
        if fault is not None:
            return fault(call) if callable(fault) else fault
        said = self.reply(call.user)
        return says(said) if isinstance(said, str) else said

    # ------------------------------------------------------------ batches

    def add_file(self, data: bytes, purpose: str = "batch") -> dict[str, Any]:
        file_id = f"file-{next(self._numbers)}"
        self.files[file_id] = data
        return {"id": file_id, "object": "file", "bytes": len(data), "created_at": int(time.time()),
                "filename": "prompts.jsonl", "purpose": purpose, "status": "processed"}  # fmt: skip

    def add_batch(self, asked: Mapping[str, Any]) -> tuple[dict[str, Any], Answer | None]:
        """The batch, and what is sent in its place."""
        fault = self._batch_faults.pop(0) if self._batch_faults else None
        if fault is not None and fault.how != "cut":
            return {}, fault
        batch = {**asked, "id": f"batch-{next(self._numbers)}", "object": "batch", "status": "in_progress",
                 "created_at": int(time.time())}  # fmt: skip
        self.batches[batch["id"]] = batch
        return batch, fault

    def requests_of(self, batch_id: str) -> list[dict[str, Any]]:
        lines = self.files[self.batches[batch_id]["input_file_id"]].splitlines()
        return [json.loads(line) for line in lines]

    def end_batch(
        self,
        batch_id: str | None = None,
        state: str = "completed",
        failing: Callable[[str], str | None] = lambda prompt: None,
        answered: Callable[[str], bool] = lambda prompt: True,
        errors: list[str] | None = None,
    ) -> None:
        """Ends a batch, the newest where none is named. `failing` gives the error of a prompt; those that are
        not `answered` are left out, or are errors `batch_expired` of one that expired; `errors` are of the whole."""
        batch = self.batches[batch_id or list(self.batches)[-1]]
        good, bad = [], []
        for request in self.requests_of(batch["id"]) if errors is None else ():
            call, key = Call(request["body"], {}), request["custom_id"]
            error = failing(call.user)
            if not answered(call.user):
                if state == "expired":
                    bad.append({"custom_id": key, "response": None, "error": {"code": "batch_expired"}})
            elif error is not None:
                body = {"error": {"message": error}}
                bad.append({"custom_id": key, "response": {"status_code": 400, "body": body}, "error": None})
            else:
                body = self.answer(call).body
                good.append({"custom_id": key, "response": {"status_code": 200, "body": body}, "error": None})
        for name, lines in (("output_file_id", good), ("error_file_id", bad)):
            if lines:
                data = "".join(json.dumps(line) + "\n" for line in lines).encode()
                batch[name] = self.add_file(data, "batch_output")["id"]
        batch["errors"] = {"data": [{"code": "error", "message": text} for text in errors or ()]}
        batch["status"] = state


def words_about(prompt: str) -> str:
    """A plain sentence, another for every prompt."""
    return f"This text is about the number {int(hashlib.blake2b(prompt.encode(), digest_size=4).hexdigest(), 16)}."


def _handler(server: LlmServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/chat/completions":
                call = Call(json.loads(data), {name.lower(): value for name, value in self.headers.items()})
                if self.send(server.answer(call)):
                    with server.lock:
                        server.completed.append(call.user)
            elif self.path == "/v1/files" and server.batch_api:
                boundary = self.headers["Content-Type"].partition("boundary=")[2].encode()
                (part,) = [part for part in data.split(b"--" + boundary) if b"filename=" in part]
                self.send(Answer(server.add_file(part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n"))))
            elif self.path == "/v1/batches" and server.batch_api:
                batch, fault = server.add_batch(json.loads(data))
                self.send(fault or Answer(batch))
            else:
                self.send(status(404, f"Invalid URL (POST {self.path})"))

        def do_GET(self) -> None:
            kind, _, rest = self.path.partition("?")[0].removeprefix("/v1/").partition("/")
            if kind == "batches" and server.batch_api and not rest:
                found = list(server.batches.values())[::-1]
                self.send(Answer({"object": "list", "data": found, "has_more": False}))
            elif kind == "batches" and rest in server.batches:
                self.send(Answer(server.batches[rest]))
            elif kind == "files" and rest.removesuffix("/content") in server.files:
                self.send(Answer(server.files[rest.removesuffix("/content")]))
            else:
                self.send(status(404, f"Invalid URL (GET {self.path})"))

        def send(self, answer: Answer) -> bool:
            """Whether a whole, good answer was sent."""
            if answer.how == "hang":
                server.arrived.set()
                server.hung(self.client_address[1])
                server.released.wait(HANG_SECONDS)
            if answer.how in ("hang", "reset"):
                self.close_connection = True
                return False
            data = answer.data if answer.how != "drip" else b" " * 10_000
            try:
                self.send_response(answer.status)
                for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                for blank in data if answer.how == "drip" else ():
                    self.wfile.write(bytes([blank]))
                    server.released.wait(0.01)
                if answer.how != "drip":
                    self.wfile.write(data[: len(data) // 2] if answer.how == "cut" else data)
            except OSError:
                self.close_connection = True  # the asker was killed, or left
                return False
            if answer.how == "cut":
                self.close_connection = True
            return not answer.how and answer.status == 200

        def log_message(self, format: str, *values: Any) -> None:
            pass

    return Handler


@contextmanager
def llm_server() -> Iterator[LlmServer]:
    server = LlmServer()
    try:
        yield server
    finally:
        with suppress(OSError):
            server.close()
