"""Every word of real PDFs stands in what the parser made of them, where it stands on the page; and a word that moved,
doubled or became another is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.records import TextRun
from resources.parsers.registry import parse_file
from tests.support.documents import pdf_of
from tests.support.places import needs_data
from tests.support.words_in_place import Misplaced, Word, misplaced, runs_of, words_on_pages
from tests.unit.resources.parsers.test_pdf_files import LEAFLETS, POLICIES

LINES = [
    (72, 700, "The listen of the harbour is kept"),
    (72, 680, "by the keeper of the lamp"),
    (72, 660, "and by nobody but him"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Word], list[TextRun]]:
    path = pdf_of(tmp_path_factory.mktemp("page") / "a.pdf", [LINES])
    return words_on_pages(path), runs_of(parse_file(path, "application/pdf"))


def changed(runs: list[TextRun], old: str, new: str) -> list[TextRun]:
    made = [replace(run, text=run.text.replace(old, new)) for run in runs]
    assert made != runs
    return made


def told(found: Misplaced) -> tuple[list[str], list[str], int]:
    return [word.text for word in found.lost], [word for word, _ in found.added], len(found.turned)


def test_nothing_is_lost_of_a_page_that_is_read_whole(page: tuple[list[Word], list[TextRun]]) -> None:
    found = misplaced(*page)
    assert (found.words, told(found)) == (18, ([], [], 0))


@pytest.mark.parametrize(
    ("old", "new", "lost", "added", "turned"),
    [
        ("harbour ", "", ["harbour"], [], 0),
        ("listen", "silent", ["listen"], ["silent"], 0),
        ("keeper", "keeper keeper", [], ["keeper"], 0),
        ("keeper of the lamp", "lamp of the keeper", [], [], 1),
    ],
    ids=["gone", "anagram", "doubled", "out-of-order"],
)
def test_a_word_that_is_not_as_on_the_page(
    page: tuple[list[Word], list[TextRun]], old: str, new: str, lost: list[str], added: list[str], turned: int
) -> None:
    words, runs = page
    assert told(misplaced(words, changed(runs, old, new))) == (lost, added, turned)


def test_a_word_that_moved_to_another_line(page: tuple[list[Word], list[TextRun]]) -> None:
    """All letters and all words of the page are there."""
    words, runs = page
    moved = changed(changed(runs, "harbour ", ""), "nobody", "nobody harbour")
    assert told(misplaced(words, moved)) == (["harbour"], ["harbour"], 0)


LONG = "Northwind"
REAL = [
    pytest.param(path, id=path.stem[:12], marks=[pytest.mark.faults] if path.stem.startswith(LONG) else [])
    for path in [*POLICIES, *LEAFLETS[::3]]
]


@needs_data("policies", "unlp-medicine")
@pytest.mark.slow
@pytest.mark.parametrize("path", REAL)
def test_every_word_of_the_real_documents_stands_in_its_place(path: Path) -> None:
    found = misplaced(words_on_pages(path), runs_of(parse_file(path, "application/pdf")))
    assert len(found.lost) + len(found.added) + len(found.turned) <= max(2, found.words // 500)
