"""The report of `pincite status`: the contents of a state, for its owner or limited to one asker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pipelines.errors import WITHHELD, SettingsError
from pipelines.fingerprint import text_hash
from pipelines.parsing.formats import MARKDOWN
from pipelines.plural import plural
from resources.engine import rows_of
from resources.parsers.registry import ELEMENTS
from resources.postgres.catalog import MembershipCount, MembershipTable, schema_name
from resources.postgres.statements import query as statement
from resources.sources.sorted_spool import TextSet

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.records import Failure, RawDocument
    from resources.dagster_instance.home import LastRun
    from resources.postgres.catalog import GenerationRow
    from resources.postgres.database import Database
    from resources.search.passages import Searcher
    from resources.state.state import State


# ---------------------------------------------------------------- runs at work, on any machine


def workers(database: Database) -> list[dict[str, Any]]:
    """Return one entry for each run that Dagster launched and whose database session is open, in the order in which
    they began: `run`, its `host` and `process`, `since` when, its `buckets` (empty if it works on no buckets), the
    `lock` that it holds (`exclusive` or `shared`; None while it waits), and its progress: `done` of `total` in its
    `stage`."""
    from resources.dagster_instance.home import SESSION
    from resources.postgres.launched_runs import LaunchedRuns

    return [
        {
            "run": row.run_id,
            "host": row.host,
            "process": row.process,
            "since": row.began.isoformat(timespec="seconds"),
            "buckets": list(row.buckets),
            "lock": None if row.alone is None else "exclusive" if row.alone else "shared",
            "stage": row.stage,
            "done": row.done,
            "total": row.total,
        }
        for row in LaunchedRuns(database).at_work(SESSION)
    ]


# ---------------------------------------------------------------- status for the owner


def sources(state: State) -> list[dict[str, Any]]:
    """Return every known source with its folder or address, the number of documents last listed in it, the number of
    failed ones, and the time of the last complete listing."""
    counts = state.listing.counts()
    failed = Counter(source for source, _ in {(item.source, item.uri) for item in state.engine.failures()})
    listed = {row.name: row.indexed_at for row in state.catalog.sources()}
    told = MembershipTable(state.database).counts()
    return [
        {
            "name": item.name,
            "root": item.path,
            "documents": counts[item.name],
            "failures": failed[item.name],
            "listed": at.isoformat(timespec="seconds") if (at := listed.get(item.name)) else None,
            "groups": list(item.groups),
            "memberships": _memberships(told[item.name], state) if item.name in told else None,
        }
        for item in state.parts.sources.known_sources()
    ]


def _memberships(told: MembershipCount, state: State) -> dict[str, Any]:
    """Return the memberships that a source reported. `current` is false once they are too old to grant access to a
    document."""
    return {
        "count": told.count,
        "read": told.at.isoformat(timespec="seconds"),
        "hours": round(told.hours, 2),
        "current": told.hours <= state.settings.access.memberships_max_age_hours,
    }


def document_warnings(state: State, doc_ids: Collection[str] | None = None) -> dict[str, list[dict[str, Any]]]:
    """Return the parsers' warnings about indexed documents (pages left out, text restored), by document id. `doc_ids`
    limits them to some documents."""
    import pyarrow.compute as pc

    said: dict[str, list[str]] = {}
    for read in _rows_of(state, "parsed_documents", ["doc_id", "warnings"], doc_ids):
        read = read.filter(pc.greater(pc.list_value_length(read["warnings"]), 0))
        said.update(zip(read["doc_id"].to_pylist(), read["warnings"].to_pylist(), strict=True))
    places = state.listing.places(said)
    return {
        doc_id: [{"source": source, "uri": uri, "message": message} for message in said[doc_id]]
        for doc_id, (source, uri) in ((name, places[name]) for name in said if name in places)
    }


def _rows_of(state: State, table: str, columns: Sequence[str], doc_ids: Collection[str] | None) -> Iterator[pa.Table]:
    """Yield columns of a table, part by part. `doc_ids` limits the rows to some documents."""
    if doc_ids is None:
        yield from state.table(table).pieces(columns)
        return
    for part in state.engine.parts([table], doc_ids=doc_ids):
        yield rows_of(part.read(table, columns), doc_ids)


def figure_methods(state: State) -> dict[str, dict[str, int]]:
    """Count figure descriptions by method, in the form of `GenerationTables.methods`. They are read from Parquet, since
    Postgres does not have them."""
    pieces = state.table("figure_descriptions").pieces(["method"])
    counts = Counter(method for read in pieces for method in read["method"].to_pylist())
    return {"figure_descriptions": dict(sorted(counts.items()))} if counts else {}


def figure_warnings(state: State, doc_ids: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Return the figures whose picture could not be shown to a model, with the reason; they have no description.
    `doc_ids` limits them to some documents."""
    import pyarrow.compute as pc

    from pipelines.indexing.enrichment import UNSEEN

    unseen: list[tuple[str, str]] = []
    for read in _rows_of(state, "figure_descriptions", ["doc_id", "method", "note"], doc_ids):
        read = read.filter(pc.equal(read["method"], UNSEEN))
        unseen += zip(read["doc_id"].to_pylist(), read["note"].to_pylist(), strict=True)
    places = state.listing.places({doc_id for doc_id, _ in unseen})
    named = ((places[doc_id], note) for doc_id, note in unseen if doc_id in places)
    return [{"source": source, "uri": uri, "message": note} for (source, uri), note in named]


def sentence_counts(state: State, buckets: Collection[int] | None = None) -> dict[str, Any]:
    """Count the sentences of some buckets (all by default): how many were kept, how many each noise rule left out, how
    many repeat the exact text of another, and how many each source has."""
    buckets = state.run.buckets if buckets is None else buckets
    kept, different, sources, filtered = 0, TextSet(), Counter[str](), Counter[str]()
    for read in state.engine.table("sentences", buckets).pieces(["text", "source"]):
        kept += read.num_rows
        different.update(map(text_hash, read["text"].unique().to_pylist()))
        sources.update(_tally(read["source"]))
    for read in state.engine.table("filtered_sentences", buckets).pieces(["rule"]):
        filtered.update(_tally(read["rule"]))
    return {
        "kept": kept,
        "filtered": _most_first(filtered),
        "repeats": kept - len(different),
        "sources": _most_first(sources),
    }


def _tally(column: pa.ChunkedArray) -> dict[str, int]:
    return {item["values"]: item["counts"] for item in column.value_counts().to_pylist()}


def _most_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def overlap_rows(statistics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a generation's frozen overlap floors, one row per language: the floor, the method that found it, the
    number of pairs it was measured on, and the share of neighbours and of random pairs that reach it. `*` is any other
    language."""
    from pipelines.indexing.overlap import EVERY, Calibration

    frozen = statistics.get("overlap", {})
    names = [item.name for item in fields(Calibration)]
    return [
        {"language": language, **{name: frozen[language].get(name, 0) for name in names}}
        for language in sorted(frozen, key=lambda language: (language == EVERY, language))
    ]


def generations(state: State) -> list[dict[str, Any]]:
    """Return every generation, the oldest first."""
    from resources.generations.publish import COMPARED, recorded_verdict
    from resources.postgres.generation_tables import GenerationTables
    from resources.stages.sentence_links import floor_used

    catalog = state.catalog
    live, held = catalog.live(), catalog.is_held()
    scores: dict[int, dict[str, float]] = {}
    for score in catalog.scores():
        found = {name: score["metrics"][name] for name in COMPARED if score["metrics"].get(name) is not None}
        scores[score["generation"]] = found
    shown = []
    for row in catalog.generations():
        index = GenerationTables(state.database, row)
        serving, counts = live is not None and live.generation == row.generation, index.counts()
        shown.append(
            {
                "generation": row.generation,
                "live": serving,
                "held": serving and held,
                "complete": row.built_at is not None,
                "embedder": row.embedder["name"],
                "dimension": row.dimension,
                "created_at": str(row.created_at),
                "published_at": str(row.published_at) if row.published_at else None,
                "megabytes": round(index.bytes() / 1e6, 1),
                "scores": scores.get(row.generation, {}),
                "notes": recorded_verdict(row, counts).notes,
                "related_floor": floor_used(state, row),
                "languages": row.statistics.get("languages", {}),
                "overlap": overlap_rows(row.statistics),
                **counts,
            }
        )
    return shown


def served_from(state: State, row: GenerationRow | None) -> State:
    """Return the state with the settings that a generation was made from. Return the present state if no generation
    (`row`) is given, or if this version no longer supports its settings, which `verify` reports."""
    try:
        return state.of_generation(row) if row else state
    except SettingsError:
        return state


def failures(state: State, *rows: GenerationRow | None) -> list[Failure]:
    """Return the failures under the present settings and of generations, one per document and stage. A served
    generation may have been made with other settings. After a run without work, failures of its embedding stages are
    stored under keys that only the generation has."""
    found = state.engine.failures()
    for row in filter(None, rows):
        found += served_from(state, row).engine.failures()
    one = {(item.doc_id, item.stage): item for item in found}
    return sorted(one.values(), key=attrgetter("source", "uri", "stage"))


def status(state: State) -> dict[str, Any]:
    """Return the JSON of `status`."""
    from resources.postgres.generation_tables import GenerationTables
    from resources.workers.sandbox import holds

    found = generations(state)
    catalog = state.catalog
    live = catalog.live()
    serving = served_from(state, live)
    return {
        "state": str(state.project.state),
        "live": live.generation if live else None,
        "generations": found,
        "sources": sources(state),
        "counts": next((item for item in found if item["live"]), {}),
        "failures": [asdict(failure) for failure in failures(state, live)],
        "warnings": [
            *(warning for warnings in document_warnings(state).values() for warning in warnings),
            *figure_warnings(serving),
        ],
        "sentences": sentence_counts(serving) if live else {},
        "enrichment": {**GenerationTables(state.database, live).methods(), **figure_methods(serving)} if live else {},
        "costs": [*catalog.costs(), *state.parts.replies.costs()],
        "scores": catalog.scores(),
        "workers": workers(state.database),
        "sandbox": holds(),
    }


# ---------------------------------------------------------------- status for one asker
#
# It names no document that the asker may not be allowed to find.


GENERATIONS, RUNS = 5, 5
"""Most generations, and most runs, in the report; the newest are shown."""
_GROUPS_INSIDE = frozenset({MARKDOWN, ELEMENTS})
"""Formats that name their groups inside the file: the groups of an unread file are unknown."""


def asked_status(state: State, searcher: Searcher, groups: Sequence[str], operator: bool) -> dict[str, Any]:
    """Return the sources with the number of documents that the asker may find, the failed documents with their
    remedies, the generations with their golden scores, and the last runs. An `operator` sees all names."""
    from resources.dagster_instance.home import home_of, last_runs
    from resources.search.search_options import asked_groups

    catalog = state.catalog
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
        "runs": told_runs(last_runs(home_of(state.project.state), RUNS), len({item.doc_id for item in failed})),
        "workers": workers(state.database) if operator else [],
    }


_OUTCOMES = {
    "SUCCESS": "finished",
    "FAILURE": "failed",
    "CANCELED": "stopped",
    "CANCELING": "stopping",
    "STARTED": "at work",
}
"""Dagster's states of a run, in words. All other states mean that a run waits to begin."""


def told_runs(runs: Sequence[LastRun], failed: int) -> list[dict[str, Any]]:
    """Return the last runs, each with its `outcome` in words. A run that Dagster counts as a success may have left out
    documents: the newest one gets the number of current failures."""
    told = [{**asdict(run), "outcome": _OUTCOMES.get(run.status, "waiting")} for run in runs]
    newest = next((run for run in told if run["status"] == "SUCCESS"), None)
    if newest and failed:
        newest["outcome"] = f"finished; {plural(failed, 'document')} failed"
    return told


def _public(listed: Collection[RawDocument], failed: Collection[Failure]) -> set[str]:
    """Return the failed documents that are known to be public."""
    codes = {failure.doc_id: failure.code for failure in failed}
    return {
        raw.doc_id
        for raw in listed
        if codes[raw.doc_id] not in WITHHELD
        and raw.media_type not in _GROUPS_INSIDE
        and not (raw.groups or raw.source_groups)
    }
