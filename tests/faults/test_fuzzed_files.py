"""Real files damaged at random through the parser path: each ends as text or as a named failure."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.records import Element, Failure, ParsedDocument
from pipelines.settings.base import ParsingSettings
from resources.documents.pool import DocumentPool
from tests.faults.mutations import damaged
from tests.faults.parsing import children, outcomes
from tests.support.documents import raw_of
from tests.support.places import DATA, LIBRARY
from tests.support.waiting import HANG_SECONDS

FOLDERS = (LIBRARY, DATA / "parser-fixtures")
INPUTS = int(os.environ.get("PINCITE_FUZZ_INPUTS", "600"))
"""`make faults` reads more."""
FIRST_SEED = int(os.environ.get("PINCITE_FUZZ_SEED", "1"))
BATCH = 100
LARGEST = 400_000
MEMORY_MB = 512
BASE_MB = 400
"""What a worker holds before it reads anything, and may hold beside its limit."""
CODES = {
    "corrupt",
    "front_matter",
    "no_text",
    "empty",
    "empty_parse",
    "encrypted",
    "limit_exceeded",
    "crashed",
    "unsupported",
}

pytestmark = pytest.mark.case(17)


@pytest.fixture(scope="module")
def originals() -> list[Path]:
    found = [path for folder in FOLDERS if folder.is_dir() for path in sorted(folder.rglob("*"))]
    kinds = {".pdf", ".docx", ".xlsx", ".pptx", ".html", ".md", ".csv", ".txt", ".eml", ".json"}
    return [path for path in found if path.suffix in kinds and 0 < path.stat().st_size < LARGEST]


@pytest.fixture(scope="module")
def pool() -> Iterator[DocumentPool]:
    limits = ParsingSettings(workers=2, memory_mb=MEMORY_MB, timeout_seconds=HANG_SECONDS, ocr="off")
    with DocumentPool(limits) as made:
        yield made


def peak_mb(pid: int) -> int:
    """The most memory that a parser has held so far; 0 for other processes and those that are gone."""
    try:
        if b"resources.workers.template" not in Path(f"/proc/{pid}/cmdline").read_bytes():
            return 0
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) >> 10 for line in status.splitlines() if line.startswith("VmHWM:")), 0)


def checked(seed: int, outcome: tuple[ParsedDocument, list[Element]] | Failure) -> str:
    """What became of an input; raises where it is neither text nor a failure that says enough."""
    if isinstance(outcome, Failure):
        assert outcome.code in CODES, f"seed {seed}: {outcome}"
        assert outcome.message and outcome.uri in outcome.message, f"seed {seed}: {outcome}"
        return outcome.code
    document, elements = outcome
    assert document.body.strip() and elements, f"seed {seed}: success without text"
    assert all(
        element.text == document.body[element.start : element.end]
        for element in elements
        if element.end > element.start
    ), seed
    return "parsed"


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + INPUTS, BATCH))
def test_every_damaged_file_is_text_or_a_named_failure(
    first: int, pool: DocumentPool, originals: list[Path], tmp_path: Path, record_property: Callable[[str, Any], None]
) -> None:
    end = min(first + BATCH, FIRST_SEED + INPUTS)
    record_property("injected", end - first)
    record_property("inputs", (first, end - 1))
    seeds = {}
    for seed in range(first, end):
        original = originals[seed % len(originals)]
        path = tmp_path / f"{seed}-{original.name}"
        path.write_bytes(damaged(original.read_bytes(), seed))
        seeds[path.name] = (seed, path)
    done, largest = {}, 0
    for raw, found in outcomes(pool, *((raw_of(path), path.parent) for _, path in seeds.values())):
        done[raw.uri] = found
        largest = max([largest, *map(peak_mb, children())])
    assert done.keys() == seeds.keys()
    counts = Counter(checked(seeds[name][0], outcome) for name, outcome in done.items())
    print(f"seeds from {first}: {dict(counts)}")
    whole = originals[first % len(originals)]
    (after,) = (found for _, found in outcomes(pool, (raw_of(whole), whole.parent)))
    assert isinstance(after, tuple), f"after seeds from {first} a whole file is no longer read: {after}"
    assert 0 < largest < MEMORY_MB + BASE_MB
