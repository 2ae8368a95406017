"""Commits and files that are held in memory and gone with their object: for trial runs, and for tests of stages.

Both stand behind the engine in place of Postgres and of a folder. Commits may be laid over those of a real catalog,
which is only read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resources.engine.files import Harmed, Listed, content_of
from resources.hashes import bytes_hash

if TYPE_CHECKING:
    from pipelines.records import Failure
    from resources.postgres.catalog import Catalog, ManifestRow


class MemoryManifest:
    """Commits and failures; implements Manifest. If a catalog `under` is given, its own hold until they are replaced
    here. `shard_of` returns the shard of a document's id."""

    def __init__(self, under: Catalog | None = None, shard_of: Callable[[str], int] = lambda doc_id: 0) -> None:
        self._under, self._shard = under, shard_of
        self._commits: dict[tuple[str, str, int], ManifestRow] = {}
        self._failures: dict[tuple[str, int], list[Failure]] = {}

    def manifest_of(self, table: str, key: str, shards: Collection[int] | None = None) -> dict[int, ManifestRow]:
        """Return the commits of a table under one key, by shard; only these shards if they are named."""
        found = self._under.manifest_of(table, key, shards) if self._under else {}
        own = {shard: row for (name, under, shard), row in self._commits.items()
               if (name, under) == (table, key) and (shards is None or shard in shards)}  # fmt: skip
        return dict(sorted({**found, **own}.items()))

    def commit(
        self,
        rows: Sequence[ManifestRow],
        stage: str,
        key: str,
        shard: int,
        failures: Sequence[Failure] = (),
        keep_failures_of: Collection[str] = (),
        bucket: int | None = None,
    ) -> None:
        """Commit as Catalog.commit does."""
        before = (item for item in self.failures([key]) if self._shard(item.doc_id) == shard)
        kept = [item for item in before if item.doc_id in keep_failures_of]
        self._failures[key, shard] = [*kept, *failures]
        self._commits.update({(row.table, row.key, row.bucket): row for row in rows})

    def commit_shards(
        self, rows: Sequence[ManifestRow], stage: str, key: str, shards: Sequence[int], bucket: int | None
    ) -> None:
        """Commit as Catalog.commit_shards does."""
        for shard in shards:
            self.commit([row for row in rows if row.bucket == shard], stage, key, shard)

    def failures(self, keys: Collection[str]) -> list[Failure]:
        """Return all failures that still hold under these keys of stages, by source and uri."""
        found = []
        for key in keys:
            before = self._under.failures([key]) if self._under else []
            found += [item for item in before if (key, self._shard(item.doc_id)) not in self._failures]
        found += [item for (key, _), items in self._failures.items() if key in keys for item in items]
        return sorted(found, key=attrgetter("source", "uri", "stage"))

    def files_under(self, keys: Collection[str]) -> set[str]:
        """Return the committed files of these keys."""
        found = self._under.files_under(keys) if self._under else set()
        return found | {row.file for row in self._commits.values() if row.key in keys}

    def last_layout(self) -> int | None:
        """Return among how many shards the sources were listed last; None if it is not known."""
        return self._under.last_layout() if self._under else None

    def layouts(self) -> set[int]:
        """Return the total numbers of shards among which tables were divided."""
        return self._under.layouts() if self._under else set()


class MemoryFiles:
    """Files by name; implements Files."""

    shown = "memory"

    def __init__(self) -> None:
        self._files: dict[str, tuple[int, bytes]] = {}

    def put(self, name: str, data: Any) -> None:
        self._files[name] = time.monotonic_ns(), bytes(data)

    def open(self, name: str) -> Any:
        import pyarrow as pa

        if name not in self._files:
            raise FileNotFoundError(name)
        if not self.intact(name):
            raise Harmed
        return pa.BufferReader(self._files[name][1])

    def glance(self, name: str) -> Any:
        return self.open(name)

    def place(self, name: str) -> Path:
        """Raise FileNotFoundError, since the file is on no disk."""
        raise FileNotFoundError(name)

    def exists(self, name: str) -> bool:
        return name in self._files

    def survey(self) -> None:
        """Do nothing: a look costs little."""

    def intact(self, name: str) -> bool:
        return name in self._files and bytes_hash(self._files[name][1]) == content_of(name)

    def listed(self, below: str) -> list[Listed]:
        named = sorted(self._files.items(), key=lambda item: -item[1][0])
        return [(name, len(data)) for name, (_, data) in named if name.startswith(below)]

    def written(self, below: str) -> list[Listed]:
        return self.listed(below)

    def delete(self, names: Collection[str]) -> None:
        for name in names:
            self._files.pop(name, None)
