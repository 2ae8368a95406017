"""What a state holds, as far as who asks may know it: no name of a document that may not be theirs to find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pipelines.errors import WITHHELD
from pipelines.parsing.formats import MARKDOWN
from resources.dagster_instance.home import home_of, last_runs
from resources.parsers.registry import ELEMENTS
from resources.postgres.catalog import schema_name
from resources.postgres.statements import query as statement
from resources.reports.status import failures
from resources.reports.workers import workers
from resources.search.search_options import asked_groups

if TYPE_CHECKING:
    from pipelines.records import Failure, RawDocument
    from resources.search.passages import Searcher
    from resources.state.state import State

GENERATIONS, RUNS = 5, 5
"""The newest that are told."""
_GROUPS_INSIDE = frozenset({MARKDOWN, ELEMENTS})
"""Formats that say in the file who may find it: where that is not read, nobody knows."""


def asked_status(state: State, searcher: Searcher, groups: Sequence[str], operator: bool) -> dict[str, Any]:
    """Sources with the documents that the asker may find, the failed ones with their remedies, generations with their
    golden scores, the last runs. An `operator` is told all names."""
    catalog = state.parts.catalog
    live = catalog.live()
    failed = failures(state, live)
    by_source: list[tuple[str, int, int]] = []
    seen: set[str] = set()
    if live is not None:
        with searcher.reading(live.generation) as (connection, index):
            index.ask_for(asked_groups(groups))
            schema = schema_name(live.generation)
            by_source = connection.execute(
                statement("search_documents", "documents_by_source", schema=schema)
            ).fetchall()
            asked = {"doc_ids": [failure.doc_id for failure in failed]}
            named = statement("search_documents", "seen_documents", schema=schema)
            seen = {doc_id for (doc_id,) in connection.execute(named, asked).fetchall()}
    if not operator:
        seen |= _public(state.listing.documents({failure.doc_id for failure in failed}).values(), failed)
    told = [failure for failure in failed if operator or failure.doc_id in seen]
    untold = Counter((failure.stage, failure.code) for failure in failed if not (operator or failure.doc_id in seen))
    scores = {score["generation"]: score for score in catalog.scores()}
    return {
        "live": live.generation if live else None,
        "sources": [{"name": name, "documents": count, "stale": stale} for name, count, stale in by_source],
        "failures": [
            {"source": item.source, "uri": item.uri, "stage": item.stage, "code": item.code, "message": item.message}
            for item in told
        ],
        "failures_untold": [
            {"stage": stage, "code": code, "documents": count} for (stage, code), count in sorted(untold.items())
        ],
        "generations": [
            {
                "generation": row.generation,
                "live": live is not None and row.generation == live.generation,
                "embedder": row.embedder["name"],
                "created_at": str(row.created_at),
                "published_at": str(row.published_at) if row.published_at else None,
                "scores": scores[row.generation]["metrics"] if row.generation in scores else {},
            }
            for row in reversed(catalog.generations()[-GENERATIONS:])
        ],
        "runs": [asdict(run) for run in last_runs(home_of(state.project.state), RUNS)],
        "workers": workers(state.parts.database) if operator else [],
    }


def _public(listed: Collection[RawDocument], failed: Collection[Failure]) -> set[str]:
    """Of the failed documents those of which it is known that everybody may find them."""
    codes = {failure.doc_id: failure.code for failure in failed}
    return {
        raw.doc_id
        for raw in listed
        if codes[raw.doc_id] not in WITHHELD
        and raw.media_type not in _GROUPS_INSIDE
        and not (raw.groups or raw.source_groups)
    }
