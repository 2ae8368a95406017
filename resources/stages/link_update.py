"""Links with vectors read a piece at a time: of documents that changed, and of very many sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipelines.errors import IndexStateError
from pipelines.indexing.changed_links import Ids, LinkColumns, Neighbours, Standing, places_in
from pipelines.indexing.embeddings import vector_key
from pipelines.indexing.sentence_links import EXACT_PAIRS, NONE, links_near, lowered, on_grid
from resources.hashes import bytes_hash
from resources.parquet.vectors import matrix
from resources.threads import read_ahead

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from pipelines.ports import Progress
    from resources.parquet.tables import ParquetTables

Files = Sequence[tuple[str, str]]
"""Sentences and their vectors, shard by shard."""
Piece = tuple[Ids, Ids, "NDArray[np.float32]"]
"""Ids of sentences, their chunks and vectors, shape (ids, dimension)."""


class _Shard(NamedTuple):
    """Ids of a shard's sentences in ascending order, their chunks, and the file of their vectors."""

    ids: Ids
    chunk_ids: Ids
    vectors: str


class Updated(NamedTuple):
    """`compared` sentences were held against all others; `floor` is the cosine that a link had to reach."""

    links: LinkColumns
    compared: int
    floor: float


def updated(
    tables: ParquetTables,
    files: Files,
    before: str,
    changed: Collection[str],
    floor: float,
    most: int,
    progress: Progress,
) -> Updated | None:
    """The links after these documents changed, from the file of those before: as sentence_links makes them of all
    sentences. None where all must be compared anew: too many changed, or the last link that reached the floor is gone,
    and beside it nobody looked for weaker ones.

    Raises IndexStateError (`missing_input`) where a sentence has no vector yet."""
    over = float(tables.note(before))
    if over not in (floor, lowered(floor)) or not most:
        return None
    standing, fresh, shards = Standing(link_columns(tables.read(before)), most), list[Ids](), list[_Shard]()
    for shard, new in _sentences(tables, files, changed):
        standing.see(shard.ids[~new])
        fresh.append(shard.ids[new])
        shards.append(shard)
    count = sum(len(shard.ids) for shard in shards)
    held, lost = standing.held()
    new_ids = np.concatenate([held.sources[:0], *fresh])
    asked = np.concatenate([new_ids, lost])
    if len(asked) * count > EXACT_PAIRS:
        return None
    links = held
    if len(asked):
        chunk_ids, vectors = _vectors_of(tables, shards, asked)
        search = Neighbours(asked, chunk_ids, vectors, len(new_ids), held, most, over)
        _compare(search, tables, shards, progress)
        links = search.links()
    if over == floor:
        return Updated(links, len(asked), floor) if len(links.sources) else None
    reaching = links.cosines >= floor
    return Updated(links.taken(reaching), len(asked), floor) if reaching.any() else Updated(links, len(asked), over)


def near_one_another(
    tables: ParquetTables, files: Files, floor: float, most: int, progress: Progress
) -> Updated | None:
    """The links of so many sentences that not all pairs are compared, all anew, with some of their vectors held at a
    time; None where they are fewer.

    Raises IndexStateError (`missing_input`) where a sentence has no vector yet."""
    shards = [shard for shard, _ in _sentences(tables, files, ())]
    count = sum(len(shard.ids) for shard in shards)
    if count * count <= EXACT_PAIRS or not most:
        return None
    ids = np.concatenate([shard.ids for shard in shards])
    order = np.argsort(ids)
    ids = ids[order]
    chunks = np.unique(np.concatenate([shard.chunk_ids for shard in shards])[order], return_inverse=True)[1]
    ranked = [(np.searchsorted(ids, shard.ids), shard) for shard in shards]

    def read() -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        seen = 0
        for ranks, vectors in read_ahead(ranked, rows):
            seen += len(ranks)
            yield ranks, vectors
        if seen != count:
            raise _without_vectors(count - seen)

    def rows(ranked: tuple[NDArray[np.int64], _Shard]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        return ((ranked[0][at], on_grid(vectors.copy())) for at, vectors in _rows(tables, ranked[1]))

    for over in (floor, lowered(floor)):
        found = links_near(read, chunks, most, over, progress)
        sources, slots = np.nonzero(found.cosines > NONE)
        if len(sources):
            break
    cosines, targets = found.cosines[sources, slots], found.targets[sources, slots]
    return Updated(LinkColumns(ids[sources], ids[targets], cosines), count, over)


def _compare(search: Neighbours, tables: ParquetTables, shards: Sequence[_Shard], progress: Progress) -> None:
    seen, count = 0, sum(len(shard.ids) for shard in shards)
    for ids, chunk_ids, vectors in read_ahead(shards, partial(_piece, tables)):
        search.compare(ids, chunk_ids, vectors)
        seen += len(ids)
        progress(seen, count)
    if seen != count:
        raise _without_vectors(count - seen)


def _without_vectors(count: int) -> IndexStateError:
    return IndexStateError(
        f"{count} sentences have no vector yet; materialise sentence_embeddings first", "missing_input"
    )


# ---------------------------------------------------------------- columns


def ids_of(column: pa.ChunkedArray) -> Ids:
    """A column of ids as an array; without a Python object for each where they are of one length."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    lengths = pc.min_max(pc.binary_length(array)).as_py()
    if not len(array) or not lengths["min"] or lengths["min"] != lengths["max"] or array.null_count:
        return np.array([value.encode() for value in array.to_pylist()] or [], dtype="S")
    _, offsets, data = array.buffers()
    start = int(np.frombuffer(offsets, np.int32, 1, array.offset * 4)[0])
    return np.frombuffer(data, f"S{lengths['min']}", len(array), start)


def link_columns(links: pa.Table) -> LinkColumns:
    return LinkColumns(ids_of(links["source_id"]), ids_of(links["target_id"]), links["similarity"].to_numpy())


def link_table(links: LinkColumns) -> pa.Table:
    """A table of records.SentenceLink."""
    import pyarrow as pa

    from pipelines.records import SentenceLink
    from pipelines.schemas import schema_of

    ends = [pa.array(ids, pa.binary()).cast(pa.string()) for ids in (links.sources, links.targets)]
    return pa.Table.from_arrays([*ends, pa.array(links.cosines, pa.float64())], schema=schema_of(SentenceLink))


def links_hash(links: LinkColumns) -> str:
    """Of the links alone: the same links are not loaded again because documents changed."""
    return bytes_hash(b"".join(np.ascontiguousarray(column).tobytes() for column in links))


# ---------------------------------------------------------------- sentences and their vectors


def linked(tables: ParquetTables, sentences: str, vectors: str) -> pa.Table:
    """The sentences of a shard that have a vector of their own: id, chunk and document. Left out are those that an
    endpoint refused: what stands in for them is like other sentences by its place, not its sense."""
    import pyarrow as pa
    import pyarrow.compute as pc

    read, states = tables.read(sentences, ["sentence_id", "chunk_id", "doc_id"]), tables.states(vectors)
    embedded = states.filter(pc.not_equal(states["output"], ""))["doc_id"]
    read = read.replace_schema_metadata(None).filter(pc.is_in(read["doc_id"], embedded.combine_chunks()))
    if poor := _stand_ins(tables, sentences, vectors, states):
        read = read.filter(pc.invert(pc.is_in(read["sentence_id"], pa.array(sorted(poor), pa.string()))))
    return read


def _stand_ins(tables: ParquetTables, sentences: str, vectors: str, states: pa.Table) -> set[str]:
    """Ids of sentences that have the vector of another text, since an endpoint refused theirs."""
    import pyarrow.compute as pc

    stands_in = pc.fill_null(pc.equal(states["failed"], states["fingerprint"]), False)
    marked = states.filter(stands_in)["doc_id"].combine_chunks()
    if not len(marked):
        return set()
    read = tables.read(vectors, ["item_id", "text_hash"])
    keys = dict(zip(read["item_id"].to_pylist(), read["text_hash"].to_pylist(), strict=True))
    read = tables.read(sentences, ["sentence_id", "doc_id", "text"])
    read = read.filter(pc.is_in(read["doc_id"], marked))
    rows = zip(read["sentence_id"].to_pylist(), read["text"].to_pylist(), strict=True)
    return {name for name, text in rows if keys[name] != vector_key(text)}


def _sentences(
    tables: ParquetTables, files: Files, changed: Collection[str]
) -> Iterator[tuple[_Shard, NDArray[np.bool_]]]:
    """Each shard, and which of its sentences are of documents that changed."""
    import pyarrow as pa
    import pyarrow.compute as pc

    others = pa.array(sorted(changed), pa.string())

    def read(pair: tuple[str, str]) -> Iterator[tuple[_Shard, NDArray[np.bool_]]]:
        rows = linked(tables, *pair).sort_by("sentence_id")
        new = pc.is_in(rows["doc_id"], others).to_numpy()
        yield _Shard(ids_of(rows["sentence_id"]), ids_of(rows["chunk_id"]), pair[1]), new

    return read_ahead(files, read)


def _piece(tables: ParquetTables, shard: _Shard) -> Iterator[Piece]:
    return ((shard.ids[at], shard.chunk_ids[at], vectors) for at, vectors in _rows(tables, shard))


def _rows(tables: ParquetTables, shard: _Shard) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Vectors of a shard's sentences, a piece at a time and not to be written to, with their places in it."""
    for piece in tables.pieces(shard.vectors, ["item_id", "vector"]) if len(shard.ids) else ():
        at, found = places_in(shard.ids, ids_of(piece["item_id"]))
        if found.any():
            vectors = matrix(piece["vector"])
            yield (at, vectors) if found.all() else (at[found], vectors[found])


def _vectors_of(tables: ParquetTables, shards: Sequence[_Shard], asked: Ids) -> tuple[Ids, NDArray[np.float32]]:
    """Chunks and vectors of these sentences, in their order."""
    found, among = list[Piece](), np.sort(asked)
    for shard in shards:  # those that have none of them are not read
        wanted = places_in(among, shard.ids)[1]
        found += _piece(tables, _Shard(shard.ids[wanted], shard.chunk_ids[wanted], shard.vectors))
    ids = np.concatenate([asked[:0], *(each[0] for each in found)])
    order = np.argsort(ids)
    at, there = places_in(ids[order], asked)
    if not there.all():
        raise _without_vectors(int((~there).sum()))
    places = order[at]
    chunk_ids, vectors = np.concatenate([each[1] for each in found]), np.concatenate([each[2] for each in found])
    return chunk_ids[places], vectors[places]
