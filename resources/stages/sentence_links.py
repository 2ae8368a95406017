"""The links between similar sentences (RELATED_TO) in Parquet, updated when sentences or vectors change.

If there are many sentences, or only a few changed, vectors are read in pieces, to bound memory.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from pipelines.errors import IndexStateError
from pipelines.fingerprint import combine
from pipelines.increments import FIRST, PART, DocumentState, plan
from pipelines.indexing.changed_links import Ids, LinkColumns, Neighbours, PreviousLinks, places_in
from pipelines.indexing.embeddings import vector_key
from pipelines.indexing.sentence_links import (
    EXACT_PAIRS,
    NONE,
    floor_for,
    links_near,
    lower_floor,
    on_grid,
    sentence_links,
)
from pipelines.plural import plural
from pipelines.records import SentenceLink
from pipelines.schemas import from_table, to_table
from pipelines.stages import STAGES
from resources.engine import StageReport, time_shown
from resources.engine.tables import DOC_ID, as_states, states_schema, states_table
from resources.engine.vectors import ids_of, matrix
from resources.hashes import bytes_hash

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from pipelines.ports import Progress
    from resources.engine import Part
    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State


STAGE, _VECTORS = "sentence_links", "sentence_embeddings"


# ---------------------------------------------------------------- links, with vectors read a piece at a time


Piece = tuple[Ids, Ids, "NDArray[np.float32]"]
"""The ids of some sentences, their chunks, and their vectors as an array of shape (ids, dimension)."""


class _PartSentences(NamedTuple):
    """Ids of a part's sentences in ascending order, their chunks, and the part that has their vectors."""

    ids: Ids
    chunk_ids: Ids
    part: Part


class Updated(NamedTuple):
    """New links. `compared` sentences were compared with all others; `floor` is the least cosine of a link."""

    links: LinkColumns
    compared: int
    floor: float


def update_links(
    parts: Sequence[Part],
    before: Part,
    changed: Collection[str],
    floor: float,
    most: int,
    progress: Progress,
) -> Updated | None:
    """Return the links after these documents changed, from the links `before`. They equal the result of sentence_links
    for all sentences. Return None if all must be compared again: too many changed, or no link reaches the floor any
    more and weaker ones were not searched.

    Raise IndexStateError (`missing_input`) if a sentence has no vector yet.
    """
    over = float(before.note(STAGE) or 0.0)  # no note if there were no sentences
    if over not in (floor, lower_floor(floor)) or not most:
        return None
    standing, fresh, groups = PreviousLinks(link_columns(before.read(STAGE)), most), list[Ids](), list[_PartSentences]()
    for group, new in _sentences(parts, changed):
        standing.see(group.ids[~new])
        fresh.append(group.ids[new])
        groups.append(group)
    count = sum(len(group.ids) for group in groups)
    held, lost = standing.held_links()
    new_ids = np.concatenate([held.sources[:0], *fresh])
    asked = np.concatenate([new_ids, lost])
    if len(asked) * count > EXACT_PAIRS:
        return None
    links = held
    if len(asked):
        chunk_ids, vectors = _vectors_of(groups, asked)
        search = Neighbours(asked, chunk_ids, vectors, len(new_ids), held, most, over)
        _compare(search, groups, progress)
        links = search.links()
    if over == floor:
        return Updated(links, len(asked), floor) if len(links.sources) else None
    reaching = links.cosines >= floor
    return Updated(links.take(reaching), len(asked), floor) if reaching.any() else Updated(links, len(asked), over)


def near_one_another(parts: Sequence[Part], floor: float, most: int, progress: Progress) -> Updated | None:
    """Compare near sentences and return all links, if there are too many sentences to compare all pairs; otherwise
    return None. Only some of the vectors are in memory at a time.

    Raise IndexStateError (`missing_input`) if a sentence has no vector yet.
    """
    groups = [group for group, _ in _sentences(parts, ())]
    count = sum(len(group.ids) for group in groups)
    if count * count <= EXACT_PAIRS or not most:
        return None
    ids = np.concatenate([group.ids for group in groups])
    order = np.argsort(ids)
    ids = ids[order]
    chunks = np.unique(np.concatenate([group.chunk_ids for group in groups])[order], return_inverse=True)[1]
    ranked = [(np.searchsorted(ids, group.ids), group) for group in groups]

    def read() -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        seen = 0
        for ranks, vectors in read_ahead(ranked, rows):
            seen += len(ranks)
            yield ranks, vectors
        if seen != count:
            raise _without_vectors(count - seen)

    def rows(
        ranked: tuple[NDArray[np.int64], _PartSentences],
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        return ((ranked[0][at], on_grid(vectors.copy())) for at, vectors in _rows(ranked[1]))

    for over in (floor, lower_floor(floor)):
        found = links_near(read, chunks, most, over, progress)
        sources, slots = np.nonzero(found.cosines > NONE)
        if len(sources):
            break
    cosines, targets = found.cosines[sources, slots], found.targets[sources, slots]
    return Updated(LinkColumns(ids[sources], ids[targets], cosines), count, over)


def _compare(search: Neighbours, groups: Sequence[_PartSentences], progress: Progress) -> None:
    seen, count = 0, sum(len(group.ids) for group in groups)
    for ids, chunk_ids, vectors in read_ahead(groups, _piece):
        search.compare(ids, chunk_ids, vectors)
        seen += len(ids)
        progress(seen, count)
    if seen != count:
        raise _without_vectors(count - seen)


def _without_vectors(count: int) -> IndexStateError:
    return IndexStateError(
        f"{plural(count, 'sentence has', 'sentences have')} no vector yet; materialise sentence_embeddings first",
        "missing_input",
    )


# ---------------------------------------------------------------- columns


def link_columns(links: pa.Table) -> LinkColumns:
    return LinkColumns(ids_of(links["source_id"]), ids_of(links["target_id"]), links["similarity"].to_numpy())


def link_table(links: LinkColumns) -> pa.Table:
    """Return a table of records.SentenceLink."""
    import pyarrow as pa

    from pipelines.records import SentenceLink
    from pipelines.schemas import schema_of

    ends = [pa.array(ids, pa.binary()).cast(pa.string()) for ids in (links.sources, links.targets)]
    return pa.Table.from_arrays([*ends, pa.array(links.cosines, pa.float64())], schema=schema_of(SentenceLink))


def links_hash(links: LinkColumns) -> str:
    """Return a hash of only the links, so that unchanged links are not loaded again when documents changed."""
    return bytes_hash(b"".join(np.ascontiguousarray(column).tobytes() for column in links))


# ---------------------------------------------------------------- sentences and their vectors


def linkable_sentences(part: Part) -> pa.Table:
    """Return id, chunk and document of the sentences of a part with a vector of their own text. Sentences that an
    endpoint refused are left out, since their fallback vectors do not express their meaning."""
    import pyarrow as pa
    import pyarrow.compute as pc

    read, states = part.read("sentences", ["sentence_id", "chunk_id", "doc_id"]), part.states_table(_VECTORS)
    embedded = states.filter(pc.not_equal(states["output"], ""))["doc_id"]
    read = read.replace_schema_metadata(None).filter(pc.is_in(read["doc_id"], embedded.combine_chunks()))
    if poor := _stand_ins(part, states):
        read = read.filter(pc.invert(pc.is_in(read["sentence_id"], pa.array(sorted(poor), pa.string()))))
    return read


def _stand_ins(part: Part, states: pa.Table) -> set[str]:
    """Return the ids of sentences with the vector of another text, because an endpoint refused theirs."""
    import pyarrow.compute as pc

    stands_in = pc.fill_null(pc.equal(states["failed"], states["fingerprint"]), False)
    marked = states.filter(stands_in)["doc_id"].combine_chunks()
    if not len(marked):
        return set()
    read = part.read(_VECTORS, ["item_id", "text_hash"])
    keys = dict(zip(read["item_id"].to_pylist(), read["text_hash"].to_pylist(), strict=True))
    read = part.read("sentences", ["sentence_id", "doc_id", "text"])
    read = read.filter(pc.is_in(read["doc_id"], marked))
    rows = zip(read["sentence_id"].to_pylist(), read["text"].to_pylist(), strict=True)
    return {name for name, text in rows if keys[name] != vector_key(text)}


def _sentences(parts: Sequence[Part], changed: Collection[str]) -> Iterator[tuple[_PartSentences, NDArray[np.bool_]]]:
    """Yield each part, and which of its sentences belong to changed documents."""
    import pyarrow as pa
    import pyarrow.compute as pc

    others = pa.array(sorted(changed), pa.string())

    def read(part: Part) -> Iterator[tuple[_PartSentences, NDArray[np.bool_]]]:
        rows = linkable_sentences(part).sort_by("sentence_id")
        new = pc.is_in(rows["doc_id"], others).to_numpy()
        yield _PartSentences(ids_of(rows["sentence_id"]), ids_of(rows["chunk_id"]), part), new

    return read_ahead(parts, read)


def _piece(group: _PartSentences) -> Iterator[Piece]:
    return ((group.ids[at], group.chunk_ids[at], vectors) for at, vectors in _rows(group))


def _rows(group: _PartSentences) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield the vectors of a group's sentences, read-only and in pieces, with their positions in the group."""
    for piece in group.part.pieces(_VECTORS, ["item_id", "vector"]) if len(group.ids) else ():
        at, found = places_in(group.ids, ids_of(piece["item_id"]))
        if found.any():
            vectors = matrix(piece["vector"])
            yield (at, vectors) if found.all() else (at[found], vectors[found])


def _vectors_of(groups: Sequence[_PartSentences], asked: Ids) -> tuple[Ids, NDArray[np.float32]]:
    """Return the chunks and vectors of these sentences, in their order."""
    found, among = list[Piece](), np.sort(asked)
    for group in groups:  # groups without any of them are not read
        wanted = places_in(among, group.ids)[1]
        found += _piece(_PartSentences(group.ids[wanted], group.chunk_ids[wanted], group.part))
    ids = np.concatenate([asked[:0], *(each[0] for each in found)])
    order = np.argsort(ids)
    at, there = places_in(ids[order], asked)
    if not there.all():
        raise _without_vectors(int((~there).sum()))
    places = order[at]
    chunk_ids, vectors = np.concatenate([each[1] for each in found]), np.concatenate([each[2] for each in found])
    return chunk_ids[places], vectors[places]


# ---------------------------------------------------------------- documents to compare
#
# Committed states tell, in columns, which documents' sentences and vectors are unchanged since the last links.


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """The documents to compare again (`changed`, with `reasons`), the number of removed ones (`gone`), and the states
    of the others (`kept`), in columns."""

    changed: Mapping[str, str]
    reasons: Mapping[str, str]
    gone: int
    kept: pa.Table

    def states(self, run_id: str) -> pa.Table:
        """Return the states of all documents, to be stored with the new links."""
        import pyarrow as pa

        at = time_shown()
        fresh = {doc_id: DocumentState(wanted, "", None, run_id, at, self.reasons[doc_id])
                 for doc_id, wanted in self.changed.items()}  # fmt: skip
        return pa.concat_tables([self.kept, states_table(fresh)]).sort_by(DOC_ID)


def link_plan(parts: Sequence[Part], before: Part | None) -> LinkPlan:
    """Return the plan of pipelines.increments.plan. States are built only for documents that changed."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    made = STAGES[STAGE].inputs
    first = made[0]
    last = before.states_table(STAGE) if before else states_schema().empty_table()
    last_ids, last_wanted = ids_of(last[DOC_ID]), pc.coalesce(last["failed"], last["fingerprint"])
    there, first_made = np.zeros(len(last_ids), dtype=bool), dict[str, str]()
    changed: dict[str, dict[str, DocumentState]] = {table: {} for table in made}

    def read(part: Part) -> Iterator[dict[str, pa.Table]]:
        yield {table: _with_rows(part.states_table(table)) for table in made}

    for states in read_ahead(parts, read):
        ids = states[first][DOC_ID].combine_chunks()
        for table in made:
            ids = ids.filter(pc.is_in(ids, states[table][DOC_ID].combine_chunks()))
        at = {table: pc.index_in(ids, rows[DOC_ID].combine_chunks()) for table, rows in states.items()}
        parts = [pc.utf8_slice_codeunits(rows["output"].take(at[table]), 0, PART) for table, rows in states.items()]
        wanted = pc.binary_join_element_wise(*parts, ".")
        if before is None:
            first_made.update(zip(ids.to_pylist(), wanted.to_pylist(), strict=True))
            continue
        places, known = places_in(last_ids, ids_of(ids))
        there[places[known]] = True
        same = pc.equal(last_wanted.take(pa.array(places, mask=~known)), wanted).combine_chunks()
        other = pc.invert(pc.fill_null(same, False))
        for table, rows in states.items():
            changed[table].update(as_states(rows.take(at[table].filter(other))))
    if before is None:
        return LinkPlan(first_made, dict.fromkeys(first_made, FIRST), 0, last)
    moved = pc.is_in(last[DOC_ID], pa.array(list(changed[first]), pa.string())).to_numpy()
    todo = plan(changed, as_states(last.filter(pa.array(moved))))
    kept = last.filter(pa.array(there & ~moved))
    return LinkPlan(todo.compute, todo.reasons, last.num_rows - int(there.sum()), kept)


def _with_rows(states: pa.Table) -> pa.Table:
    """Return the states of documents that have a result, from now or from their last good version."""
    import pyarrow.compute as pc

    return states.filter(pc.not_equal(states["output"], ""))


# ---------------------------------------------------------------- the stage


def link_sentences(state: State) -> StageReport:
    """Compare the sentences of documents that changed since the last links with all others. No row is read if no
    sentence and no vector changed. Raise IndexStateError (`missing_input`) if a bucket's sentences have no vectors
    yet."""
    report, started = StageReport(STAGE, notes={"sentences compared": 0}), time.perf_counter()
    state.ensure_generation()
    engine, parts = state.engine, made_from(state)
    wanted = combine(part.output(table) for table in STAGES[STAGE].inputs for part in parts)
    before = engine.whole_before(STAGE)
    if before and engine.table(STAGE).is_made and before.input(STAGE) == wanted:
        report.kept, report.total = before.documents(STAGE), before.rows(STAGE)
        if note := before.note(STAGE):
            report.notes["floor"] = float(note)
        return report
    todo = link_plan(parts, before)
    found, states = _links(state, parts, todo, before), todo.states(state.run.id)
    engine.commit_whole(STAGE, link_table(found.links), states, wanted, links_hash(found.links), str(found.floor))
    report.computed, report.kept, report.gone = len(todo.changed), todo.kept.num_rows, todo.gone
    report.total = report.written = len(found.links.sources)
    report.notes.update({"sentences compared": found.compared, "floor": found.floor})
    report.seconds = time.perf_counter() - started
    return report


def _links(state: State, parts: Sequence[Part], todo: LinkPlan, before: Part | None) -> Updated:
    """Return the new links. All vectors are read into memory only if they are few, and too many documents changed or no
    links existed."""
    settings = state.settings.sentences
    floor, most = floor_for(settings, state.ensure_generation().embedder["name"]), settings.related_most

    def progress(done: int, total: int) -> None:
        state.run.progress(STAGE, done, total)

    if before and (found := update_links(parts, before, todo.changed, floor, most, progress)):
        return found
    if found := near_one_another(parts, floor, most, progress):
        return found
    sentences = LinkedSentences(parts)
    old = from_table(SentenceLink, before.read(STAGE)) if before else []
    known = {name for name, doc_id in zip(sentences.ids, sentences.doc_ids, strict=True) if doc_id not in todo.changed}
    links, compared, used = sentence_links(
        sentences.ids, sentences.chunk_ids, sentences.vectors, floor, most, progress, old, known if before else ()
    )
    return Updated(link_columns(to_table(SentenceLink, links)), compared, used)


def floor_used(state: State, generation: GenerationRow) -> float | None:
    """Return the least cosine of a generation's links, or None if it has no links yet."""
    note = state.table(STAGE, generation.keys.get(STAGE, "")).note
    return float(note) if note else None


def made_from(state: State) -> list[Part]:
    """Return the sentences from which links are made, in parts, limited to parts that were made. Raise IndexStateError
    (`missing_input`) if a part's sentences have no vectors yet."""
    return state.engine.parts(STAGES[STAGE].inputs, having="sentences", require=True)


class LinkedSentences:
    """All sentences in order of their ids, with their chunks, documents and vectors, shape (sentences, dimension),
    except those that `linked` leaves out.

    Memory holds the vectors once, and some more rows while they are read. Raise IndexStateError (`missing_input`).
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        import pyarrow as pa

        read = [linkable_sentences(part) for part in parts]
        whole = pa.concat_tables(read).sort_by("sentence_id") if read else None
        self.ids, self.chunk_ids, self.doc_ids = (
            whole[name].to_pylist() if whole else [] for name in ("sentence_id", "chunk_id", "doc_id")
        )
        places = {name: place for place, name in enumerate(self.ids)}
        self.vectors: NDArray[np.float32] = np.zeros((0, 0), dtype=np.float32)
        pieces = (piece for part in parts for piece in part.pieces(_VECTORS, ["item_id", "vector"]))
        found = sum(self._take(piece, places) for piece in pieces)
        if found != len(places):
            raise IndexStateError(
                f"{len(places) - found} sentences have no vector yet; materialise sentence_embeddings first",
                "missing_input",
            )

    def _take(self, read: pa.Table, places: Mapping[str, int]) -> int:
        """Copy vectors to their positions; return their number."""
        vectors = matrix(read["vector"])
        if not self.vectors.size and vectors.size:
            self.vectors = np.empty((len(places), vectors.shape[1]), dtype=np.float32)
        named = [(row, places[name]) for row, name in enumerate(read["item_id"].to_pylist()) if name in places]
        if named:
            rows, own = np.array(named, dtype=np.int64).T
            self.vectors[own] = vectors[rows]
        return len(named)


# ---------------------------------------------------------------- read ahead


T = TypeVar("T")
K = TypeVar("K")

READERS = 2


def read_ahead(keys: Sequence[K], read: Callable[[K], Iterator[T]]) -> Iterator[T]:
    """Yield the items of `read` for each key; no item may be None.

    READERS threads take turns: each reads every READERS-th key, and one item ahead. If `read` yields one item for each
    key, the items are in the order of the keys.
    """

    def of_turn(first: int) -> Iterator[T]:
        for key in keys[first::READERS]:
            yield from read(key)

    with ThreadPoolExecutor(READERS) as readers:
        turns = deque((turn, readers.submit(next, turn, None)) for turn in map(of_turn, range(READERS)))
        while turns:
            turn, ahead = turns.popleft()
            if (found := ahead.result()) is not None:
                turns.append((turn, readers.submit(next, turn, None)))
                yield found
