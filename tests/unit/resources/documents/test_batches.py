"""Which tasks are given to a worker together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from pipelines.records import Element
from pipelines.schemas import to_table
from pipelines.settings.base import ParsingSettings
from resources.documents.pool import MOST_DOCUMENTS, MOST_GIVEN, Batches
from resources.documents.protocol import Batch, Task, parse_task
from tests.support.documents import raw_of
from tests.support.places import LIBRARY

NOTE = raw_of(LIBRARY / "notes" / "archive-move.txt")


def task(name: str, size: int = 10, kind: str = "sentences", **options: int) -> Task:
    return Task(kind, name, "s", name, options, size=size)


def given(tasks: list[Task], most: int = 100) -> list[str]:
    """The documents of each batch, in order."""
    batches = Batches(each for each in tasks)

    def taken() -> Iterator[Batch]:
        while (batch := batches.next(most)) is not None:
            yield batch

    return ["".join(batch.doc_ids) for batch in taken()]


def test_small_documents_go_together_up_to_a_number_and_a_size() -> None:
    assert given([task(name) for name in "abcde"]) == ["abcde"]
    assert given([task(name) for name in "abcde"], most=2) == ["ab", "cd", "e"]
    assert [len(each) for each in given([task("a")] * (MOST_DOCUMENTS + 1))] == [MOST_DOCUMENTS, 1]
    large = [task("a"), task("b", MOST_GIVEN - 5), task("c", MOST_GIVEN), task("d"), task("e")]
    assert given(large) == ["a", "b", "c", "de"]


def test_documents_of_other_kinds_or_options_do_not_go_together() -> None:
    assert given([task("a"), task("b", kind="chunk_contexts"), task("c", kind="chunk_contexts")]) == ["a", "bc"]
    assert given([task("a", most=1), task("b", most=2)]) == ["a", "b"]


def test_a_task_that_may_take_long_per_page_goes_alone() -> None:
    def parsing(name: str, media_type: str) -> Task:
        return parse_task(replace(NOTE, doc_id=name, media_type=media_type), Path(), ParsingSettings())

    kinds = {"a": "text/plain", "b": "text/markdown", "c": "application/pdf", "d": "text/html", "e": "text/html"}
    assert given([parsing(*each) for each in kinds.items()]) == ["ab", "c", "de"]
    assert given([task("a", kind="figure_pictures"), task("b", kind="figure_pictures")]) == ["a", "b"]


def test_rows_of_files_of_other_versions_do_not_go_together() -> None:
    """An older file's places have no stops; each is read with what it has."""
    newer = to_table(Element, [])
    older = newer.drop_columns(["places"])
    forms = {"a": newer, "b": newer, "c": older, "d": newer}
    tasks = [replace(task(name), inputs=partial(dict, parsed_elements=rows)) for name, rows in forms.items()]
    assert given(tasks) == ["ab", "c", "d"]


def test_a_repeated_task_comes_first_and_alone() -> None:
    batches = Batches([task(name) for name in "abcd"])
    first = batches.next(2)
    assert first and first.doc_ids == ["a", "b"]
    batches.again(first.after_failure(None))
    assert [batch.doc_ids for _ in range(3) if (batch := batches.next(9))] == [["a"], ["b"], ["c", "d"]]
    assert batches.next(9) is None


def test_the_end_of_the_tasks_is_known_when_the_last_is_given_out() -> None:
    """And what gives the tasks has come to its end by then, so that it knows how many they were."""
    ended = []

    def tasks() -> Iterator[Task]:
        yield from map(task, "abc")
        ended.append(True)

    batches = Batches(tasks())
    first = batches.next(2)
    assert first and batches.more and not ended
    assert batches.next(2) and ended
    assert not batches.more
    batches.again(first.tasks)
    assert batches.more and [batches.next(2), batches.next(2)] and not batches.more
    assert not Batches([]).more
