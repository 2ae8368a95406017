"""Vectors known by (embedder, exact text): what has been embedded is not embedded again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.fingerprint import text_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from resources.parquet_tables import ParquetTables


def matrix(column: Any) -> NDArray[np.float32]:
    """An Arrow column of vectors as shape (rows, dimension), without a Python float."""
    import numpy as np

    rows = len(column)
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(rows, -1) if rows else np.zeros((0, 0), dtype=np.float32)


def vectors_of(tables: ParquetTables, file: str, doc_ids: Collection[str]) -> dict[str, dict[str, NDArray[np.float32]]]:
    """Vectors of some documents of one file: doc_id to item id to shape (dimension,)."""
    read = tables.read(file, ["doc_id", "item_id", "vector"])
    values = matrix(read["vector"])
    found: dict[str, dict[str, NDArray[np.float32]]] = {doc_id: {} for doc_id in doc_ids}
    for row, (doc_id, item) in enumerate(zip(read["doc_id"].to_pylist(), read["item_id"].to_pylist(), strict=True)):
        if doc_id in found:
            found[doc_id][item] = values[row]
    return found


class KnownVectors:
    """Vectors of one embedder: those of this run, and those that any file under the state holds, whatever
    its key and whether or not it was committed. So a document that moved, settings that changed and a
    database that was lost cost no second embedding."""

    def __init__(self, tables: ParquetTables, table: str, embedder: str) -> None:
        self._tables, self._table, self._embedder = tables, table, embedder
        self._found: dict[str, NDArray[np.float32]] = {}
        self._places: dict[str, tuple[str, int]] = {}
        self.reused = 0
        self.embedded = 0

    def seek(self, texts: Collection[str]) -> None:
        """Looks once through all files for those that hold vectors of these texts."""
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = {text_hash(text) for text in texts} - self._places.keys()
        for file in self._tables.files(self._table) if wanted else ():
            try:
                if self._tables.note(file) != self._embedder:
                    continue
                hashes = self._tables.read(file, ["text_hash"])["text_hash"]
            except pa.ArrowInvalid:
                continue  # no whole file; if it was committed, reading it as a table says so
            rows = pc.indices_nonzero(pc.is_in(hashes, pa.array(sorted(wanted), pa.string()))).to_pylist()
            self._places.update((hashes[row].as_py(), (file, row)) for row in rows)
            wanted -= self._places.keys()
            if not wanted:
                return

    def missing(self, texts: Sequence[str]) -> list[str]:
        """Which of these texts must be embedded; the vectors of those that were found are read."""
        hashes = {text: text_hash(text) for text in texts}
        by_file: dict[str, list[tuple[str, int]]] = {}
        for value in hashes.values():
            if value not in self._found and value in self._places:
                file, row = self._places[value]
                by_file.setdefault(file, []).append((value, row))
        for file, rows in by_file.items():
            vectors = matrix(self._tables.read(file, ["vector"])["vector"].take([row for _, row in rows]))
            self._found.update(zip((value for value, _ in rows), vectors, strict=True))
        fresh = [text for text in texts if hashes[text] not in self._found]
        self.reused += len(texts) - len(fresh)
        return fresh

    def add(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        self.embedded += len(texts)
        for text, vector in zip(texts, vectors, strict=True):
            self._found[text_hash(text)] = vector

    def vector(self, text: str) -> NDArray[np.float32]:
        return self._found[text_hash(text)]
