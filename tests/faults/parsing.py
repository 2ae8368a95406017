"""Documents through a pool of real worker processes."""

from __future__ import annotations

import os
from pathlib import Path

from pipelines.records import Element, Failure, ParsedDocument
from resources.parser_pool import ParserPool
from tests.unit.parsers.documents import raw_of

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "tests" / "data" / "library"
POLICY = LIBRARY / "policies" / "travel-policy-2026.pdf"
Outcome = tuple[ParsedDocument, list[Element]] | Failure


def parsed(pool: ParserPool, *paths: Path) -> dict[str, Outcome]:
    return {raw.uri: outcome for raw, outcome in pool.parse([(raw_of(path), path) for path in paths])}


def children() -> set[int]:
    """Processes that this one has started."""
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}
