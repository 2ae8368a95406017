"""What the files of all sources held when they were listed last; read only where somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipelines.fingerprint import document_id
from resources.sources.scratch import Scratch

if TYPE_CHECKING:
    import pyarrow as pa

KNOWN = ("doc_id", "source", "content_hash", "groups")
"""Columns of what is known of a document."""


class KnownContents:
    """`read` gives all that were listed, some at a time, with columns KNOWN."""

    def __init__(self, read: Callable[[], Iterable[pa.Table]]) -> None:
        self._read = read

    def of(self, source: str, lost: Mapping[str, str]) -> ContentsOf:
        """Those of a source; `lost` are of files that are gone, where a side-car is left of them."""
        return ContentsOf(self, source, lost)

    def one(self, doc_id: str) -> tuple[str, bool] | None:
        """What a document held, and whether it named groups of its own."""
        found = self._noted.run("content", doc_id)
        return (found[0][0], bool(found[0][1])) if found else None

    @cached_property
    def _noted(self) -> Scratch:
        noted = Scratch("contents")
        for read in self._read():
            noted.write("add_content", _rows(read))
        return noted


def _rows(read: pa.Table) -> Iterator[tuple[Any, ...]]:
    columns = (read[name].to_pylist() for name in ("doc_id", "content_hash", "groups"))
    return ((doc_id, content, bool(groups)) for doc_id, content, groups in zip(*columns, strict=True))


@dataclass(frozen=True, slots=True)
class ContentsOf:
    """Contents of a source's files by uri."""

    known: KnownContents
    source: str
    lost: Mapping[str, str]

    def get(self, uri: str) -> str | None:
        found = self.known.one(document_id(self.source, uri))
        return found[0] if found else self.lost.get(uri)

    @property
    def restricted(self) -> Container[str]:
        """Files that named groups of their own."""
        return _Restricted(self)


@dataclass(frozen=True, slots=True)
class _Restricted:
    contents: ContentsOf

    def __contains__(self, uri: object) -> bool:
        found = self.contents.known.one(document_id(self.contents.source, str(uri)))
        return bool(found and found[1])
