"""What is written of one bucket into a generation's tables: planned and handed over shard by shard, so that no more
than a shard's documents are held."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipelines.fingerprint import bucket_of
from resources.stages.shard_rows import ShardRows, read_shard, regrouped

if TYPE_CHECKING:
    from resources.parquet.tables import ParquetTables
    from resources.postgres.catalog import ManifestRow
    from resources.postgres.generation_tables import GenerationTables
    from resources.postgres.index_rows import IndexedDocument

Commits = Mapping[int, Mapping[str, "ManifestRow"]]
"""Of each shard to look at, the commits of INPUTS and TERMS."""


@dataclass
class BucketWrite:
    """`stands` are the hashes of the documents that are there of these shards; with `whole` none of them counts."""

    tables: ParquetTables
    commits: Commits
    stands: Mapping[str, str]
    whole: bool
    changed: dict[int, list[str]] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    held: set[str] = field(default_factory=set)
    regrouped: dict[str, tuple[str, ...]] = field(default_factory=dict)
    documents: dict[int, int] = field(default_factory=dict)
    """How many documents each shard has that can be served."""
    chunks: int = 0
    _last: tuple[int, ShardRows] | None = None

    def plan(self, index: GenerationTables) -> None:
        """Finds what has to go or to be kept before anything is written; where nothing stands, nothing has."""
        known, left = {} if self.whole else self.stands, set(self.stands)
        for shard in self.commits if self.stands else ():
            found = self._read(shard)
            self.changed[shard] = [doc_id for doc_id, value in found.hashes.items() if known.get(doc_id) != value]
            self.documents[shard] = len(found.hashes)
            left -= found.hashes.keys() | found.held
            held = found.held & self.stands.keys()
            self.held |= held
            if held:
                self.regrouped |= regrouped(found, held, index.document_groups(min(held), max(held) + "0"))
        self.gone = [] if self.whole else sorted(left)

    def batches(self) -> Iterator[Sequence[IndexedDocument]]:
        """The documents to write, a shard's at a time."""
        for shard in self.commits:
            if self.stands and not self.changed[shard]:
                continue
            found = self._read(shard)
            changed = self.changed.setdefault(shard, list(found.hashes))
            self.documents[shard] = len(found.hashes)
            documents = found.documents(changed)
            self.chunks += sum(len(document.chunks) for document in documents)
            yield documents

    def _read(self, shard: int) -> ShardRows:
        if self._last is None or self._last[0] != shard:
            self._last = None
            self._last = shard, read_shard(self.tables, self.commits[shard])
        return self._last[1]

    @property
    def written(self) -> int:
        """How many documents were written."""
        return sum(map(len, self.changed.values()))


def standing_of(stands: Mapping[str, str], shards: Collection[int], count: int) -> dict[str, str]:
    """Those of a bucket's documents that are in these of `count` shards."""
    return {doc_id: value for doc_id, value in stands.items() if bucket_of(doc_id, count) in shards}
