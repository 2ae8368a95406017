"""Parsers that hang, crash or are interrupted, in real worker processes."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import DocumentError
from pipelines.records import Failure, RawDocument
from pipelines.settings import ParsingSettings
from resources.parser_pool import ParserPool
from resources.parser_worker import parse_document
from resources.parsers import registry
from resources.parsers.pdf_pages import LIMITS
from tests.faults.parsing import LIBRARY, POLICY, ROOT, children, parsed
from tests.pdf_objects import pdf, stream
from tests.unit.parsers.documents import raw_of


@pytest.fixture
def hanging(tmp_path: Path) -> tuple[RawDocument, Path]:
    """A pipe under a document's name: whoever reads it waits for a writer."""
    path = tmp_path / "hang.txt"
    os.mkfifo(path)
    return replace(raw_of(LIBRARY / "notes" / "archive-move.txt"), doc_id="hang", uri="hang.txt", size=1 << 30), path


@pytest.mark.case(16)
def test_a_file_that_changes_before_its_parser_is_done_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read = tmp_path / "note.txt", registry.parse_file
    path.write_text("First version.")
    raw = raw_of(path)

    def meanwhile(*arguments: Any, **options: Any) -> Any:
        made = read(*arguments, **options)
        path.write_text("Second version.")
        return made

    assert parse_document(raw, path, 1)[0].body == "First version."
    monkeypatch.setattr(registry, "parse_file", meanwhile)
    with pytest.raises(DocumentError, match="changed while it was read") as caught:
        parse_document(raw, path, 1)
    assert caught.value.code == "changed"


def test_a_parser_that_hangs_is_killed_and_others_go_on(hanging: tuple[RawDocument, Path]) -> None:
    good = LIBRARY / "notes" / "archive-move.txt"
    before = children()
    with ParserPool(ParsingSettings(workers=1, timeout_seconds=4)) as pool:
        outcomes = {raw.uri: outcome for raw, outcome in pool.parse([hanging, (raw_of(good), good)])}
    found = outcomes["hang.txt"]
    assert isinstance(found, Failure) and found.code == "timeout" and "timeout_seconds" in found.message
    assert isinstance(outcomes[good.name], tuple)
    assert children() == before


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
def test_a_page_that_hangs_is_lost_by_name_and_the_others_are_not(tmp_path: Path) -> None:
    path = three_pages(tmp_path / "bomb.pdf", b"/X Do", nested_forms(9, 10))
    settings = ParsingSettings(workers=1, timeout_seconds=4, page_timeout_seconds=3, ocr="off")
    with ParserPool(settings) as pool:
        outcome = parsed(pool, path)[path.name]
    assert not isinstance(outcome, Failure)
    document, elements = outcome
    assert [(e.page_start, e.text) for e in elements] == [
        (1, "The first page is about cards."),
        (3, "The third page is about keys."),
    ]
    assert document.pages == 3
    assert document.warnings == (f"page 2: left out, as it cannot be read ({LIMITS})",)


def test_a_page_on_which_the_parser_dies_is_lost_by_name(tmp_path: Path) -> None:
    """The process is killed, as by the system for want of memory, while it hangs on page 2."""
    path = three_pages(tmp_path / "bomb.pdf", b"/X Do", nested_forms(9, 10))
    settings = ParsingSettings(workers=1, timeout_seconds=600, page_timeout_seconds=600, ocr="off")
    before = children()
    killed = 0

    def kill_the_busy() -> None:
        """Twice: while the file is read as a whole, and when it is read page by page."""
        nonlocal killed
        while killed < 2:
            for pid in children() - before:
                if processor_seconds(pid) > 3:
                    os.kill(pid, signal.SIGKILL)
                    killed += 1

    with ParserPool(settings) as pool:
        killer = threading.Thread(target=kill_the_busy)
        killer.start()
        outcome = parsed(pool, path)[path.name]
        killer.join()
    assert not isinstance(outcome, Failure) and killed == 2
    assert outcome[0].body.split("\n\n") == ["The first page is about cards.", "The third page is about keys."]
    assert outcome[0].warnings[0].startswith("page 2: left out")


def processor_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_document_that_only_hangs_is_given_up(tmp_path: Path) -> None:
    """No page can be blamed when opening it hangs; the failure is the whole document's."""
    path = tmp_path / "pipe.pdf"
    os.mkfifo(path)
    raw = replace(raw_of(POLICY), uri="pipe.pdf")
    with ParserPool(ParsingSettings(workers=1, timeout_seconds=2)) as pool:
        outcomes = {raw.uri: outcome for raw, outcome in pool.parse([(raw, path)])}
    found = outcomes["pipe.pdf"]
    assert isinstance(found, Failure) and found.code == "timeout"


def test_a_worker_that_dies_costs_one_document(hanging: tuple[RawDocument, Path]) -> None:
    good = LIBRARY / "notes" / "archive-move.txt"
    before = children()

    def kill_the_reader() -> None:
        with open(hanging[1], "wb"):  # returns once the worker reads
            for pid in children() - before:
                os.kill(pid, signal.SIGKILL)

    with ParserPool(ParsingSettings(workers=1, timeout_seconds=60)) as pool:
        killer = threading.Thread(target=kill_the_reader)
        killer.start()
        outcomes = {raw.uri: outcome for raw, outcome in pool.parse([hanging, (raw_of(good), good)])}
        killer.join()
    found = outcomes["hang.txt"]
    assert isinstance(found, Failure) and found.code == "crashed" and "SIGKILL" in found.message
    assert isinstance(outcomes[good.name], tuple)


def test_an_interrupt_is_left_to_the_parent(hanging: tuple[RawDocument, Path]) -> None:
    before = children()
    ignored: list[int] = []

    def interrupt_the_reader() -> None:
        with open(hanging[1], "wb") as stream:
            for pid in children() - before:
                status = Path(f"/proc/{pid}/status").read_text()
                ignored.append(int(status.split("SigIgn:")[1].split()[0], 16))
                os.kill(pid, signal.SIGINT)
            stream.write(b"other content")

    with ParserPool(ParsingSettings(workers=1, timeout_seconds=60)) as pool:
        interrupter = threading.Thread(target=interrupt_the_reader)
        interrupter.start()
        ((_, outcome),) = pool.parse([hanging])
        interrupter.join()
    assert [mask >> (signal.SIGINT - 1) & 1 for mask in ignored] == [1]
    assert isinstance(outcome, Failure) and outcome.code == "changed"


def test_workers_end_with_their_parent(hanging: tuple[RawDocument, Path]) -> None:
    script = (
        "import pickle, sys; from pathlib import Path\n"
        "from pipelines.settings import ParsingSettings; from resources.parser_pool import ParserPool\n"
        "raw, path = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "list(ParserPool(ParsingSettings(workers=1)).parse([(raw, path)]))\n"
    )
    import pickle

    argument = pickle.dumps(hanging).hex()
    parent = subprocess.Popen([sys.executable, "-c", script, argument], cwd=ROOT, env={**os.environ, "PYTHONPATH": "."})
    with open(hanging[1], "wb", buffering=0) as stream:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        closed = select.poll()
        closed.register(stream.fileno(), select.POLLERR)
        assert closed.poll(20_000), "the worker outlived its parent"


def test_workers_are_renewed_and_kept(tmp_path: Path) -> None:
    paths = []
    for at in range(5):
        paths.append(tmp_path / f"{at}.txt")
        paths[-1].write_text(f"Text {at}.")
    before = children()
    with ParserPool(ParsingSettings(workers=1, documents_per_worker=2)) as pool:
        first = parsed(pool, paths[0])
        kept = children() - before
        assert isinstance(first["0.txt"], tuple) and len(kept) == 1
        parsed(pool, *paths[1:])
        assert not kept & children()
        pool.close()
        assert children() == before
        assert isinstance(parsed(pool, paths[0])["0.txt"], tuple)


def test_leaving_early_ends_the_work(hanging: tuple[RawDocument, Path]) -> None:
    good = LIBRARY / "notes" / "archive-move.txt"
    before = children()
    pool = ParserPool(ParsingSettings(workers=2, timeout_seconds=60))
    others = [(replace(raw_of(good), doc_id=str(at), uri=f"{at}.txt"), good) for at in range(3)]
    results = pool.parse([hanging, *others])
    assert isinstance(next(results)[1], tuple)
    results.close()
    pool.close()
    assert children() == before


def test_progress_counts_every_document() -> None:
    paths = sorted((LIBRARY / "notes").glob("*.*"))
    seen: list[tuple[int, int]] = []
    with ParserPool(ParsingSettings(workers=1)) as pool:
        for _ in pool.parse([(raw_of(path), path) for path in paths], lambda done, total: seen.append((done, total))):
            pass
    assert seen == [(at + 1, len(paths)) for at in range(len(paths))]
