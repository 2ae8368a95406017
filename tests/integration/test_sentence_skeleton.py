"""The skeleton of a real index: what `status` counts of it, and what its checks find in files that are not sound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipelines.records import Sentence, SentenceLink
from pipelines.schemas import from_table, to_table
from pipelines.stages import STAGE_OF_TABLE
from resources.checks.stages import before_publishing, check
from resources.settings_file import locate
from resources.state.state import State
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database, run_command
from tests.support.projects import project_copy as copied

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

NOTICE = "The porter locks every gate of the old town hall at nine in the evening."
GUIDE = f"""# Guide

{NOTICE} See 5 U.S.C. § 552(a)(4)(A) and art. 7.

Name: ________

Signature:

- Keys hang in the hall.
- Ok

| Gate | Key |
|---|---|
| North | red |
| South | blue |

```
lock(gates)
```
"""


@pytest.fixture(scope="module")
def indexed(
    server_url: str, migrated: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    with new_database(server_url, migrated) as url:
        embedder = {"endpoint": endpoint.url, "model": "fake"}
        documents = {"guide.md": GUIDE, "east.txt": f"{NOTICE} East.\n", "west.txt": f"{NOTICE} Then west.\n"}
        floors = {"related_floor": 0.2, "embedded": "bare"}
        folder = tmp_path_factory.mktemp("indexed") / "project"
        project = make_project(folder, documents, database=url, embedder=embedder, sentences=floors)
        project.index()
        yield project


@pytest.fixture
def state(indexed: Project, server_url: str, tmp_path: Path) -> Iterator[State]:
    with copied(indexed, server_url, tmp_path / "project") as copy:
        opened = State(locate(str(copy.config)))
        yield opened
        opened.close()


def test_status_counts_what_is_kept_left_out_and_repeated(indexed: Project) -> None:
    counts = indexed.run("status").json["sentences"]
    assert counts == {
        "kept": 10,
        "filtered": {"form_label": 2, "min_characters": 1},
        "repeats": 2,
        "sources": {"paragraph": 6, "table_row": 2, "code": 1, "list_item": 1},
    }
    rows = indexed.rows("SELECT source, count(*) FROM g0001.sentences GROUP BY source")
    assert dict(rows) == counts["sources"]


def test_status_shows_them(indexed: Project) -> None:
    shown = run_command("status", "--config", indexed.config).out
    assert (
        "sentences: 10 kept (6 paragraph, 2 table_row, 1 code, 1 list_item), 2 of them repeat another's text; "
        "3 left out (2 form_label, 1 min_characters)" in shown
    )


def test_filtered_sentences_are_stored_in_a_table_with_their_rule(state: State) -> None:
    state.ensure_generation()
    texts, rules = (state.table("filtered_sentences").column(name) for name in ("text", "rule"))
    assert set(zip(texts, rules, strict=True)) == {
        ("Name: ________", "form_label"),
        ("Signature:", "form_label"),
        ("Ok", "min_characters"),
    }


# ---------------------------------------------------------------- checks


def tamper(state: State, table: str, record: type, change: Callable[[list[Any]], list[Any]]) -> None:
    """The last bucket of a table with rows committed anew, its rows changed."""
    state.ensure_generation()
    row = [row for row in state.engine.commits(table).rows if row.rows][-1]
    tables, key = state.parts.tables, state.engine.key(STAGE_OF_TABLE[table].name)
    found = change(from_table(record, tables.read(row.file)))
    file = tables.write(
        table, key, row.range, to_table(record, found), tables.documents(row.file), tables.note(row.file)
    )
    put = replace(row, file=file, rows=len(found), run_id="tampered", committed_at=None)
    state.parts.catalog.commit([put], STAGE_OF_TABLE[table].name, key, [row.range])


def replaced(at: int, **values: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda rows: [replace(row, **values) if n == at else row for n, row in enumerate(rows)]


def test_sound_tables_have_no_problem(state: State) -> None:
    assert check(state, "sentence_skeleton") == check(state, "links_in_budget") == []
    assert state.table("sentence_links").rows > 3


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (replaced(0, next_id=None), "sentence_next"),
        (replaced(0, text="Something else."), "sentence_text"),
        (replaced(0, chunk_id="nowhere"), "orphan_sentence"),
        (lambda rows: rows[1:], "sentence_order"),
    ],
)
def test_a_broken_skeleton_is_told_and_not_published(
    state: State, change: Callable[[list[Any]], list[Any]], code: str
) -> None:
    tamper(state, "sentences", Sentence, change)
    assert code in {found for found, _ in check(state, "sentence_skeleton")}
    assert code in {found for found, _ in before_publishing(state)}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (replaced(0, target_id="nobody"), "link_without_sentence"),
        (replaced(0, similarity=0.1), "weak_link"),
        (lambda links: [*links, links[0]], "link_twice"),
        (lambda links: links * 9, "link_budget"),
    ],
)
def test_unsound_links_are_told_and_not_published(
    state: State, change: Callable[[list[Any]], list[Any]], code: str
) -> None:
    tamper(state, "sentence_links", SentenceLink, change)
    assert code in {found for found, _ in check(state, "links_in_budget")}
    assert code in {found for found, _ in before_publishing(state)}
