"""Files that pincite's own reader gives up, read by unstructured: which, under what limits, and what is said of it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pincite.codes import FAILURES
from pipelines.errors import DocumentError
from pipelines.parsing.formats import FORMATS, HTML, TRIED_AGAIN, UNSTRUCTURED, second_reading
from pipelines.settings.base import ParsingSettings
from resources.documents.protocol import Attempt, parse_task
from resources.documents.requests import FileReader, listed_alone
from resources.documents.requests import reader as open_reader
from resources.documents.tasks import TASK_TYPES, TaskInput
from resources.models.text_models import TextModels
from resources.workers.frames import Message
from resources.workers.pool import WorkerProcess
from tests.support.places import LIBRARY
from tests.support.waiting import HANG_SECONDS

SETTINGS = ParsingSettings(workers=1, memory_mb=1024, timeout_seconds=HANG_SECONDS)
TEXT = "Porters rest on Sundays, and on the feast of the founder."
ONLY_A_HEADER = f"<html><body><header>{TEXT}</header></body></html>"
NO_HEADERS = f"{TEXT}\n\nThe registrar signs.\n"
NOTHING = "<html><body><nav><ul><li>Home</li></ul></nav></body></html>"


@pytest.fixture(scope="module")
def reader() -> Iterator[FileReader]:
    with open_reader(SETTINGS) as made:
        yield made


@pytest.mark.parametrize(
    ("name", "content", "code"), [("a.html", ONLY_A_HEADER, "no text was found"), ("a.eml", NO_HEADERS, "no headers")]
)
def test_a_file_that_our_own_reader_gives_up_is_read_by_the_other_and_says_so(
    name: str, content: str, code: str, tmp_path: Path, reader: FileReader
) -> None:
    file = tmp_path / name
    file.write_text(content)
    found = reader.read(file)
    assert TEXT in found.document.body and found.elements[0].origin == UNSTRUCTURED
    (warning,) = found.document.warnings
    assert warning.startswith("read by unstructured, since pincite's own reader ended with: ") and code in warning


def test_where_the_other_finds_nothing_either_the_first_failure_stands(tmp_path: Path, reader: FileReader) -> None:
    file = tmp_path / "a.html"
    file.write_text(NOTHING)
    with pytest.raises(DocumentError, match="no text was found") as refused:
        reader.read(file)
    assert refused.value.code == "empty_parse"


@pytest.mark.parametrize("ending", sorted({ending for found in FORMATS for ending in found.either}))
def test_noise_is_read_by_nobody(ending: str, tmp_path: Path, reader: FileReader) -> None:
    file = tmp_path / f"noise{ending}"
    file.write_bytes(random.Random(7).randbytes(40_000))
    with pytest.raises(DocumentError) as refused:
        reader.read(file)
    assert refused.value.code == "corrupt"


def test_hidden_text_of_a_page_stays_hidden(tmp_path: Path, reader: FileReader) -> None:
    """Be it all that it has, or some of it; what follows it is read, and its title kept."""
    file, vault = tmp_path / "a.html", "<p style='display: none'>The vault opens at nine.</p>"
    file.write_text(f"<html><body>{vault}<div hidden>{vault}</div></body></html>")
    with pytest.raises(DocumentError, match="no text was found"):
        reader.read(file)
    file.write_text(
        f"<html><head><title>Porters</title></head><body><header><b hidden>vault</b>{TEXT}</header></body></html>"
    )
    found = reader.read(file).document
    assert found.body == TEXT and found.title == "Porters"
    assert [warning for warning in found.warnings if "hidden" in warning] == [
        "hidden in the file, and left out: 1 element; `parsing.hidden: read` takes them"
    ]


def given(file: Path, again: list[Exception]) -> TaskInput:
    """As a worker has it, in this process."""
    raw, root = listed_alone(file)
    options = parse_task(raw, root, SETTINGS).options
    return TaskInput("d", options, {}, TextModels(), lambda number: None, file, raw, 10_000, None, again.append)


def test_a_missing_library_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "unstructured"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "unstructured", None)
    file = tmp_path / "a.html"
    file.write_text(ONLY_A_HEADER)
    with pytest.raises(DocumentError, match="no text was found") as refused:
        TASK_TYPES["parsed_elements"].make(given(file, []))
    assert refused.value.code == "empty_parse"


def test_a_reader_that_meets_what_it_does_not_know_is_no_other_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: Path) -> Any:
        raise KeyError("w:val")

    monkeypatch.setattr("resources.parsers.html.parse", broken)
    file, again = tmp_path / "a.html", list[Exception]()
    file.write_text(ONLY_A_HEADER)
    rows = TASK_TYPES["parsed_elements"].make(given(file, again))
    assert rows["parsed_documents"][0].body == TEXT and [type(each) for each in again] == [KeyError]
    monkeypatch.setattr("resources.parsers.unstructured.parse", broken)
    file.write_text(NOTHING)
    with pytest.raises(KeyError, match="w:val"):
        TASK_TYPES["parsed_elements"].make(given(file, again))


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("code", sorted(set(FAILURES) | {"limit_exceeded", "encrypted", "timeout", "crashed"}))
def test_no_other_failure_is_tried_again(code: str) -> None:
    tried = {ending for found in FORMATS for ending in found.endings if second_reading(found.media_type, ending, code)}
    readable = {ending for found in FORMATS for ending in found.either}
    assert tried == (readable if code in TRIED_AGAIN else set())
    assert sorted(TRIED_AGAIN) == ["corrupt", "empty_parse"]
    assert second_reading(f"{HTML}; reader={UNSTRUCTURED}", ".html", code) is None, "the other one has had its turn"


def write_bomb(file: Path) -> None:
    shutil.copy(LIBRARY / "proposals" / "harbour-records-proposal.docx", file)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as package, package.open("word/big.xml", "w") as part:
        for _ in range(60):
            part.write(b" " * (1 << 20))


@pytest.mark.parametrize("torn", [False, True])
def test_no_bomb_gets_past_its_limit(torn: bool, tmp_path: Path, reader: FileReader) -> None:
    """Neither one that our reader refuses, nor one that is damaged so that it ends otherwise first."""
    file = tmp_path / "bomb.docx"
    write_bomb(file)
    if torn:
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) - 40])
    with pytest.raises(DocumentError) as refused:
        reader.read(file)
    assert refused.value.code == ("corrupt" if torn else "limit_exceeded")


def test_the_second_try_has_the_same_memory_limit(tmp_path: Path) -> None:
    """The other reader does not fit in it with so many paragraphs, which it reads in the memory that is usual."""
    file = tmp_path / "a.eml"
    file.write_text(NO_HEADERS + "\n\nPorters rest on Sundays, says the book." * 80_000)
    with open_reader(ParsingSettings(workers=1, memory_mb=256, timeout_seconds=HANG_SECONDS)) as bounded:
        with pytest.raises(DocumentError, match="no headers") as refused:
            bounded.read(file)
        assert refused.value.code == "corrupt"


@pytest.mark.faults
def test_a_second_try_that_does_not_end_in_time_leaves_the_first_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time is over as soon as it has begun."""
    messages, begun = WorkerProcess.messages, list[int]()

    def heard(process: WorkerProcess[Attempt]) -> Iterator[Message]:
        for message in messages(process):
            yield message
            if process.work and process.work.first is not None:
                begun.append(process.process.pid)
                os.kill(process.process.pid, signal.SIGSTOP)
                process.deadline = 0.0

    monkeypatch.setattr(WorkerProcess, "messages", heard)
    file = tmp_path / "a.eml"
    file.write_text("Porters rest on Sundays. " * 400_000)
    with open_reader(ParsingSettings(workers=1, memory_mb=4096, timeout_seconds=HANG_SECONDS)) as bounded:
        with pytest.raises(DocumentError, match="no headers") as refused:
            bounded.read(file)
        assert refused.value.code == "corrupt" and begun
