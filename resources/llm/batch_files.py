"""The files of a batch: requests that go to an endpoint, and answers that come back, one JSON object a line."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from typing import IO, Any

from pipelines.fingerprint import fingerprint
from resources.llm.endpoint import Completion, completion

URL = "/v1/chat/completions"
MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000
LONGEST_LINE = 1 << 24


class Part:
    """The requests of one batch, in a temporary file."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.bytes = 0
        self.file: IO[bytes] = tempfile.TemporaryFile(prefix="pincite-batch-")  # noqa: SIM115 - the spool closes it

    def fingerprint(self, model: str) -> str:
        return fingerprint("batch", model, sorted(self.keys))


class Spool:
    """Requests, divided into parts that an endpoint takes as one batch each."""

    def __init__(self, most_requests: int = MOST_REQUESTS, most_bytes: int = MOST_BYTES) -> None:
        self._most_requests, self._most_bytes = most_requests, most_bytes
        self.parts: list[Part] = []

    def add(self, key: str, body: Mapping[str, Any]) -> None:
        request = {"custom_id": key, "method": "POST", "url": URL, "body": body}
        line = json.dumps(request, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        part = self.parts[-1] if self.parts else None
        if part is None or len(part.keys) == self._most_requests or part.bytes + len(line) > self._most_bytes:
            part = Part()
            self.parts.append(part)
        part.file.write(line)
        part.keys.append(key)
        part.bytes += len(line)

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self.parts:
            part.file.close()


def lines_of(file: IO[bytes]) -> Iterator[bytes]:
    """Lines of a file; one that is longer than any answer is left out."""
    whole = True
    while line := file.readline(LONGEST_LINE):
        begins, whole = whole, line.endswith(b"\n") or len(line) < LONGEST_LINE
        if begins and whole:
            yield line


Answered = tuple[str, Completion | str]
"""(Key, what came back); a text is the endpoint's error."""


def answers(lines: Iterator[bytes]) -> Iterator[Answered]:
    """What a batch's output and error files hold. What expired unanswered is left out, as if it was not
    asked; lines that cannot be read are, too."""
    for line in lines:
        try:
            item = json.loads(line)
            key, response, error = item["custom_id"], item.get("response") or {}, item.get("error")
        except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
            continue
        if not isinstance(key, str):
            continue
        body = response.get("body") if isinstance(response, dict) else None
        if isinstance(body, dict) and _succeeded(response.get("status_code")):
            yield key, completion(body, None)
            continue
        error = error or (body.get("error") if isinstance(body, dict) else body)
        if isinstance(error, dict):
            if error.get("code") == "batch_expired":
                continue
            error = error.get("message") or error.get("code")
        yield key, error if error and isinstance(error, str) else "it was not answered"


def _succeeded(status: object) -> bool:
    return status is None or (isinstance(status, int) and status < 400)
