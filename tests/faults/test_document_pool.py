"""Workers that hang, crash, lie or are interrupted, in real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import PinciteError
from pipelines.indexing.packed_chunks import packed_chunks
from pipelines.records import Failure, PackedChunk, RawDocument
from pipelines.settings.base import ParsingSettings
from resources.documents.pool import DocumentPool
from resources.documents.protocol import Attempt, InputRows, Task
from resources.parsers.pdf.pages import LIMITS
from resources.workers import pool as worker_pool
from resources.workers import template as worker_template
from resources.workers.frames import Message, Request
from resources.workers.pool import WorkerProcess
from resources.workers.template import Forked, Template
from tests.faults.parsing import POLICY, children, left_since, outcomes, parsed
from tests.support.builders import paragraph, units
from tests.support.documents import raw_of
from tests.support.pdf_objects import pdf, stream
from tests.support.places import LIBRARY, ROOT
from tests.support.waiting import AT_ONCE_SECONDS, HANG_SECONDS, ended

NOTES = LIBRARY / "notes"
GOOD = raw_of(NOTES / "archive-move.txt"), NOTES
BAD = replace(raw_of(NOTES / "archive-move.txt"), doc_id="bad"), NOTES


@pytest.fixture(scope="module")
def pool() -> Iterator[DocumentPool]:
    """One for all tests that leave the process alone that workers are forked from, which takes seconds to start."""
    limits = ParsingSettings(workers=1, timeout_seconds=HANG_SECONDS, page_timeout_seconds=HANG_SECONDS, ocr="off")
    with DocumentPool(limits) as shared:
        yield shared


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


@contextmanager
def when_given(
    monkeypatch: pytest.MonkeyPatch, doc_id: str, act: Callable[[int], object], most: float = HANG_SECONDS
) -> Iterator[None]:
    """Does something to a worker's process as soon as it has this document, which alone may take `most` seconds: what
    never answers is given up at once, and no slow machine gives up another document."""
    give = WorkerProcess.give

    def given(process: WorkerProcess[Attempt], work: Attempt, request: Request, seconds: float) -> None:
        if doc_id in work.batch.doc_ids:
            act(process.process.pid)
            seconds = min(most, seconds)
        give(process, work, request, seconds)

    with monkeypatch.context() as patched:
        patched.setattr(WorkerProcess, "give", given)
        yield


@pytest.mark.defends("1b")
def test_a_worker_that_hangs_is_killed_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()
    settings = ParsingSettings(workers=1, timeout_seconds=HANG_SECONDS)
    with DocumentPool(settings) as pool, when_given(monkeypatch, "bad", stop, AT_ONCE_SECONDS):
        found = {raw.doc_id: outcome for raw, outcome in outcomes(pool, BAD, GOOD)}
    failure = found["bad"]
    assert isinstance(failure, Failure) and failure.code == "timeout" and "timeout_seconds" in failure.message
    assert isinstance(found[GOOD[0].doc_id], tuple)
    assert not left_since(before)


def test_a_worker_that_takes_nothing_in_holds_nobody_up(pool: DocumentPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped before it is sent more than a pipe holds: whoever waited for it to read would wait for ever."""
    _, elements, made = units(paragraph("Some words."))
    (small,) = packed_chunks(made, elements, 320, 512)
    chunks = {"bad": replace(small, text="word " * 400_000), "good": small}
    tasks = [
        Task("static_vectors", doc_id, "s", doc_id, {}, InputRows("packed_chunks", PackedChunk, [chunk]))
        for doc_id, chunk in ((name, replace(chunk, doc_id=name)) for name, chunk in chunks.items())
    ]
    with when_given(monkeypatch, "bad", stop, AT_ONCE_SECONDS):
        found = {task.doc_id: result for task, result in pool.run(tasks, 2)}
    failure = found["bad"]
    assert isinstance(failure, Failure) and failure.code == "timeout" and failure.stage == "static_vectors"
    assert not isinstance(found["good"], Failure)


def three_pages(path: Path, second: bytes, objects: dict[int, bytes]) -> Path:
    """A PDF of three pages, with text on the first and third; `second` is the content of the second,
    which may use the form /X, object 9."""
    words = b"BT /F 12 Tf 72 700 Td (%b) Tj ET"
    contents = [words % b"The first page is about cards.", second, words % b"The third page is about keys."]
    path.write_bytes(pdf(contents, objects=objects, resources=b"/XObject<</X 9 0 R>>"))
    return path


def nested_forms(levels: int, each: int) -> dict[int, bytes]:
    """Forms from object 9 on, each drawing the next one `each` times: together each ** levels."""
    forms = {}
    for number in range(9, 9 + levels):
        inner = b"/XObject<</X %d 0 R>>" % (number + 1)
        head = b"/Type/XObject/Subtype/Form/BBox[0 0 600 800]/Resources<<%b>>"
        last = number == 8 + levels
        forms[number] = stream(b"BT 72 700 Td (x) Tj ET" if last else b"/X Do " * each, head % (b"" if last else inner))
    return forms


@pytest.mark.case(19)
def test_a_page_that_hangs_is_lost_by_name_and_the_others_are_not(
    pool: DocumentPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the reading as a whole and the page that hangs are given up at once."""
    path = three_pages(tmp_path / "bomb.pdf", b"/X Do", nested_forms(9, 10))
    give, until = WorkerProcess.give, DocumentPool._page_deadline

    def given(process: WorkerProcess[Attempt], work: Attempt, request: Request, seconds: float) -> None:
        give(process, work, request, AT_ONCE_SECONDS if work.batch.first.without is None else seconds)

    def page_deadline(pool: DocumentPool, worker: WorkerProcess[Attempt], attempt: Attempt) -> float:
        return time.monotonic() + AT_ONCE_SECONDS if attempt.page == 2 else until(pool, worker, attempt)

    monkeypatch.setattr(WorkerProcess, "give", given)
    monkeypatch.setattr(DocumentPool, "_page_deadline", page_deadline)
    outcome = parsed(pool, path)[path.name]
    assert not isinstance(outcome, Failure)
    document, elements = outcome
    assert [(e.page_start, e.text) for e in elements] == [
        (1, "The first page is about cards."),
        (3, "The third page is about keys."),
    ]
    assert document.pages == 3
    assert document.warnings == (f"page 2: left out, as it cannot be read ({LIMITS})",)


def test_a_page_on_which_the_parser_dies_is_lost_by_name(
    pool: DocumentPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is killed, as by the system for want of memory: when it has the whole file, and on page 2."""
    path = three_pages(tmp_path / "bomb.pdf", b"/X Do", nested_forms(9, 10))
    give, messages, killed = WorkerProcess.give, WorkerProcess.messages, list[int | None]()

    def given(process: WorkerProcess[Attempt], work: Attempt, request: Request, seconds: float) -> None:
        give(process, work, request, seconds)
        if work.batch.first.without is None:
            killed.append(None)
            os.kill(process.process.pid, signal.SIGKILL)

    def heard(process: WorkerProcess[Attempt]) -> Iterator[Message]:
        for message in messages(process):
            yield message
            if process.work and process.work.page == 2 and killed == [None]:
                killed.append(2)
                os.kill(process.process.pid, signal.SIGKILL)

    monkeypatch.setattr(WorkerProcess, "give", given)
    monkeypatch.setattr(WorkerProcess, "messages", heard)
    outcome = parsed(pool, path)[path.name]
    assert not isinstance(outcome, Failure) and killed == [None, 2]
    assert outcome[0].body.split("\n\n") == ["The first page is about cards.", "The third page is about keys."]
    assert outcome[0].warnings[0].startswith("page 2: left out")


def test_a_pdf_that_only_hangs_is_given_up(pool: DocumentPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """No page can be blamed when opening it hangs; the failure is the whole document's."""
    raw = replace(raw_of(POLICY), doc_id="bad")
    with when_given(monkeypatch, "bad", stop, AT_ONCE_SECONDS):
        ((_, found),) = outcomes(pool, (raw, POLICY.parent))
    assert isinstance(found, Failure) and found.code == "timeout"


@pytest.mark.defends("1b")
def test_a_worker_that_dies_costs_one_document(pool: DocumentPool, monkeypatch: pytest.MonkeyPatch) -> None:
    with when_given(monkeypatch, "bad", lambda pid: os.kill(pid, signal.SIGKILL)):
        found = {raw.doc_id: outcome for raw, outcome in outcomes(pool, BAD, GOOD)}
    failure = found["bad"]
    assert isinstance(failure, Failure) and failure.code == "crashed" and "SIGKILL" in failure.message
    assert isinstance(found[GOOD[0].doc_id], tuple)


def test_an_interrupt_is_left_to_the_parent(pool: DocumentPool, monkeypatch: pytest.MonkeyPatch) -> None:
    ignored: list[int] = []

    def interrupt(pid: int) -> None:
        status = Path(f"/proc/{pid}/status").read_text()
        ignored.append(int(status.split("SigIgn:")[1].split()[0], 16))
        os.kill(pid, signal.SIGINT)

    with when_given(monkeypatch, "bad", interrupt):
        ((_, outcome),) = outcomes(pool, BAD)
    assert [mask >> (signal.SIGINT - 1) & 1 for mask in ignored] == [1]
    assert isinstance(outcome, tuple)


def test_workers_end_with_their_parent() -> None:
    """The worker holds the parent's standard error, and is stopped: it is at its end when both are gone."""
    script = (
        "import os, signal, sys; from pipelines.settings.base import ParsingSettings\n"
        "from resources.documents.pool import DocumentPool\n"
        "pool = DocumentPool(ParsingSettings(workers=1)); pool.warm(1)\n"
        "print(pool._workers.processes[0].process.pid, flush=True); input()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert parent.stdout
    worker = int(parent.stdout.readline())
    descriptor = os.pidfd_open(worker)
    parent.kill()
    parent.wait()
    assert ended(descriptor), "the worker outlived its parent"
    os.close(descriptor)
    parent.stdout.close()
    if parent.stdin:
        parent.stdin.close()


def workers(pool: DocumentPool) -> set[int]:
    return {worker.process.pid for worker in pool._workers.processes}


def test_workers_are_renewed_and_kept(tmp_path: Path) -> None:
    paths = []
    for at in range(3):
        paths.append(tmp_path / f"{at}.txt")
        paths[-1].write_text(f"Text {at}.")
    before = children()
    with DocumentPool(ParsingSettings(workers=1, documents_per_worker=2)) as pool:
        first = parsed(pool, paths[0])
        (kept,) = workers(pool)
        assert isinstance(first["0.txt"], tuple) and workers(pool) == {kept}
        parsed(pool, *paths[1:])
        assert not Path(f"/proc/{kept}").exists()
        pool.close()
        assert not left_since(before)
        assert isinstance(parsed(pool, paths[0])["0.txt"], tuple)


def test_a_process_that_all_were_forked_from_and_that_dies_costs_no_document(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []

    def end(pid: int) -> None:
        template = int(Path(f"/proc/{pid}/status").read_text().split("PPid:")[1].split()[0])
        if not killed:
            killed.append(template)
            os.kill(template, signal.SIGKILL)

    before = children()
    with DocumentPool(ParsingSettings(workers=2)) as pool, when_given(monkeypatch, "bad", end):
        others: list[tuple[RawDocument, Path]] = [(replace(GOOD[0], doc_id=str(at)), NOTES) for at in range(4)]
        found = {raw.doc_id: outcome for raw, outcome in outcomes(pool, *others[:2], BAD, *others[2:])}
    assert killed and len(found) == 5 and all(isinstance(outcome, tuple) for outcome in found.values()), found
    assert not left_since(before)


def test_a_process_that_dies_before_a_renewed_worker_has_started_costs_no_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fork, killed = Template.fork, list[int]()

    def forked(template: Template, limits: Mapping[str, Any]) -> Forked:
        made = fork(template, limits)
        if template.served and not killed:
            killed.append(template.process.pid)
            template.process.kill()
        return made

    monkeypatch.setattr(Template, "fork", forked)
    others: list[tuple[RawDocument, Path]] = [(replace(GOOD[0], doc_id=str(at)), NOTES) for at in range(2)]
    with DocumentPool(ParsingSettings(workers=1, documents_per_worker=1)) as pool:
        found = list(outcomes(pool, *others))
    assert killed and len(found) == 2 and all(isinstance(outcome, tuple) for _, outcome in found), found


def test_a_process_that_hangs_while_it_loads_is_ended_before_it_is_asked_for_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever asked it for the state of a worker would wait as long once more."""
    monkeypatch.setattr(worker_pool, "START_SECONDS", 1.0)
    start, answer, ended = Template.__init__, Template.answer, list[bool]()

    def hung(template: Template, function: str, folder: Path) -> None:
        start(template, function, folder)
        os.kill(template.process.pid, signal.SIGSTOP)

    def asked(template: Template, number: int) -> Any:
        state = Path(f"/proc/{template.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        ended.append(state != "T")
        return answer(template, number) if ended[-1] else -signal.SIGKILL

    monkeypatch.setattr(Template, "__init__", hung)
    monkeypatch.setattr(Template, "answer", asked)
    before = children()
    with pytest.raises(PinciteError, match="did not start"), DocumentPool(ParsingSettings(workers=1)) as pool:
        list(outcomes(pool, GOOD))
    assert ended and all(ended)
    assert not left_since(before)


def test_a_process_that_dies_again_and_again_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(pid: int) -> None:
        os.kill(int(Path(f"/proc/{pid}/status").read_text().split("PPid:")[1].split()[0]), signal.SIGKILL)

    pool = DocumentPool(ParsingSettings(workers=1))
    with pool, when_given(monkeypatch, "bad", end), pytest.raises(PinciteError, match="again and again"):
        list(outcomes(pool, BAD))


@contextmanager
def after_each(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], object]) -> Iterator[None]:
    """Does something to a worker's process whenever it has a batch of several documents."""
    give = WorkerProcess.give

    def given(process: WorkerProcess[Attempt], work: Attempt, *arguments: Any) -> None:
        if not work.batch.alone:
            act(process.process.pid)
        give(process, work, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(WorkerProcess, "give", given)
        yield


def test_a_worker_crash_over_a_batch_fails_no_document_that_runs_alone(
    pool: DocumentPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that dies over several documents costs none of them where none does it alone."""
    _, elements, made = units(paragraph("Some words."))
    packed = [
        replace(chunk, doc_id=name) for name in "abcdefghijklmnop" for chunk in packed_chunks(made, elements, 320, 512)
    ]
    tasks = [
        Task("static_vectors", chunk.doc_id, "s", chunk.doc_id, {}, InputRows("packed_chunks", PackedChunk, [chunk]))
        for chunk in packed
    ]
    died: list[int] = []

    def end(pid: int) -> None:
        died.append(pid)
        os.kill(pid, signal.SIGKILL)

    with after_each(monkeypatch, end):
        found = [(task.doc_id, result) for task, result in pool.run(tasks, len(tasks))]
    assert died and sorted(name for name, _ in found) == list("abcdefghijklmnop")
    for name, result in found:
        assert not isinstance(result, Failure) and result.tables["static_vectors"]["doc_id"].to_pylist() == [name]


def test_leaving_early_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()
    pool = DocumentPool(ParsingSettings(workers=2, timeout_seconds=HANG_SECONDS))
    others: list[tuple[RawDocument, Path]] = [(replace(GOOD[0], doc_id=str(at)), NOTES) for at in range(3)]
    with when_given(monkeypatch, "bad", stop):
        results = outcomes(pool, BAD, *others)
        assert isinstance(next(results)[1], tuple)
        results.close()
    pool.close()
    assert not left_since(before)


def test_progress_counts_every_document(pool: DocumentPool) -> None:
    paths = sorted(NOTES.glob("*.*"))
    seen: list[tuple[int, int]] = []
    documents = [(raw_of(path), NOTES) for path in paths]
    found = list(outcomes(pool, *documents, progress=lambda done, total: seen.append((done, total))))
    assert len(found) == len(paths)
    assert seen == [(at + 1, len(paths)) for at in range(len(paths))]


# ---------------------------------------------------------------- a worker that a document has taken over


LIES = {
    "no frame": b"\xff" * 100,
    "code": b"import pickle; pickle.loads",
    "more than there may be": (1 << 60).to_bytes(8, "big") + bytes(4),
    "no JSON": b"",
    "a failure of no known code": b'{"kind":"failed","code":"../x","message":"m","blobs":{}}',
    "a result of no table": b'{"kind":"done","outputs":{},"blobs":{}}',
    "another kind": b'{"kind":"exec","blobs":{}}',
    "a failure that is not a parser's": b'{"kind":"failed","code":"pending","message":"m","blobs":{}}',
    "pages without end": b'{"kind":"page","number":0,"blobs":{}}',
}


@pytest.mark.defends("2b")
@pytest.mark.parametrize("lie", LIES)
def test_a_worker_that_lies_is_not_believed(
    lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Stood in for by a module that answers every task so, and the next document has a new worker."""
    said = LIES[lie]
    if said.startswith(b"{") or not said:
        said = len(said).to_bytes(8, "big") + len(said).to_bytes(4, "big") + said
    module = tmp_path / "lying_worker.py"
    module.write_text(
        "import sys\n"
        "from unittest import mock\n"
        "from resources.workers import template\n"
        "from resources.workers.frames import pack, read_message\n"
        "def serve(limits, out, function):\n"
        "    out.raw.write(pack({'kind': 'ready'}))\n"
        "    while (task := read_message(sys.stdin.buffer)) is not None:\n"
        f"        out.raw.write({said!r})\n"
        f"        out.raw.write({said!r})\n"
        "template.serve, template._make_function = serve, mock.Mock()\n"
        "template.main()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(worker_template, "MODULE", "lying_worker")
    before = children()
    with DocumentPool(ParsingSettings(workers=1, timeout_seconds=HANG_SECONDS)) as pool:
        found = [outcome for _, outcome in outcomes(pool, BAD, GOOD)]
    for failure in found:
        assert isinstance(failure, Failure) and failure.code in ("crashed", "limit_exceeded"), failure
        assert "archive-move.txt" in failure.message
    assert not left_since(before)


@pytest.mark.defends("2b")
def test_a_worker_that_cannot_tell_its_failure_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "speechless_worker.py"
    module.write_text(
        "from resources.documents.tasks import DocumentTasks\n"
        "from resources.workers import template\n"
        "def fail(*_):\n"
        "    raise MemoryError\n"
        "DocumentTasks.__call__ = DocumentTasks.failure = fail\n"
        "template.main()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(worker_template, "MODULE", "speechless_worker")
    with DocumentPool(ParsingSettings(workers=1, timeout_seconds=HANG_SECONDS)) as pool:
        ((_, failure),) = outcomes(pool, GOOD)
    assert isinstance(failure, Failure) and failure.code == "crashed"
