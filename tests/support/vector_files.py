"""Files of vectors that are read in the process of the test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from resources.exchange.reader import Unfit, VectorRows
from resources.exchange.vector_file import VectorFile
from resources.workers.frames import decode, encode

if TYPE_CHECKING:
    import pyarrow as pa


class VectorFileHere(VectorFile):
    """A file of vectors without its reader process, whose start takes longer than a small file is read.

    The rows are read by the reader's own code. tests/unit/resources/exchange/test_vector_file.py holds the process."""

    def __enter__(self) -> VectorFileHere:
        try:
            self._reader = VectorRows(self._stream, self._dimension)
            self.head = self._reader.head
        except Unfit as error:
            raise self.unfit(error.code, str(error), error.row) from None
        return self

    def _ask(self, what: str, schema: pa.Schema) -> Iterator[tuple[int, dict[str, Any], pa.Table]]:
        try:
            for value, table in self._reader.keys() if what == "keys" else self._reader.rows():
                said = {name: each for name, each in value.items() if isinstance(each, list)}
                yield value["first"], said, decode(encode(table), schema, cleaned=False)
        except Unfit as error:
            raise self.unfit(error.code, str(error), error.row) from None
