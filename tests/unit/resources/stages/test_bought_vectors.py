"""resources/stages/embeddings.py: a text is embedded once, its vector held as long as a part will ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.indexing.embeddings import unit, vector_key
from resources.engine.tables import ParquetTables
from resources.engine.vectors import KnownVectors, VectorRow, vector_table
from resources.stages.embedded_items import FromModel, Item
from resources.stages.embeddings import BoughtVectors, TextCounts


@dataclass
class Work:
    """As much of a Work as is asked for."""

    first: str
    texts: Sequence[str]

    @property
    def part(self) -> Any:
        return self

    def forget(self) -> None:
        """Nothing is held."""


@dataclass
class Model:
    asked: list[str] = field(default_factory=list)

    def passages(self, texts: Sequence[str], progress: Any) -> Any:
        self.asked += texts
        return unit(np.array([[len(text), ord(text[0])] for text in texts], dtype=np.float32))


def items_of(work: Any) -> list[Item]:
    return [
        Item(VectorRow(f"doc {work.part.first}", at, f"item {at}", vector_key(text)), text)
        for at, text in enumerate(work.texts)
    ]


def bought(tables: ParquetTables, model: Model) -> tuple[BoughtVectors, KnownVectors, TextCounts]:
    known, texts = KnownVectors(tables, "vectors", "mine"), TextCounts(lambda done, of: None)
    source = FromModel("vectors", items_of)
    made = BoughtVectors(source, {"vectors": known}, texts, lambda: cast(Any, model), "mine", str)
    return made, known, texts


def held(known: KnownVectors, text: str) -> bool:
    try:
        known.rows([vector_key(text)])
    except KeyError:
        return False
    return True


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(parts=st.lists(st.lists(st.sampled_from("abcdef"), max_size=5), max_size=5))
def test_each_text_is_asked_for_once_and_let_go_after_its_last_part(tmp_path: Path, parts: list[list[str]]) -> None:
    model = Model()
    made, known, texts = bought(ParquetTables(str(tmp_path)), model)
    works = [Work(f"{number}", own) for number, own in enumerate(parts)]
    made.expect(cast(Any, works))
    every = {text for own in parts for text in own}
    assert (texts.wanted, texts.reused) == (len(every), 0)
    for number, work in enumerate(works):
        rows = made.rows_of(cast(Any, work))
        assert [row.text_hash for row in rows.rows] == list(map(vector_key, work.texts))
        later, seen = ({text for own in some for text in own} for some in (parts[number + 1 :], parts[: number + 1]))
        assert {text for text in every if held(known, text)} == later & seen
    assert sorted(model.asked) == sorted(every)


def test_vectors_that_a_file_holds_are_not_asked_for(tmp_path: Path) -> None:
    tables, model = ParquetTables(str(tmp_path)), Model()
    first, known, _ = bought(tables, model)
    first.expect(cast(Any, [Work("0", ["a", "b"])]))
    rows = first.rows_of(cast(Any, Work("0", ["a", "b"])))
    known.keep(vector_table(rows.rows, rows.vectors))
    again, _, texts = bought(tables, model)
    works = [Work("0", ["a", "c"]), Work("1", ["b", "c"])]
    again.expect(cast(Any, works))
    assert (texts.wanted, texts.reused) == (1, 2)
    found = [again.rows_of(cast(Any, work)).vectors for work in works]
    assert model.asked == ["a", "b", "c"]
    assert np.array_equal(found[0][0], rows.vectors[0])
    assert np.array_equal(found[1][0], rows.vectors[1])
    with pytest.raises(KeyError):
        known.rows([vector_key("c")])
