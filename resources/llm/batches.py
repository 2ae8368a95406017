"""Prompts bought through the batch API of an endpoint: one run submits them in files, a later run collects the answers.

A batch is recorded before it is submitted, and carries a fingerprint of its prompts. If a run is killed, the next one
finds its batch at the endpoint and does not buy it twice. Files hold one JSON object a line.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, islice
from typing import IO, Any, TypeVar

from pipelines.fingerprint import fingerprint
from pipelines.ports import NoReply, Prompt, Reply, ReplyCheck
from resources.llm.endpoint import MOST_BYTES, CallFailed, Completion, at_most, completion, request_body, storable
from resources.llm.model import AT_ONCE, BoughtModel, Said
from resources.llm.replies import reply_row
from resources.postgres.statements import query

# ---------------------------------------------------------------- batch files
#
# Requests that go to an endpoint, and answers that come back.


URL = "/v1/chat/completions"
MOST_REQUESTS = 50_000
MOST_FILE_BYTES = 200_000_000
LONGEST_LINE = 1 << 24


class BatchFile:
    """The requests of one batch, in a temporary file."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.bytes = 0
        self.file: IO[bytes] = tempfile.TemporaryFile(prefix="pincite-batch-")  # noqa: SIM115 - the spool closes it

    def fingerprint(self, model: str) -> str:
        return fingerprint("batch", model, sorted(self.keys))


class Spool:
    """The requests of a run, divided into parts that an endpoint accepts as one batch each."""

    def __init__(self, most_requests: int = MOST_REQUESTS, most_bytes: int = MOST_FILE_BYTES) -> None:
        self._most_requests, self._most_bytes = most_requests, most_bytes
        self.parts: list[BatchFile] = []

    def add(self, key: str, body: Mapping[str, Any]) -> None:
        request = {"custom_id": key, "method": "POST", "url": URL, "body": body}
        line = json.dumps(request, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        part = self.parts[-1] if self.parts else None
        if part is None or len(part.keys) == self._most_requests or part.bytes + len(line) > self._most_bytes:
            part = BatchFile()
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
    """Yield the lines of a file, without lines that are longer than any answer."""
    whole = True
    while line := file.readline(LONGEST_LINE):
        begins, whole = whole, line.endswith(b"\n") or len(line) < LONGEST_LINE
        if begins and whole:
            yield line


Answered = tuple[str, Completion | str]
"""A key, and its answer: a completion, or the endpoint's error as text."""


def answers(lines: Iterator[bytes]) -> Iterator[Answered]:
    """Yield the answers in a batch's output and error files. Expired requests are left out, as if they were never sent,
    and so are unreadable lines."""
    for line in lines:
        try:
            item = json.loads(line)
            key, response, error = item["custom_id"], item.get("response") or {}, item.get("error")
        except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
            continue
        if not isinstance(key, str):
            continue
        body = response.get("body") if isinstance(response, dict) else None
        if isinstance(body, dict) and _has_succeeded(response.get("status_code")):
            yield key, completion(body, None)
            continue
        error = error or (body.get("error") if isinstance(body, dict) else body)
        if isinstance(error, dict):
            if error.get("code") == "batch_expired":
                continue
            error = error.get("message") or error.get("code")
        yield key, error if error and isinstance(error, str) else "it was not answered"


def _has_succeeded(status: object) -> bool:
    return status is None or (isinstance(status, int) and status < 400)


# ---------------------------------------------------------------- batches


T = TypeVar("T")

MARK = "pincite"
"""Key in a batch's metadata for its fingerprint."""
_UNDER_WAY = frozenset({"validating", "in_progress", "finalizing", "cancelling"})
_OF_NO_USE = frozenset({"failed", "cancelling", "cancelled"})
_KEPT_SECONDS = 30 * 86400
_ANSWER_BYTES = 1 << 18
"""Most bytes of a file of answers for each request: replies are limited in tokens, and none is this long."""
_REQUEST_SECONDS = 0.1
"""Seconds for transferring a batch's file for each request, in addition to llm.timeout_seconds."""
_MOST_BATCHES = 5_000
"""Most batches of an endpoint that are searched, so that an endless listing is stopped."""
_NO_API = frozenset({404, 405, 501})


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """A batch that is not collected yet. It has no id if a run ended while submitting it."""

    number: int
    fingerprint: str
    batch_id: str | None
    keys: Sequence[str]
    submitted_at: datetime


@dataclass
class Outcomes:
    """The results of a run, by key: the reasons for missing replies, and the replies collected now."""

    without: dict[str, NoReply] = field(default_factory=dict)
    collected: set[str] = field(default_factory=set)

    def refuse(self, keys: Iterable[str], code: str, message: str) -> None:
        self.without.update((key, NoReply(code, message, key)) for key in keys)


class BatchModel(BoughtModel):
    """A model that buys replies in batches; it implements ports.LanguageModel. It takes as many prompts as a batch may
    have before it gives the first reply. Prompts without a stored reply are submitted, and are `pending` until a later
    run. Earlier batches are checked once in each run."""

    _found: Outcomes | None = None

    def replies(self, prompts: Iterable[Prompt], unusable: ReplyCheck) -> Generator[Said, None, None]:
        self.hope()
        with self.store.hold_connection():
            found = self._found if self.account.run_id else None
            if found is None:
                found = Outcomes()
                self._collect(found)
                self._found = found
            coming = iter(prompts)
            while keys := self._asked_for(islice(coming, MOST_REQUESTS), unusable, found):
                for start in range(0, len(keys), AT_ONCE):
                    chunk = keys[start : start + AT_ONCE]
                    known = self.known_replies(chunk)
                    for key in chunk:
                        said = found.without.get(key) or known[key].reply
                        assert said is not None, key
                        yield said

    def _asked_for(self, prompts: Iterator[Prompt], unusable: ReplyCheck, found: Outcomes) -> list[str]:
        """Return the keys of these prompts, and submit the prompts whose replies must be bought."""
        with Spool() as spool:
            keys = self._spool_requests(prompts, unusable, spool, found)
            for part in spool.parts:
                self._submit(part, found)
        asked = [found.without.get(key) for key in set(keys)]
        self.count(pending=sum(said is not None and said.code == "pending" for said in asked))
        return keys

    def _spool_requests(
        self, prompts: Iterator[Prompt], unusable: ReplyCheck, spool: Spool, found: Outcomes
    ) -> list[str]:
        """Return the keys of all prompts, and write requests for the replies to buy to the spool."""
        keys: list[str] = []
        seen: set[str] = set()
        while chunk := list(islice(prompts, AT_ONCE)):
            named = self.keys_of(chunk, unusable)
            keys += named
            fresh = {key: prompt for key, prompt in zip(named, chunk, strict=True) if key not in seen}
            seen |= fresh.keys()
            known = self.known_replies(fresh.keys())
            for key, prompt in fresh.items():
                said = self.settled_reply(key, known.get(key), unusable)
                if isinstance(said, int):
                    self._ask_for(key, prompt, said, spool, found)
                    continue
                if isinstance(said, Reply):
                    found.without.pop(key, None)
                else:
                    found.without.setdefault(key, said)  # a prompt that is asked again waits for its batch
                self.count(cached=key not in found.collected)
        return keys

    def _ask_for(self, key: str, prompt: Prompt, asked: int, spool: Spool, found: Outcomes) -> None:
        if key in found.without:
            return
        try:
            self.reserve(prompt)
        except CallFailed as failed:
            found.refuse([key], failed.code, failed.message)
            return
        spool.add(key, request_body(self.role, prompt, self.temperature(asked)))

    # ------------------------------------------------------------ submitting

    def _submit(self, part: BatchFile, found: Outcomes) -> None:
        mark = part.fingerprint(self.name)
        values = {"fingerprint": mark, "keys": part.keys, "stage": self.account.stage, "model": self.name,
                  "generation": self.account.generation, "run_id": self.account.run_id}  # fmt: skip
        number = self._one("record_batch", base_url=self.role.base_url, **values)
        try:
            batch_id = self._create_batch(part, mark)
        except CallFailed as failed:
            message, none = failed.message, failed.status in _NO_API
            if none:
                message = f"{self.endpoint.where} has no batch API ({message}); set llm.batch to false in pincite.yaml"
            if failed.code == "rejected":
                self._execute("forget_batch", number=number)
            found.refuse(part.keys, failed.code, message)
            return
        self._execute("batch_submitted", number=number, batch_id=batch_id)
        found.refuse(part.keys, "pending", f"in batch {batch_id} since {_time_text(datetime.now(UTC))}")

    def _create_batch(self, part: BatchFile, mark: str) -> str:
        """Return the id of the batch of these requests: an existing one at the endpoint, or else a new one."""
        uploaded: list[str] = []
        known = self._known_batches()

        def upload(client: Any) -> str:
            part.file.seek(0)
            with at_most(MOST_BYTES, len(part.keys) * _REQUEST_SECONDS):
                file = client.files.create(file=("prompts.jsonl", part.file), purpose="batch")
            return str(file.id)

        def create(client: Any) -> str:
            # Searched for at each try: a call that seemed to fail may have created it.
            if made := _find_batch(client, mark, known):
                return made
            if not uploaded:
                uploaded.append(upload(client))
            batch = client.batches.create(
                input_file_id=uploaded[0], endpoint=URL, completion_window="24h", metadata={MARK: mark},
            )  # fmt: skip
            return str(batch.id)

        return self._call(create)

    def _known_batches(self) -> set[str]:
        """Return the batches of the endpoint that runs have recorded, including collected ones."""
        return {row[0] for row in self._rows("known_batches", base_url=self.role.base_url)}

    # ------------------------------------------------------------ collecting

    def _collect(self, found: Outcomes) -> None:
        values = {"base_url": self.role.base_url, "model": self.name, "stage": self.account.stage}
        for row in self._rows("open_batches", **values):
            batch = OpenBatch(*row)
            try:
                self._look_at(batch, found)
            except CallFailed as failed:
                where = f"in batch {batch.batch_id or '(being submitted)'} since {_time_text(batch.submitted_at)}"
                found.refuse(batch.keys, "pending", f"{where}, which could not be looked at: {failed.message}")

    def _look_at(self, batch: OpenBatch, found: Outcomes) -> None:
        """Collect a batch if it has ended. Raise CallFailed if the endpoint does not answer."""
        batch_id = batch.batch_id or self._recover_batch(batch)
        if batch_id is None:
            self._execute("forget_batch", number=batch.number)
            return
        if batch.batch_id is None:
            self._execute("batch_submitted", number=batch.number, batch_id=batch_id)
        try:
            state = self._call(lambda client: client.batches.retrieve(batch_id))
        except CallFailed as failed:
            if failed.status != 404:
                raise
            self._execute("batch_collected", number=batch.number, state="gone")
            return
        if state.status in _UNDER_WAY:
            found.refuse(batch.keys, "pending", f"in batch {batch_id} since {_time_text(batch.submitted_at)}")
            return
        with ExitStack() as opened:
            ids = [file_id for file_id in (state.output_file_id, state.error_file_id) if file_id]
            most = MOST_BYTES + len(batch.keys) * _ANSWER_BYTES
            files = [opened.enter_context(self._download(file_id, most, len(batch.keys))) for file_id in ids]
            answered = self._keep(batch, state, chain.from_iterable(map(lines_of, files)))
        found.collected |= answered
        if state.status == "failed":
            errors = getattr(state.errors, "data", None) or []
            said = "; ".join(str(error.message or error.code) for error in errors) or "no reason was given"
            left = [key for key in batch.keys if key not in answered]
            message = f"batch {batch_id} failed: {self.endpoint.safe(said)}; the next run submits its prompts again"
            found.refuse(left, "rejected", message)

    def _recover_batch(self, batch: OpenBatch) -> str | None:
        """Return the id of a batch whose run ended while submitting it, or None if the endpoint does not have it."""
        known = self._known_batches()
        try:
            return self._call(lambda client: _find_batch(client, batch.fingerprint, known))
        except CallFailed as failed:
            if failed.status not in _NO_API:
                raise
        return None

    def _download(self, file_id: str, most: int, requests: int) -> IO[bytes]:
        """Download a file of answers to `requests` requests, at most `most` bytes, into a temporary file. It is empty
        if the endpoint no longer has the file."""
        file = tempfile.TemporaryFile(prefix="pincite-batch-")  # noqa: SIM115 - the caller closes it

        def read(client: Any) -> None:
            file.seek(0)
            file.truncate()
            with (
                at_most(most, requests * _REQUEST_SECONDS),
                client.files.with_streaming_response.content(file_id) as response,
            ):
                for part in response.iter_bytes():
                    file.write(part)

        try:
            self._call(read)
        except CallFailed as failed:
            if failed.status != 404:
                file.close()
                raise
        file.seek(0)
        return file

    def _keep(self, batch: OpenBatch, state: Any, lines: Iterator[bytes]) -> set[str]:
        """Store all answers of a batch, and mark it as collected, in one transaction; return the keys with a reply. A
        request without an answer counts as an attempt in a completed batch, but not in an expired or cancelled one."""
        answered: set[str] = set()
        missing = set(batch.keys)
        bought: list[Completion] = []
        most = {"most": self.settings.attempts}
        with self.store.transaction() as connection, connection.pipeline(), connection.cursor() as cursor:
            for key, said in answers(lines):
                if key not in missing:
                    continue
                missing.remove(key)
                if isinstance(said, str):
                    message = f"in batch {state.id}: {self.endpoint.safe(said)}"
                    cursor.execute(query("llm", "count_failure"), self._failure(key, message) | most)
                    continue
                answered.add(key)
                bought.append(said)
                cursor.execute(query("llm", "keep_reply"), reply_row(key, said, self.price(said), self.account))
            if state.status == "completed":
                message = f"batch {state.id} ended without an answer to it"
                cursor.executemany(
                    query("llm", "count_failure"), [self._failure(key, message) | most for key in sorted(missing)]
                )
            cursor.execute(query("llm", "batch_collected"), {"number": batch.number, "state": state.status})
        self.count_completions(bought)
        return answered

    def _failure(self, key: str, message: str) -> dict[str, Any]:
        account = self.account
        return {"key": key, "message": storable(message), "stage": account.stage, "model": account.model,
                "run_id": account.run_id, "generation": account.generation}  # fmt: skip

    # ------------------------------------------------------------ calls

    def _call(self, ask: Callable[[Any], T]) -> T:
        """Call the endpoint's client, with a retry if it gets no answer. Raise CallFailed."""

        def once() -> T:
            try:
                return self.endpoint.call(ask)
            except CallFailed as failed:
                if failed.status in _NO_API:
                    failed.hopeless = False  # a batch or file is gone, or the whole batch API: other calls may succeed
                raise

        return self.retrying.call(once, threading.Event())

    def _rows(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        with self.store.transaction() as connection:
            return connection.execute(query("llm", name), values).fetchall()

    def _one(self, name: str, **values: Any) -> Any:
        return self._rows(name, **values)[0][0]

    def _execute(self, name: str, **values: Any) -> None:
        with self.store.transaction() as connection:
            connection.execute(query("llm", name), values)


def _find_batch(client: Any, mark: str, known: Collection[str]) -> str | None:
    """Return the id of an unknown batch at the endpoint with this fingerprint, or None."""
    for batch in islice(client.batches.list(limit=100), _MOST_BATCHES):
        if batch.created_at and batch.created_at < time.time() - _KEPT_SECONDS:
            return None
        if (batch.metadata or {}).get(MARK) == mark and batch.id not in known and batch.status not in _OF_NO_USE:
            return str(batch.id)
    return None


def _time_text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
