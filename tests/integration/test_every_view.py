"""Every view of every file: what the index takes opens, and what it does not take is refused with a sentence."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from pipelines.parsing.elements import KINDS
from tests.support.direct_runs import quick_runs
from tests.support.embedding_server import embedding_server
from tests.support.ordinary_files import FORMATS
from tests.support.ordinary_files import made as parts_of
from tests.support.places import DATA, LIBRARY, needs_data
from tests.support.projects import make_project, new_database
from tests.support.views import Shown, shown

pytestmark = pytest.mark.integration


def quick_vector(text: str, dimension: int, model: str = "") -> list[float]:
    """A vector that the text alone decides, made in one step however long it is."""
    seed = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    values = np.random.default_rng(int.from_bytes(seed)).standard_normal(dimension)
    return [float(value) for value in values]


def served(server_url: str, folder: Path, **settings: Any) -> Iterator[Shown]:
    """An index of the documents in a folder, as cheap as one may be, and all that is served of it."""
    vectors = mock.patch("tests.support.embedding_server.hashed_vector", quick_vector)
    with quick_runs(), new_database(server_url) as database, vectors, embedding_server() as endpoint:
        project = make_project(
            folder / "project", {}, database=database, embedder={"endpoint": endpoint.url, "model": "fake"},
            chunking={"overlap_tokens": 0}, sentences={"embedded": "bare", "related_most": 0}, serve={"seconds": 600},
            **settings,
        )  # fmt: skip
        ran = project.run("index")
        assert ran.code in (0, 3), ran.out + ran.err
        with shown(project) as made:
            yield made


# ---------------------------------------------------------------- one of each kind


EMPTY = "empty.elements.json"


def empty_map() -> str:
    """Return a map of every kind of element without a word, and of one word, without which it is not taken."""
    cells: list[dict[str, Any]] = [{"row": row, "column": row, "text": ""} for row in range(2)]
    silent = [{"kind": kind, "text": ""} for kind in sorted(KINDS - {"table"})]
    tables = [{"kind": "table", "cells": [*cells, *more]} for more in ([], [{"row": 2, "column": 0, "text": "x"}])]
    return json.dumps({"version": 1, "elements": [*silent, *tables, {"kind": "paragraph", "text": "A word."}]})


@pytest.fixture(scope="module")
def small(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("small")
    docs = folder / "project" / "docs"
    docs.mkdir(parents=True)
    shutil.copy(LIBRARY / "policies" / "travel-policy-2026.pdf", docs / "pages.pdf")
    shutil.copy(LIBRARY / "proposals" / "harbour-records-proposal.docx", docs / "text.docx")
    FORMATS[".pptx"](docs / "slides.pptx", parts_of("report", 1), random.Random(1))
    (docs / EMPTY).write_text(empty_map())
    (docs / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    yield from served(server_url, folder)


# The other formats are text too: test_serve.py opens them, and test_every_format.py those of other readers.
@pytest.mark.parametrize("uri", ["pages.pdf", "text.docx", "slides.pptx", EMPTY, "broken.pdf"])
def test_every_view_of_a_file_of_each_kind_opens(small: Shown, uri: str) -> None:
    small.every_view(uri)


# ---------------------------------------------------------------- the data


CASES = ("field-cases", "parser-fixtures")
"""Sets of which each file is a case of its own. Of the files of another set with one ending, the smallest two do, but
for `make faults`, which opens all."""
MOST = 10_000 if os.environ.get("PINCITE_ALL_VIEWS") else 2


def chosen() -> Iterator[str]:
    taken: Counter[tuple[str, str]] = Counter()
    sizes = {path.relative_to(DATA).as_posix(): path.stat().st_size for path in DATA.rglob("*") if path.is_file()}
    for uri in sorted(sizes, key=lambda uri: (sizes[uri], uri)):
        kind = uri.partition("/")[0], uri.rpartition(".")[2]
        taken[kind] += 1
        if taken[kind] <= MOST or (kind[0] in CASES and not uri.endswith(".expected.md")):
            yield uri


FILES = list(chosen())


@pytest.fixture(scope="module")
def data(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    yield from served(
        server_url, tmp_path_factory.mktemp("data"), sources=[{"name": "docs", "path": str(DATA), "include": FILES}],
        parsing={"workers": 2},
    )  # fmt: skip


@pytest.mark.faults
@needs_data("")
@pytest.mark.parametrize("uri", FILES)
def test_every_view_of_a_file_of_the_data_opens(data: Shown, uri: str) -> None:
    data.every_view(uri)
