"""What must hold after each stage of a run, as problems (code, message). Assets check it, `verify` and the
audit before publishing build on it.

A check looks at what its stage computed in this run, at everything where the stage did not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pipelines.errors import SourceError
from pipelines.fingerprint import shard_name as named
from pipelines.indexing.sentence_links import STEP, floor_for
from pipelines.stages import MAKER, WHOLE
from resources.checks import sentences as skeleton_checks
from resources.checks.audit import audit
from resources.parquet.vectors import matrix
from resources.stages.indexed_documents import IndexBuild
from resources.stages.make import after, mended
from resources.state.built import Problems
from resources.state.stage_work import rows_of

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.state.state import State

LEAST_COVERAGE = 0.98
"""Share of a document's characters, white space apart, that must be in its chunks or headings."""
_UNIT = 0.01


def check(state: State, name: str) -> Problems:
    """The problems that a check of CHECKS finds; kept for the end of the run."""
    return state.run.checked(name, mended(state, lambda: CHECKS[name][1](state), before=after(CHECKS[name][0])))


def unlisted(state: State) -> Mapping[str, str]:
    """Sources that cannot be listed, and why: in this run, or where it has listed none, now."""
    try:
        return state.listing.now().failing
    except SourceError as error:
        return {"": str(error)}


def _shards(state: State, table: str, everywhere: bool = False) -> list[int]:
    report = state.run.reports.get(MAKER[table].name)
    if report is None or everywhere:
        return sorted(state.runner.manifest(table))
    return [shard for shard, counts in report.shards.items() if counts.get("computed")]


def _read(state: State, made: str, table: str, shard: int, names: Sequence[str], everywhere: bool) -> pa.Table:
    """Columns of a shard; where this run computed only some of the documents of `made`, a table of the stage that is
    checked, of these."""
    read, report = state.table(table).read(shard, names), state.run.reports.get(MAKER[made].name)
    if everywhere or report is None or shard not in report.parts:
        return read
    return rows_of(read, report.parts[shard])


def empty_documents(state: State, everywhere: bool = False) -> Problems:
    """Every document that was parsed has at least one chunk."""
    state.ensure_generation()
    problems, held = [], state.runner.held()
    for shard in _shards(state, "chunks", everywhere):
        parsed, chunks = (
            set(_read(state, "chunks", table, shard, ["doc_id"], everywhere)["doc_id"].unique().to_pylist())
            for table in ("parsed_documents", "chunks")
        )
        bare = sorted(parsed - chunks - held.keys())
        problems += [("empty_document", f"{doc_id} has text but no chunk") for doc_id in bare]
    return problems


def text_coverage(state: State, everywhere: bool = False) -> Problems:
    """At least LEAST_COVERAGE of a document's characters are in its chunks or in its headings."""
    state.ensure_generation()
    problems, held = [], state.runner.held()
    for shard in _shards(state, "chunks", everywhere):
        for doc_id, share in coverage(state, shard, everywhere).items():
            if share < LEAST_COVERAGE and doc_id not in held:
                problems.append(("coverage", f"only {share:.3f} of the text of {doc_id} is in its chunks"))
    return problems


def coverage(state: State, shard: int, everywhere: bool = True) -> dict[str, float]:
    """doc_id to the share of its body's characters, white space apart, that its chunks and headings hold."""
    spans: dict[str, list[tuple[int, int]]] = {}
    chunks = _read(state, "chunks", "chunks", shard, ["doc_id", "spans"], everywhere)
    for doc_id, own in zip(chunks["doc_id"].to_pylist(), chunks["spans"].to_pylist(), strict=True):
        spans.setdefault(doc_id, []).extend((span["start"], span["end"]) for span in own)
    columns = ["doc_id", "kind", "start", "end"]
    elements = _read(state, "chunks", "parsed_elements", shard, columns, everywhere)
    for doc_id, kind, start, end in zip(*(elements[name].to_pylist() for name in columns), strict=True):
        if kind == "heading":
            spans.setdefault(doc_id, []).append((start, end))
    parsed = _read(state, "chunks", "parsed_documents", shard, ["doc_id", "body"], everywhere)
    bodies = zip(parsed["doc_id"].to_pylist(), parsed["body"].to_pylist(), strict=True)
    return {doc_id: _covered(body, spans.get(doc_id, [])) for doc_id, body in bodies}


def _covered(body: str, spans: Iterable[tuple[int, int]]) -> float:
    wanted = held = at = 0
    for start, end in sorted(spans):
        held += len("".join(body[max(start, at) : end].split()))
        at = max(at, end)
    wanted = len("".join(body.split()))
    return held / wanted if wanted else 1.0


def unsound_vectors(state: State, table: str, items: str, everywhere: bool = False) -> Problems:
    """A vector for every item, each finite and of unit length."""
    import numpy as np

    state.ensure_generation()
    problems, held = [], state.runner.held()
    for shard in _shards(state, table, everywhere):
        made = state.parts.tables.rows(state.table(table).commit(shard).file)
        wanted = state.table(items).commit(shard).rows
        if held:
            wanted = sum(doc_id not in held for doc_id in _column(state, items, shard, "doc_id"))
        if made != wanted:
            problems.append(("vectors", f"{named(shard)} has {made} vectors of {wanted} {items}"))
        read = _read(state, table, table, shard, ["doc_id", "item_id", "vector"], everywhere)
        lengths = np.linalg.norm(matrix(read["vector"]), axis=1) if read.num_rows else np.ones(0)
        for row in np.flatnonzero(~(np.abs(lengths - 1.0) < _UNIT)):
            problems.append(("vector", f"the vector of {read['item_id'][int(row)]} has length {lengths[row]:.3f}"))
    return problems


def unsound_sentence_vectors(state: State, everywhere: bool = False) -> Problems:
    """The same of the vectors that links are made from and of those that are searched."""
    tables = ("sentence_embeddings", "sentence_search_embeddings")
    return [problem for table in tables for problem in unsound_vectors(state, table, "sentences", everywhere)]


def disagreements(state: State, everywhere: bool = False) -> Problems:
    """Parquet and Postgres hold the same documents, chunks and sentences."""
    report = None if everywhere else state.run.reports.get("indexed_documents")
    return IndexBuild(state).disagreements(report.shards if report else ())


def broken_skeleton(state: State, everywhere: bool = False) -> Problems:
    """NEXT and PREVIOUS, and the place of every sentence in its chunk."""
    state.ensure_generation()
    problems = []
    for shard in _shards(state, "sentences", everywhere):
        sentences = _read(state, "sentences", "sentences", shard, skeleton_checks.SENTENCES, everywhere)
        chunks = _read(state, "sentences", "chunks", shard, skeleton_checks.CHUNKS, everywhere)
        problems += skeleton_checks.skeleton_problems(sentences, chunks)
    return problems


def unsound_links(state: State) -> Problems:
    """RELATED_TO against all sentences, and the budgets. The floor is the one that the links were made with."""
    from resources.checks import links as link_checks

    embedder, tables = state.ensure_generation().embedder["name"], state.parts.tables
    settings, file = state.settings.sentences, state.table("sentence_links").commit(WHOLE).file
    floor = max(float(tables.note(file)), floor_for(settings, embedder) - STEP)
    files = [row.file for row in state.table("sentences").commits().values()]

    def sentences(*columns: str) -> Iterator[pa.Table]:
        return (piece for name in files for piece in tables.pieces(name, columns))

    def links() -> Iterator[pa.Table]:
        return tables.pieces(file, link_checks.LINKS)

    related, count = tables.rows(file), sum(map(tables.rows, files))
    return [
        *link_checks.related_problems(
            links, partial(sentences, *link_checks.ENDS), related, settings.related_most, floor
        ),
        *link_checks.over_budget(related, count, partial(sentences, *link_checks.NEIGHBOURS)),
    ]


def audit_problems(state: State) -> Problems:
    """What the audit of this run found; where none was made, it is made now."""
    if state.run.built is not None:
        # A part of a backfill is no fault; it is not published.
        return [problem for problem in state.run.built.problems if problem[0] != "missing_bucket"]
    return audit(IndexBuild(state).index)


def _column(state: State, table: str, shard: int, name: str) -> list[str]:
    values: list[str] = state.table(table).read(shard, [name])[name].to_pylist()
    return values


def before_publishing(state: State) -> Problems:
    """The checks of all that a generation is made of, also of what other runs than this one made."""
    return [
        *empty_documents(state, everywhere=True),
        *text_coverage(state, everywhere=True),
        *broken_skeleton(state, everywhere=True),
        *unsound_vectors(state, "chunk_embeddings", "chunks", everywhere=True),
        *unsound_sentence_vectors(state, everywhere=True),
        *unsound_links(state),
        *disagreements(state, everywhere=True),
    ]


Check = Callable[["State"], Problems]

CHECKS: Mapping[str, tuple[str, Check]] = {
    "no_empty_documents": ("chunks", empty_documents),
    "text_coverage": ("chunks", text_coverage),
    "sentence_skeleton": ("sentences", broken_skeleton),
    "chunk_vectors": ("chunk_embeddings", lambda state: unsound_vectors(state, "chunk_embeddings", "chunks")),
    "sentence_vectors": ("sentence_embeddings", unsound_sentence_vectors),
    "links_in_budget": ("sentence_links", unsound_links),
    "parquet_and_postgres_agree": ("indexed_documents", disagreements),
    "audited": ("search_index", audit_problems),
}
"""Name of the check to the stage it is of, and the check."""
DESCRIPTIONS: Mapping[str, str] = {
    "no_empty_documents": "Every document that was parsed has at least one chunk.",
    "text_coverage": f"At least {LEAST_COVERAGE:.0%} of every document's characters are in its chunks or headings.",
    "sentence_skeleton": "One NEXT and one PREVIOUS but at a document's ends; every sentence at its place in a chunk.",
    "chunk_vectors": "A vector for every chunk, finite and of unit length.",
    "sentence_vectors": "Two vectors for every sentence, to link and to search, finite and of unit length.",
    "links_in_budget": "RELATED_TO at most 2n and all edges at most 5n for n sentences; each link sound.",
    "parquet_and_postgres_agree": "Parquet and Postgres hold the same documents, chunks and sentences.",
    "audited": "No orphans, vector indexes valid, nearest neighbours and filtered searches as the exact ones.",
}
