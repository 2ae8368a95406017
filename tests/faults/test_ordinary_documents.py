"""Every kind of ordinary document in every format is read, and says what was written."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ordinary import KINDS, made
from tests.support.ordinary_files import FORMATS
from tests.support.projects import kept_workers, run_command

SEED = 3


@pytest.fixture(autouse=True, scope="module")
def workers() -> Iterator[None]:
    with kept_workers():
        yield


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", FORMATS)
def test_an_ordinary_document_is_read(kind: str, suffix: str, tmp_path: Path) -> None:
    parts = made(kind, SEED)
    path = tmp_path / f"{kind}{suffix}"
    FORMATS[suffix](path, parts, random.Random(SEED))
    ran = run_command("parse", path, "--json")
    assert ran.code == 0, ran.out + ran.err
    said = [value for part in ran.json["elements"] for value in _texts(part)]
    wanted = {word for part in parts[:2] for word in re.findall(r"[A-Za-z]{4,12}", part.text[:300])}
    missing = {word for word in wanted if not any(word in text for text in said)}
    assert len(missing) <= len(wanted) // 10, missing


def _texts(element: dict[str, object]) -> list[str]:
    """Of an element: its own text, that of its runs and of its cells."""
    found = [str(element.get("text") or "")]
    for name in ("runs", "cells"):
        inner = element.get(name) or []
        assert isinstance(inner, list)
        found += [text for part in inner for text in _texts(part)]
    return ["".join(found)]


def test_a_seed_makes_the_same_document_again() -> None:
    assert all(made(kind, 5) == made(kind, 5) != made(kind, 6) for kind in KINDS)
