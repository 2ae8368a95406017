"""The checks of each stage's results, as problems (code, message): for assets, `verify` and publishing.

A check examines the results that its stage computed in this run, or all of them if the stage did not run. NEXT,
PREVIOUS and PART_OF are columns of a sentence, so there are at most three for each; RELATED_TO has its own table. Its
links are read in parts, each with the links from some sentences: for n links, memory grows with the square root of n,
and time with n times that root. An id is stored as a salted hash of 64 bits.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import isqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipelines.errors import IndexStateError, SourceError
from pipelines.indexing.changed_links import places_in
from pipelines.indexing.sentence_links import STEP, floor_for
from pipelines.plural import plural
from pipelines.stages import STAGE_OF_TABLE
from resources.checks.audit import RELATED_BUDGET, audit
from resources.checks.findings import REPORT
from resources.engine import rows_of
from resources.engine.vectors import id_hashes, matrix
from resources.stages.indexed_documents import IndexBuild
from resources.stages.make import stage_after, with_repair
from resources.state.run import Problems

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]
    from resources.engine import Part
    from resources.state.state import State


# ---------------------------------------------------------------- sentence skeleton


SENTENCE_COLUMNS = (
    "doc_id", "index", "sentence_id", "text", "chunk_id", "start", "length", "paragraph_start", "paragraph_length",
    "previous_id", "next_id",
)  # fmt: skip
CHUNK_COLUMNS = ("doc_id", "index", "chunk_id", "text")


def skeleton_problems(sentences: pa.Table, chunks: pa.Table) -> Problems:
    """Return the problems of sentences (columns SENTENCE_COLUMNS) and chunks (CHUNK_COLUMNS) of the same documents.

    Each sentence must have exactly one NEXT and one PREVIOUS, in reading order, except at a document's ends. It must be
    in a chunk of its document, and its text must be at its place there.
    """
    return [*_chain_problems(sentences), *_place_problems(sentences, chunks)]


def _chain_problems(sentences: pa.Table) -> Iterator[tuple[str, str]]:
    import numpy as np

    documents, ids, index = (_values(sentences, name) for name in ("doc_id", "sentence_id", "index"))
    if not len(ids):
        return
    together = documents[1:] == documents[:-1]
    begins = np.flatnonzero(np.concatenate([[True], ~together]))
    numbers = np.arange(len(ids)) - np.repeat(begins, np.diff(begins, append=len(ids)))
    yield from _sentence_problem("sentence_order", "are not numbered in reading order", sentences, index != numbers)
    first = np.zeros(len(ids), dtype=bool)
    first[np.unique(ids.astype(str), return_index=True)[1]] = True
    yield from _sentence_problem("repeated_sentence", "have the id of another", sentences, ~first)
    after, before = (np.full(len(ids), None, dtype=object) for _ in range(2))
    after[:-1][together], before[1:][together] = ids[1:][together], ids[:-1][together]
    wrong = _values(sentences, "next_id") != after
    yield from _sentence_problem(
        "sentence_next", "do not have the one after them, and no other, as NEXT", sentences, wrong
    )
    wrong = _values(sentences, "previous_id") != before
    yield from _sentence_problem(
        "sentence_next", "do not have the one before them, and no other, as PREVIOUS", sentences, wrong
    )


def _place_problems(sentences: pa.Table, chunks: pa.Table) -> Iterator[tuple[str, str]]:
    import numpy as np

    held = {row[2]: row for row in zip(*(chunks[name].to_pylist() for name in CHUNK_COLUMNS), strict=True)}
    orphans, others, outside, unordered = (np.zeros(sentences.num_rows, dtype=bool) for _ in range(4))
    last: tuple[str, int, int] = ("", 0, 0)
    columns = [sentences[name].to_pylist() for name in SENTENCE_COLUMNS]
    for row, (doc_id, _, _, text, chunk_id, start, length, first, size, _, _) in enumerate(zip(*columns, strict=True)):
        owner, number, _, whole = held.get(chunk_id, (None, 0, "", ""))
        orphans[row] = owner != doc_id
        others[row] = not orphans[row] and whole[start : start + length] != text
        outside[row] = not first <= start <= start + length <= first + size <= max(len(whole), first)
        unordered[row] = last[0] == doc_id and (number, start) < last[1:]
        last = doc_id, number, start + length
    yield from _sentence_problem("orphan_sentence", "lie in no chunk of their document", sentences, orphans)
    yield from _sentence_problem(
        "sentence_text", "differ from the text at their place in their chunk", sentences, others
    )
    yield from _sentence_problem("sentence_paragraph", "lie outside their paragraph", sentences, outside & ~orphans)
    yield from _sentence_problem(
        "sentence_order", "begin before the one before them ends", sentences, unordered & ~orphans
    )


def _values(table: pa.Table, name: str) -> NDArray[Any]:
    values: NDArray[Any] = table[name].to_numpy()
    return values


def _sentence_problem(code: str, what: str, sentences: pa.Table, wrong: NDArray[np.bool_]) -> Problems:
    """Return one problem with the number of wrong sentences and the first of them, or an empty list."""
    if not wrong.any():
        return []
    return [(code, f"sentences {what}: {wrong.sum()}, such as {sentences['sentence_id'][int(wrong.argmax())]}")]


# ---------------------------------------------------------------- links
#
# Every part reads all links but holds only those from some sentences, with all links of a sentence in one part.


LINK = ("source_id", "target_id")
LINKS = (*LINK, "similarity")
ENDS = ("sentence_id", "chunk_id")
NEIGHBOURS = ("previous_id", "next_id")
PART = 500_000
"""Most links in one part, which needs about 120 bytes of memory for each link. The limit grows with the square root of
the number of all links: four times PART links are read in parts of twice PART."""
_ROUNDING = 1e-9
_BITS = 64

Pieces = Callable[[], "Iterable[pa.Table]"]
"""A function that reads a table from its start, in blocks of rows."""


class _Links(NamedTuple):
    """The links from some of the sentences; `rows` has their positions among all links."""

    rows: NDArray[np.int64]
    sources: Hashes
    targets: Hashes
    similarities: NDArray[np.float64]


class _Wrong(NamedTuple):
    """The number of links, or sentences, with one kind of error, and the position of the first such link."""

    number: int
    first: int


def related_problems(
    links: Pieces, sentences: Pieces, related: int, most: int, floor: float, part: int = PART
) -> Problems:
    """Return the problems of the `related` RELATED_TO links (columns LINKS), given all sentences (columns ENDS).

    Both ends of a link must exist and be in different chunks. A sentence has at most `most` links. No link is weaker
    than `floor`, and no link is repeated.
    """
    parts = -(-related // max(part, isqrt(part * related))) if related else 0
    seed, found = secrets.randbits(_BITS), dict[str, _Wrong]()
    for number in range(parts):
        for code, wrong in _wrong(_part(links(), seed, number, parts), sentences(), seed, most, floor).items():
            before, first = found.get(code, wrong._replace(number=0))
            found[code] = _Wrong(before + wrong.number, min(first, wrong.first))
    return [
        *_link_problem("link_without_sentence", "links have an end that is no sentence", found, links),
        *_link_problem("link_within_chunk", "links lie within a chunk", found, links),
        *_link_problem("link_twice", "links are there twice", found, links),
        *_link_problem("weak_link", f"links are weaker than {floor}", found, links),
        *_link_problem("links_of_sentence", f"sentences have more than {most} links", found, links, LINK[:1]),
    ]


def over_budget(related: int, count: int, neighbours: Pieces) -> Problems:
    """Return a problem if `related` links, or all edges of `count` sentences, are too many. The edges are these links,
    NEXT and PREVIOUS (columns NEIGHBOURS), and PART_OF."""
    if related <= RELATED_BUDGET * count:
        return []  # a sentence has at most one NEXT and one PREVIOUS, so all edges are within their budget too
    edges = related + count + sum(read.num_rows - each.null_count for read in neighbours() for each in read.columns)
    return [("link_budget", f"{related} links and {edges} edges in all are too many for {count} sentences")]


def _part(links: Iterable[pa.Table], seed: int, number: int, parts: int) -> _Links:
    taken, start = list[_Links](), 0
    for read in links:
        sources = id_hashes(read["source_id"], seed)
        own = np.flatnonzero(sources % np.uint64(parts) == number)
        targets, similarities = id_hashes(read["target_id"], seed), read["similarity"].to_numpy()
        taken.append(_Links(start + own, sources[own], targets[own], similarities[own]))
        start += read.num_rows
    return _Links(*map(np.concatenate, zip(*taken, strict=True)))


def _wrong(links: _Links, sentences: Iterable[pa.Table], seed: int, most: int, floor: float) -> dict[str, _Wrong]:
    """Return the kinds of errors in the links, by code."""
    ends = np.unique(np.concatenate([links.sources, links.targets]))
    is_sentence, chunks = _chunks(ends, sentences, seed)
    sources, targets = (places_in(ends, each)[0] for each in (links.sources, links.targets))
    known = is_sentence[sources] & is_sentence[targets]
    found = {
        "link_without_sentence": _count_wrong(links.rows[~known]),
        "link_within_chunk": _count_wrong(links.rows[known & (chunks[sources] == chunks[targets])]),
        "link_twice": _count_wrong(links.rows[known & _repeated_pairs(sources, targets)]),
        "weak_link": _count_wrong(links.rows[~(links.similarities >= floor - _ROUNDING)]),
        "links_of_sentence": _count_wrong(_first_of_many(links.rows[known], sources[known], most)),
    }
    return {code: wrong for code, wrong in found.items() if wrong.number}


def _count_wrong(rows: NDArray[np.int64]) -> _Wrong:
    return _Wrong(len(rows), int(rows.min(initial=np.iinfo(np.int64).max)))


def _repeated_pairs(sources: NDArray[np.int64], targets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of the pairs that occur earlier in the arrays too."""
    repeated = np.ones(len(sources), dtype=np.bool_)
    repeated[np.unique(sources << np.int64(32) | targets, return_index=True)[1]] = False
    return repeated


def _first_of_many(rows: NDArray[np.int64], sources: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return the first row of each source that has more than `most`."""
    _, first, counts = np.unique(sources, return_index=True, return_counts=True)
    return rows[first[counts > most]]


def _chunks(ends: Hashes, sentences: Iterable[pa.Table], seed: int) -> tuple[NDArray[np.bool_], Hashes]:
    """Return, for ids in ascending order, whether each is the id of a sentence, and the sentence's chunk."""
    known, chunks = np.zeros(len(ends), dtype=np.bool_), np.zeros(len(ends), dtype=np.uint64)
    for read in sentences:
        places, found = places_in(ends, id_hashes(read["sentence_id"], seed))
        known[places[found]] = True
        chunks[places[found]] = id_hashes(read["chunk_id"], seed)[found]
    return known, chunks


def _link_problem(
    code: str, what: str, found: Mapping[str, _Wrong], links: Pieces, names: Sequence[str] = LINK
) -> Iterator[tuple[str, str]]:
    """Yield one problem with the number of wrong links or sentences and the first of them."""
    if code not in found:
        return
    number, row = found[code]
    for read in links():
        if row < read.num_rows:
            break
        row -= read.num_rows
    yield code, f"{what}: {number}, such as {' -> '.join(str(read[name][row]) for name in names)}"


# ---------------------------------------------------------------- checks by stage


LEAST_COVERAGE = 0.98
"""Share of a document's characters, without white space, that must be in its chunks or headings."""
_UNIT = 0.01


_TOLD = 5
"""Most problems that an error names."""


def check(state: State, name: str) -> Problems:
    """Return the problems that a check of CHECKS finds; they are kept until the end of the run."""
    return state.run.keep_problems(
        name, with_repair(state, lambda: CHECKS[name][1](state), before=stage_after(CHECKS[name][0]))
    )


def require_sound(state: State, stage: str) -> None:
    """Raise IndexStateError (`check_failed`) if a check of this stage finds a problem."""
    for name in (name for name, (of, _) in CHECKS.items() if of == stage):
        if problems := check(state, name):
            raise check_error(name, problems)


def check_error(name: str, problems: Sequence[tuple[str, str]]) -> IndexStateError:
    """Return the error of a check that found problems."""
    told = "; ".join(f"{code}: {message}" for code, message in problems[:_TOLD])
    more = f"; and {len(problems) - _TOLD} more" if len(problems) > _TOLD else ""
    return IndexStateError(f"the check {name} failed, so nothing was published: {told}{more}; {REPORT}", "check_failed")


def unlisted_sources(state: State) -> Mapping[str, str]:
    """Return the sources that cannot be listed, with the reasons: in this run, or by a listing now if the run has made
    no listing."""
    try:
        return state.listing.now().failing
    except SourceError as error:
        return {"": str(error)}


def _parts(state: State, tables: Sequence[str], everywhere: bool = False) -> list[Part]:
    """Return the parts to check: those for which this run computed the first table, or all parts if it computed
    none."""
    report = state.run.reports.get(_stage(tables[0]))
    if report is None or everywhere:
        return state.engine.parts(tables, having=tables[0], require=True)
    made = [bucket for bucket, counts in report.buckets.items() if counts.get("computed")]
    return [part for part in state.engine.parts(tables, made, require=True) if part.first in report.parts]


def _stage(table: str) -> str:
    return STAGE_OF_TABLE[table].name


def _read(state: State, made: str, table: str, part: Part, names: Sequence[str], everywhere: bool) -> pa.Table:
    """Return columns of a part. `made` is a table of the checked stage; if this run computed only some of its
    documents, return only their rows."""
    read, report = part.read(table, names), state.run.reports.get(_stage(made))
    computed = report.parts.get(part.first) if report else None
    return read if everywhere or computed is None else rows_of(read, computed)


def empty_documents(state: State, everywhere: bool = False) -> Problems:
    """Return problems of documents that were parsed but have no chunk."""
    state.ensure_generation()
    problems, held = [], state.engine.held_documents()
    for part in _parts(state, ("chunks", "parsed_documents"), everywhere):
        parsed, chunks = (
            set(_read(state, "chunks", table, part, ["doc_id"], everywhere)["doc_id"].unique().to_pylist())
            for table in ("parsed_documents", "chunks")
        )
        bare = sorted(parsed - chunks - held.keys())
        problems += [("empty_document", f"{doc_id} has text but no chunk") for doc_id in bare]
    return problems


def text_coverage(state: State, everywhere: bool = False) -> Problems:
    """Return problems of documents with less than LEAST_COVERAGE of their characters in their chunks or headings."""
    state.ensure_generation()
    problems, held = [], state.engine.held_documents()
    for part in _parts(state, ("chunks", "parsed_elements", "parsed_documents"), everywhere):
        for doc_id, share in coverage(state, part, everywhere).items():
            if share < LEAST_COVERAGE and doc_id not in held:
                problems.append(("coverage", f"only {share:.3f} of the text of {doc_id} is in its chunks"))
    return problems


def coverage(state: State, part: Part, everywhere: bool = True) -> dict[str, float]:
    """Return, by doc_id, the share of the characters of its body, without white space, that is in its chunks and
    headings."""
    spans: dict[str, list[tuple[int, int]]] = {}
    chunks = _read(state, "chunks", "chunks", part, ["doc_id", "spans"], everywhere)
    for doc_id, own in zip(chunks["doc_id"].to_pylist(), chunks["spans"].to_pylist(), strict=True):
        spans.setdefault(doc_id, []).extend((span["start"], span["end"]) for span in own)
    columns = ["doc_id", "kind", "start", "end"]
    elements = _read(state, "chunks", "parsed_elements", part, columns, everywhere)
    for doc_id, kind, start, end in zip(*(elements[name].to_pylist() for name in columns), strict=True):
        if kind == "heading":
            spans.setdefault(doc_id, []).append((start, end))
    parsed = _read(state, "chunks", "parsed_documents", part, ["doc_id", "body"], everywhere)
    bodies = zip(parsed["doc_id"].to_pylist(), parsed["body"].to_pylist(), strict=True)
    return {doc_id: _covered_share(body, spans.get(doc_id, [])) for doc_id, body in bodies}


def _covered_share(body: str, spans: Iterable[tuple[int, int]]) -> float:
    wanted = held = at = 0
    for start, end in sorted(spans):
        held += len("".join(body[max(start, at) : end].split()))
        at = max(at, end)
    wanted = len("".join(body.split()))
    return held / wanted if wanted else 1.0


def unsound_vectors(state: State, table: str, items: str, everywhere: bool = False) -> Problems:
    """Return a problem if an item has no vector, or a vector is not finite or not of unit length."""
    import numpy as np

    state.ensure_generation()
    problems, held = [], state.engine.held_documents()
    for part in _parts(state, (table, items), everywhere):
        made, wanted = part.stored_rows(table), part.rows(items)
        if held:
            wanted = sum(doc_id not in held for doc_id in part.read(items, ["doc_id"])["doc_id"].to_pylist())
        if made != wanted:
            problems.append(("vectors", f"{part.name} has {plural(made, 'vector')} of {wanted} {items}"))
        read = _read(state, table, table, part, ["doc_id", "item_id", "vector"], everywhere)
        lengths = np.linalg.norm(matrix(read["vector"]), axis=1) if read.num_rows else np.ones(0)
        for row in np.flatnonzero(~(np.abs(lengths - 1.0) < _UNIT)):
            problems.append(("vector", f"the vector of {read['item_id'][int(row)]} has length {lengths[row]:.3f}"))
    return problems


def unsound_sentence_vectors(state: State, everywhere: bool = False) -> Problems:
    """Return the same problems for the vectors of links and for those of sentence search."""
    tables = ("sentence_embeddings", "sentence_search_embeddings")
    return [problem for table in tables for problem in unsound_vectors(state, table, "sentences", everywhere)]


def disagreements(state: State, everywhere: bool = False) -> Problems:
    """Return a problem if Parquet and Postgres do not have the same documents, chunks and sentences."""
    report = None if everywhere else state.run.reports.get("indexed_documents")
    return IndexBuild(state).disagreements(report.buckets if report else ())


def broken_skeleton(state: State, everywhere: bool = False) -> Problems:
    """Return problems of NEXT and PREVIOUS, and of the place of every sentence in its chunk."""
    state.ensure_generation()
    problems = []
    for part in _parts(state, ("sentences", "chunks"), everywhere):
        sentences = _read(state, "sentences", "sentences", part, SENTENCE_COLUMNS, everywhere)
        chunks = _read(state, "sentences", "chunks", part, CHUNK_COLUMNS, everywhere)
        problems += skeleton_problems(sentences, chunks)
    return problems


def unsound_links(state: State) -> Problems:
    """Return the problems of RELATED_TO, compared with all sentences and the budgets. The floor is the recorded one of
    the links."""
    embedder, settings = state.ensure_generation().embedder["name"], state.settings.sentences
    made, table = state.engine.whole("sentence_links"), state.engine.table("sentences")
    floor = max(float(made.note("sentence_links") or 0), floor_for(settings, embedder) - STEP)

    def sentences(*columns: str) -> Iterator[pa.Table]:
        return table.pieces(columns)

    def links() -> Iterator[pa.Table]:
        return made.pieces("sentence_links", LINKS)

    related, count = made.stored_rows("sentence_links"), table.rows
    return [
        *related_problems(links, partial(sentences, *ENDS), related, settings.related_most, floor),
        *over_budget(related, count, partial(sentences, *NEIGHBOURS)),
    ]


def audit_problems(state: State) -> Problems:
    """Return the findings of this run's audit; run the audit now if the run has none."""
    if state.run.built is not None:
        # A backfill of some buckets is not wrong; it is not published.
        return [problem for problem in state.run.built.problems if problem[0] != "missing_bucket"]
    return audit(IndexBuild(state).index)


def before_publishing(state: State) -> Problems:
    """Return the problems of a whole generation, including results of earlier runs."""
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
"""The stage of a check, and the check, by the check's name."""
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
