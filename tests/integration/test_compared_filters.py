"""Documents by bounds of their dates and of metadata that is numbers or dates, on every way of searching."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

import numpy as np
import pytest

from pipelines.errors import UsageError
from pipelines.ports import Comparison, Filters
from resources.postgres import search_index as module
from resources.postgres.catalog import GenerationRow
from resources.postgres.database import Database
from resources.postgres.search_index import PostgresSearchIndex
from resources.search.search_options import filters_from
from tests.support.search_data import Document, opened, search_database
from tests.support.sentence_data import load_sentences

pytestmark = pytest.mark.integration

TEXT = "Word one. Word two. Word three."
KEYS = ("price", "due", 'it\'s "a" key; --')
HOSTILE = {
    "NaN", "Infinity", "1e5", "9" * 63, "1; DROP SCHEMA pincite", "2024-99-99", "2024-13", "0x10", "１２", "12 ", "",
    "1,5", "%s", "{}", "10\n", "3 March 2024",
}  # fmt: skip
DOCUMENTS: Mapping[str, dict[str, Any]] = {
    "nine": {"metadata": {"price": "9", "due": "2023-12-31"}, "effective_date": date(2024, 5, 1)},
    "ten": {"metadata": {"price": "10", "due": "2024-05-01"}, "effective_date": date(2024, 5, 31)},
    "half": {"metadata": {"price": "-0.5", "due": "2024-05-01T10:00:00Z"}, "effective_date": date(2024, 6, 1)},
    "year": {"metadata": {"price": "2024", "due": "2024"}, "source": "other"},
    "month": {"metadata": {"price": "+2025.10", "due": "2024-06", "date": "2024-05-07"}},
    "date": {"metadata": {"price": "2025-01-01", "date": "7 May 2024"}},
    "none": {"metadata": {}},
    "secret": {"metadata": {"price": "10", "due": "2024-05-01"}, "source": "vault", "groups": ["hr"]},
    "hidden": {"metadata": {}, "groups": ["hr"]},
    **{
        f"bad {at}": {"metadata": {"price": value, "due": value, "date": value}}
        for at, value in enumerate(sorted(HOSTILE))
    },
}


@pytest.fixture(scope="module")
def database(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with search_database(server_url, tmp_path_factory.mktemp("search"), "compared_filters") as made:
        yield made


@pytest.fixture(scope="module")
def generation(database: Database) -> GenerationRow:
    made = [Document(name, [TEXT], values) for name, values in DOCUMENTS.items()]
    return load_sentences(database, made, np.tile(np.array([[1.0, 0.0, 0.0]], dtype=np.float32), (3 * len(made), 1)))


@pytest.fixture
def index(database: Database, generation: GenerationRow) -> Iterator[PostgresSearchIndex]:
    with opened(database, generation, *KEYS) as found:
        yield found


def found(index: PostgresSearchIndex, filters: Filters) -> set[str]:
    """Return the documents that each way of searching finds, which are the same."""
    vector, names = [1.0, 0.0, 0.0], list(DOCUMENTS)
    ways: dict[str, list[Any]] = {
        "compared": index.compare_all(vector, 100, filters),
        "walked": index.walk_index(vector, 100, filters),
        "lexical": index.lexical(["word"], 100, filters),
        "sentences": index.compared_sentences(vector, 300, filters),
        "walked sentences": index.walked_sentences(vector, 300, filters),
    }
    seen = {way: {names[int(item.chunk_id[1:]) - 1] for item in items} for way, items in ways.items()}
    assert seen == dict.fromkeys(seen, seen["compared"])
    return seen["compared"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["price<10"], {"nine", "half"}),
        (["price<=10"], {"nine", "ten", "half"}),
        (["price>9"], {"ten", "year", "month"}),
        (["price>=9", "price<2024"], {"nine", "ten"}),
        (["price>=10.0"], {"ten", "year", "month"}),
        (["price>2024"], {"month", "date"}),
        (["price>=2024"], {"year", "month", "date"}),
        (["price>=2024-06"], {"date"}),
        (["due>=2024-05-01"], {"ten", "half", "month"}),
        (["due<2024-05-01"], {"nine", "year"}),
        (["due<=2024-05"], {"nine", "year", "ten", "half"}),
        (["due>2024-05"], {"month"}),
        (["due>=5"], {"year"}),
        (["due>2023", "source=other"], {"year"}),
        (["date=2024-05"], {"nine", "ten", "month"}),
        (["date>2024-05"], {"half"}),
        (["from=2024-05-02", "to=2024-05-31"], {"ten", "month"}),
        (["date<2024-05-07"], {"nine"}),
        (["date>=2024", "price>=10"], {"ten", "month"}),
    ],
)
def test_bounds_hold_by_value_and_not_by_spelling(
    index: PostgresSearchIndex, arguments: list[str], expected: set[str]
) -> None:
    assert found(index, filters_from(arguments, ())) == expected


def test_bounds_open_nothing_that_groups_hide(index: PostgresSearchIndex) -> None:
    assert "secret" not in found(index, filters_from(["price>=10"], ("it",)))
    assert "secret" in found(index, filters_from(["price>=10"], ("hr",)))


@pytest.mark.parametrize(
    ("arguments", "groups", "expected"),
    [
        ([], (), {}),
        (["source=s"], (), {}),
        (["price>=10"], (), {"price": (2 + len(HOSTILE), 7 + len(HOSTILE))}),
        (["price>=10"], ("hr",), {"price": (3 + len(HOSTILE), 9 + len(HOSTILE))}),
        (["price>=2024", "price<30000"], (), {"price": (2 + len(HOSTILE), 7 + len(HOSTILE))}),
        (["price>=2024"], (), {"price": (1 + len(HOSTILE), 7 + len(HOSTILE))}),
        (["from=2024"], (), {"date": (3 + len(HOSTILE), 7 + len(HOSTILE))}),
        (["date<2000", "due>2024-01", "source=other"], (), {"date": (1, 1), "due": (0, 1)}),
        (["due>2024-01", "source=nowhere"], (), {"due": (0, 0)}),
        (["due>2024-01", "block_type=formula", "source=other"], (), {"due": (0, 1)}),
    ],
)
def test_documents_without_a_value_are_counted_among_those_that_the_asker_sees(
    index: PostgresSearchIndex, arguments: list[str], groups: tuple[str, ...], expected: dict[str, tuple[int, int]]
) -> None:
    assert index.without_value(filters_from(arguments, groups)) == expected


@pytest.mark.parametrize(
    ("arguments", "groups", "notes"),
    [
        (["source=othr"], (), ["no source 'othr'; did you mean 'other'?"]),
        (["source=other", "block_type=table-row"], (), []),
        (["source=Vault"], ("hr",), ["no source 'Vault'; did you mean 'vault'?"]),
        # The same for a value that only others may see and for one that does not exist.
        (["source=Vault"], (), ["no source 'Vault'; the documents that you may find have 'other', 's'"]),
        (["source=vault"], (), ["no source 'vault'; the documents that you may find have 'other', 's'"]),
        (["block_type=tablerow"], (), ["no block_type 'tablerow'; did you mean 'table-row'?"]),
        (["due=2024-06-"], (), ["no due '2024-06-'; did you mean '2024-06'?"]),
    ],
)
def test_a_value_that_no_visible_document_has_is_named_with_the_nearest(
    index: PostgresSearchIndex, arguments: list[str], groups: tuple[str, ...], notes: list[str]
) -> None:
    assert list(index.unmet(filters_from(arguments, groups))) == notes


def test_nothing_is_said_of_values_unless_all_were_looked_at(
    index: PostgresSearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_LOOKED_AT", 3)
    assert list(index.unmet(filters_from(["source=othr"], ()))) == []
    monkeypatch.undo()
    monkeypatch.setattr(module, "MOST_VALUES", 1)
    assert list(index.unmet(filters_from(["source=othr"], ()))) == []


def test_no_more_documents_are_looked_at_than_the_limit(
    index: PostgresSearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_LOOKED_AT", 3)
    assert index.without_value(filters_from(["price>=10"], ()))["price"][1] == 3


@pytest.mark.case(26)
def test_hostile_keys_of_bounds_are_text(index: PostgresSearchIndex) -> None:
    assert found(index, filters_from([f"{KEYS[2]}>=1"], ())) == set()
    for key in ("groups", "d.groups", "x' OR '1'='1", "\x00", "doc_id", "owner"):
        with pytest.raises(UsageError, match="cannot filter by"):
            found(index, Filters(compared=(Comparison(key, "[1,)", None),)))
