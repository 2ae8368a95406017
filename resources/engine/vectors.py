"""The lookup of vectors by embedder and by the key of their input, so that nothing is embedded twice.

Each key is sixteen bytes in an array instead of a Python object, since there are millions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import DamagedFile
from pipelines.indexing.changed_links import places_in
from pipelines.ranges import ALL_IDS, buckets_over
from pipelines.records import Embedding
from pipelines.schemas import schema_of
from resources.engine.tables import range_of

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.ranges import Range
    from resources.engine.committed import Part
    from resources.engine.tables import ParquetTables


# ---------------------------------------------------------------- keys


Keys = NDArray[Any]
"""Array of shape (n,) with sixteen bytes in each item; each key is the hash of a vector's input."""
_KEY = "S16"


def keys_from(digits: Iterable[str]) -> Keys:
    """Return keys given in 32 hex digits each as an array. Raise ValueError."""
    return np.frombuffer(bytes.fromhex("".join(digits)), dtype=_KEY)


def sound_keys(column: pa.ChunkedArray) -> Keys:
    """Return the keys in an unchecked file, or no keys if it is damaged: no run takes vectors from it."""
    try:
        digits = column.to_pylist()
        keys = keys_from(digits)
    except (ValueError, TypeError):  # bytes that are no text, text that is no key, null
        return keys_from(())
    return keys if len(keys) == len(digits) else keys_from(())


def digits_of(keys: Keys) -> list[str]:
    digits = np.ascontiguousarray(keys).view(np.uint8).tobytes().hex()
    return [digits[at : at + 32] for at in range(0, len(digits), 32)]


# ---------------------------------------------------------------- ids


def ids_of(column: pa.ChunkedArray) -> NDArray[np.bytes_]:
    """Return a column of ids as an array. If all ids have one length, no Python objects are made for them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    lengths = pc.min_max(pc.binary_length(array)).as_py()
    if not len(array) or not lengths["min"] or lengths["min"] != lengths["max"] or array.null_count:
        return np.array([value.encode() for value in array.to_pylist()] or [], dtype="S")
    _, offsets, data = array.buffers()
    start = int(np.frombuffer(offsets, np.int32, 1, array.offset * 4)[0])
    return np.frombuffer(data, f"S{lengths['min']}", len(array), start)


def id_hashes(column: pa.ChunkedArray, seed: int) -> NDArray[np.uint64]:
    """Return a hash of 64 bits for each id of a column, which depends on the seed. It is 0 for null and an empty id. No
    Python objects are made for ids of one length."""
    ids = ids_of(column.fill_null(""))
    width = -(-ids.itemsize // 8)
    words = ids.astype(f"S{width * 8}").view(np.uint64).reshape(len(ids), width)
    hashes, keys = (
        np.zeros(len(ids), np.uint64),
        _mix(np.arange(1, width + 1, dtype=np.uint64) * _STEP + np.uint64(seed)),
    )
    for word, key in zip(words.T, keys, strict=True):  # a word of zeros is beyond the id's end
        hashes += np.where(word == 0, np.uint64(0), _mix(word ^ key))
    return hashes


_STEP = np.uint64(0x9E3779B97F4A7C15)


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return each word mixed so that every bit depends on all of its bits (the finalizer of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


# ---------------------------------------------------------------- vectors


_UNFINISHED = "unfinished"


def imported_for(key: str) -> str:
    """Return the name used in place of a key for vectors imported for a stage of this key, until they are committed."""
    return f"imported-{key}"


def matrix(column: Any) -> NDArray[np.float32]:
    """Return an Arrow column of vectors as shape (rows, dimension), without making Python floats."""
    import numpy as np

    rows = len(column)
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(rows, -1) if rows else np.zeros((0, 0), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class VectorRow:
    """A row of a table of vectors without its vector. `text_hash` is the key of the vector's input."""

    doc_id: str
    index: int
    item_id: str
    text_hash: str


def vector_table(rows: Sequence[VectorRow], vectors: NDArray[np.float32]) -> pa.Table:
    """Return a table of records.Embedding; `vectors` has the shape (len(rows), dimension)."""
    import numpy as np
    import pyarrow as pa

    schema = schema_of(Embedding)
    if not rows:
        return schema.empty_table()
    ends = np.arange(len(rows) + 1, dtype=np.int32) * vectors.shape[1]
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    columns = [pa.array([getattr(row, field.name) for row in rows]) for field in fields(VectorRow)]
    return pa.Table.from_arrays([*columns, pa.ListArray.from_arrays(pa.array(ends), flat)], schema=schema)


def vectors_of(part: Part, table: str, doc_ids: Collection[str]) -> dict[str, dict[str, NDArray[np.float32]]]:
    """Return vectors of some documents of a part: doc_id to item id to shape (dimension,)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    read = part.read(table, ["doc_id", "item_id", "vector"])
    read = read.filter(pc.is_in(read["doc_id"], pa.array(sorted(doc_ids), pa.string())))
    values = matrix(read["vector"])
    found: dict[str, dict[str, NDArray[np.float32]]] = {doc_id: {} for doc_id in doc_ids}
    for row, (doc_id, item) in enumerate(zip(read["doc_id"].to_pylist(), read["item_id"].to_pylist(), strict=True)):
        found[doc_id][item] = values[row]
    return found


def kept_files(tables: ParquetTables, table: str, place: str) -> dict[str, Range | None]:
    """Return the files of a table in a named place (instead of a key), each with the range of its documents, or None if
    its name has no range."""
    return {name: range_of(name) for name in tables.files(f"{table}/{place}")}


@dataclass
class _Places:
    """The places of vectors: for each key, ascending, the number of a file in `names` or -1, and a row of it."""

    keys: Keys
    files: NDArray[np.int32]
    rows: NDArray[np.int32]
    names: list[str]

    def take(self, file: str, keys: Keys) -> int:
        """Record the places of a file's keys that have no place yet. Return how many there were."""
        import numpy as np

        at, there = places_in(self.keys, keys)
        rows = np.flatnonzero(there)
        at, first = np.unique(at[rows], return_index=True)
        new = self.files[at] < 0
        self.files[at[new]], self.rows[at[new]] = len(self.names), rows[first[new]]
        self.names.append(file)
        return int(new.sum())

    def places_of(self, digits: Sequence[str]) -> dict[str, tuple[str, int]]:
        """Return file and row of each of these keys with a known place."""
        at, there = places_in(self.keys, keys_from(digits))
        there[there] = self.files[at[there]] >= 0
        named, at = there.nonzero()[0].tolist(), at[there]
        places = zip(named, self.files[at].tolist(), self.rows[at].tolist(), strict=True)
        return {digits[number]: (self.names[file], row) for number, file, row in places}

    def drop(self, file: str) -> None:
        """Forget all places in this file."""
        for number, name in enumerate(self.names):
            if name == file:
                self.files[self.files == number] = -1


class KnownVectors:
    """The vectors of one embedder by the key of their input (the column `text_hash`): those of this run, and those in
    any file under the state, committed or not, whatever its stage key. So a moved document, changed settings or a lost
    database need no second embedding."""

    def __init__(self, tables: ParquetTables, table: str, embedder: str) -> None:
        self._tables, self._table, self._embedder = tables, table, embedder
        self._found: dict[str, NDArray[np.float32]] = {}
        self._places: dict[str, tuple[str, int]] = {}
        self._expected: _Places | None = None

    def keys(self) -> Iterator[Keys]:
        """Yield the keys of all vectors of this embedder, file by file."""
        for file in self._tables.files(self._table):
            seen = self._tables.peek(file, ["text_hash"]) if self._tables.exists(file) else None
            if seen is not None and seen[0] == self._embedder:
                yield sound_keys(seen[1]["text_hash"])

    def expect(self, keys: Keys) -> NDArray[np.bool_]:
        """Search all files once for these vectors; `keys` ascend. Return which of them some file has."""
        self._expected = self._look(keys)
        return self._expected.files >= 0

    def seek(self, keys: Iterable[str]) -> set[str]:
        """Search all files for a few vectors. Return the keys that are in no file and were not added."""
        wanted = set(keys) - self._found.keys()
        unknown = sorted(wanted - self._known_places(wanted).keys())
        self._places.update(self._look(keys_from(unknown)).places_of(unknown))
        return set(unknown) - self._places.keys()

    def _look(self, keys: Keys) -> _Places:
        import numpy as np

        found = _Places(keys, np.full(len(keys), -1, np.int32), np.zeros(len(keys), np.int32), [])
        left = len(keys)
        for file in self._tables.files(self._table) if left else ():
            seen = self._tables.peek(file, ["text_hash"]) if self._tables.exists(file) else None
            if seen is None or seen[0] != self._embedder:
                continue  # unreadable, or another embedder's; if committed, reading it as a table reports damage
            left -= found.take(file, sound_keys(seen[1]["text_hash"]))
            if not left:
                break
        return found

    def _known_places(self, keys: Collection[str]) -> dict[str, tuple[str, int]]:
        """Return file and row of each of these vectors with a known place."""
        known = {key: self._places[key] for key in keys if key in self._places}
        return (
            {**self._expected.places_of([key for key in keys if key not in known]), **known}
            if self._expected
            else known
        )

    def missing(self, keys: Iterable[str]) -> set[str]:
        """Return the keys without a vector; vectors that `expect` or `seek` found are read. If a file is damaged, its
        vectors are searched in other files."""
        wanted = set(keys) - self._found.keys()
        by_file: dict[str, list[tuple[str, int]]] = {}
        for key, (file, row) in self._known_places(wanted).items():
            by_file.setdefault(file, []).append((key, row))
        for file, rows in by_file.items():
            try:
                vectors = matrix(self._tables.read(file, ["vector"])["vector"].take([row for _, row in rows]))
            except DamagedFile:
                self._places = {key: place for key, place in self._places.items() if place[0] != file}
                if self._expected:
                    self._expected.drop(file)
                self.seek(key for key, _ in rows)
                return self.missing(wanted)
            self._found.update(zip((key for key, _ in rows), vectors, strict=True))
        return wanted - self._found.keys()

    def add(self, keys: Sequence[str], vectors: NDArray[np.float32]) -> None:
        # Each is a copy: a view of one vector would keep the whole batch in memory.
        self._found.update((key, vector.copy()) for key, vector in zip(keys, vectors, strict=True))

    def keep(self, rows: pa.Table, ends: Range = ALL_IDS) -> None:
        """Write vectors that are in no commit yet, so that the stage that needs them, or a later run, finds them."""
        self._tables.write(self._table, _UNFINISHED, ends, rows, {}, self._embedder)

    def unkeep(self, key: str, buckets: Collection[int], count: int) -> None:
        """Delete vectors that were kept, or imported for a stage of this key, for documents in these buckets that are
        now committed; there are `count` buckets."""
        for place in (_UNFINISHED, imported_for(key)):
            found = kept_files(self._tables, self._table, place)
            self._tables.delete(
                [name for name, ends in found.items() if ends and {*buckets} >= {*buckets_over(ends, count)}]
            )

    def rows(self, keys: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of these keys, shape (len(keys), dimension)."""
        import numpy as np

        return np.stack([self._found[key] for key in keys]) if keys else np.zeros((0, 0), dtype=np.float32)

    def forget(self, keys: Iterable[str]) -> None:
        """Free vectors that are no longer needed."""
        for key in keys:
            self._found.pop(key, None)
