"""Vectors known by (embedder, exact text): what has been embedded is not embedded again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.fingerprint import text_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from resources.catalog import Catalog
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
    """Vectors of one embedder for one run, and those of committed tables made with it, whatever
    their key: a document that moved or settings that changed cost no second embedding."""

    def __init__(self, tables: ParquetTables, catalog: Catalog, table: str, embedder: str) -> None:
        self._tables, self._catalog, self._table, self._embedder = tables, catalog, table, embedder
        self._found: dict[str, NDArray[np.float32]] = {}
        self._files: list[str] | None = None
        self.reused = 0
        self.embedded = 0

    def missing(self, texts: Sequence[str]) -> list[str]:
        """Which of these texts must be embedded; committed tables are searched for the others."""
        hashes = {text: text_hash(text) for text in texts}
        wanted = {value for value in hashes.values() if value not in self._found}
        if wanted:
            self._search(wanted)
        fresh = [text for text in texts if hashes[text] not in self._found]
        self.reused += len(texts) - len(fresh)
        return fresh

    def _search(self, wanted: set[str]) -> None:
        import numpy as np

        if self._files is None:
            files = self._catalog.files_of(self._table)
            self._files = [file for file in files if self._tables.note(file) == self._embedder]
        for file in self._files:
            hashes = self._tables.read(file, ["text_hash"])["text_hash"].to_pylist()
            rows = [row for row, value in enumerate(hashes) if value in wanted]
            if not rows:
                continue
            values = matrix(self._tables.read(file, ["vector"])["vector"])
            for row in rows:
                self._found[hashes[row]] = np.array(values[row], dtype=np.float32)
                wanted.discard(hashes[row])
            if not wanted:
                return

    def add(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        self.embedded += len(texts)
        for text, vector in zip(texts, vectors, strict=True):
            self._found[text_hash(text)] = vector

    def vector(self, text: str) -> NDArray[np.float32]:
        return self._found[text_hash(text)]
