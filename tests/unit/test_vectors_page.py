"""docs/reference/vectors.md and the contract in docs/guide/tables.md are what the code says."""

from __future__ import annotations

import ast
import re

import pytest

from pincite.codes import ERRORS
from pipelines.indexing.embeddings import CONTRACT, FOOTER, LEAST_COSINE, MOST_SAMPLE, SAMPLE
from pipelines.records import Chunk, Embedding
from pipelines.schemas import schema_of
from resources.exchange import locations, reader, texts, vector_file
from resources.exchange import vectors as checked
from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "reference" / "vectors.md").read_text(encoding="utf-8")
TABLES = (ROOT / "docs" / "guide" / "tables.md").read_text(encoding="utf-8")


def columns_of(text: str, heading: str) -> list[str]:
    """What the first column of the table after a heading names, in order."""
    rows = text.partition(heading)[2].partition("|---|")[2].partition("\n\n")[0]
    return [
        name
        for row in rows.splitlines()
        if row.startswith("| `")
        for name in re.findall("`([^`]+)`", row.split("|")[1])
    ]


@pytest.mark.parametrize(
    ("heading", "record"), [("\n`chunks`, what is", Chunk), ("\n`chunk_embeddings`, their", Embedding)]
)
def test_the_tables_that_others_build_on_have_these_columns(heading: str, record: type) -> None:
    assert columns_of(TABLES, heading) == schema_of(record).names


def test_every_reason_to_refuse_a_file_is_told() -> None:
    told = re.findall(r"^\| `(vectors_\w+)`", PAGE, re.MULTILINE)
    assert sorted(told) == sorted(vector_file.REMEDY)
    assert {code for code in ERRORS if code.startswith("vectors_")} == set(told)


def test_the_figures_are_those_of_the_code() -> None:
    said = (
        f"contract: {CONTRACT}.", f"`{FOOTER}`", f"at most {texts.PART_ROWS:,} rows",
        f"about {texts.PART_BYTES >> 20} MiB",
        f"at most {reader.MOST_ROWS:,} rows, {reader.MOST_COLUMNS:,} columns and {reader.MOST_DIMENSIONS:,} dimensions",
        f"have {MOST_SAMPLE} rows drawn each, more files {2 * MOST_SAMPLE} together, and each file at least {SAMPLE}.",
        f"at most {locations.MOST_FILES:,} files", f"must be {str(LEAST_COSINE).removeprefix('0')}",
        f"more than {checked.MOST_TWICE:,} keys",
    )  # fmt: skip
    assert [each for each in said if each not in PAGE] == []
    assert list(map(checked.samples_of, (1, 2, 4, 33))) == [MOST_SAMPLE, MOST_SAMPLE, MOST_SAMPLE // 2, SAMPLE]


def test_the_examples_are_python() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        ast.parse(block)
