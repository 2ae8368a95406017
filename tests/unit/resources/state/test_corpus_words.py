"""The words of a corpus by language, which choose the embedder of a new generation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pytest

from resources.models.embedders.specs import choose_preset
from resources.state.generation import corpus_words


@dataclass
class _Rows:
    rows: list[dict[str, Any]]

    def pieces(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        for row in self.rows:
            yield pa.Table.from_pylist([{name: row[name] for name in columns}])


@dataclass
class _Engine:
    tables: dict[str, _Rows]

    def table(self, name: str) -> _Rows:
        return self.tables[name]


def words_of(*documents: tuple[str, str, int]) -> dict[str, int]:
    """Count the words of documents, each given by its language, its text and how often that is repeated."""
    parsed = [{"doc_id": str(at), "language": language} for at, (language, _, _) in enumerate(documents)]
    packed = [
        {"doc_id": str(at), "text": text, "tokens": len(text.split()) * times}
        for at, (_, text, times) in enumerate(documents)
    ]
    engine = _Engine({"parsed_documents": _Rows(parsed), "packed_chunks": _Rows(packed)})
    return corpus_words(cast("Any", engine))


def test_words_are_counted_by_language_and_by_script_where_none_is_known() -> None:
    assert words_of(("en", "a b c", 1), ("uk", "а б", 1), ("und", "hi", 1), ("und", "Ольга Київ", 1)) == {
        "en": 3,
        "uk": 2,
        "und": 1,
        "other script": 2,
    }


@pytest.mark.parametrize(
    ("documents", "preset"),
    [
        ((("en", "a word", 900), ("af", "n woord", 2)), "english-small"),
        ((("en", "a word", 900), ("uk", "ще слово", 100)), "multilingual-small"),
        ((("en", "a word", 900), *[("und", "hi", 1)] * 200), "english-small"),
        ((("en", "a word", 900), ("und", "Ольга Київ", 100)), "multilingual-small"),
        ((("en", "a word", 900), ("und", "Ольга Київ", 1)), "english-small"),
        ((("uk", "ще слово", 900), *[("en", "a word", 1)] * 200), "multilingual-small"),
        ((("und", "12 34 56", 5),), "english-small"),
    ],
)
def test_long_documents_outweigh_many_short_ones(documents: tuple[tuple[str, str, int], ...], preset: str) -> None:
    assert choose_preset(words_of(*documents)) == preset
