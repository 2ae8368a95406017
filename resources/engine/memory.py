"""Commits and files in memory, for trial runs and for tests of stages.

The engine uses them instead of Postgres and a folder. Commits may extend those of a real catalog, which is only read.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resources.engine.files import Harmed, Listed, content_of
from resources.hashes import bytes_hash
from resources.postgres.catalog import rest

if TYPE_CHECKING:
    from pipelines.ranges import Range
    from pipelines.records import Failure
    from resources.postgres.catalog import Catalog, ManifestRow


class MemoryManifest:
    """Commits and failures; implements Manifest. The commits of a catalog `under` are valid until they are replaced
    here."""

    def __init__(self, under: Catalog | None = None) -> None:
        self._under = under
        self._commits: dict[tuple[str, str], list[ManifestRow]] = {}
        self._failures: dict[tuple[str, str], list[Failure]] = {}

    def manifest_of(self, table: str, key: str) -> list[ManifestRow]:
        """Return the commits of a table under one key, in order of their ranges."""
        if (found := self._commits.get((table, key))) is not None:
            return list(found)
        return self._under.manifest_of(table, key) if self._under else []

    def manifests_of(self, keys: Mapping[str, str]) -> dict[str, list[ManifestRow]]:
        """Return the same of several tables, each with its key, by table."""
        return {table: self.manifest_of(table, key) for table, key in keys.items()}

    def commit(
        self,
        rows: Sequence[ManifestRow],
        stage: str,
        key: str,
        over: Sequence[Range],
        failures: Sequence[Failure] = (),
        keep_failures_of: Collection[str] = (),
        bucket: int | None = None,
    ) -> None:
        """Commit as Catalog.commit does."""
        before = [item for item in self.failures([key]) if item.stage == stage]
        keep = {*keep_failures_of} - {item.doc_id for item in failures}
        stay = [item for item in before if item.doc_id in keep or not _is_among(item.doc_id, over)]
        replaced = {item.doc_id for item in failures}
        self._failures[stage, key] = [*(item for item in stay if item.doc_id not in replaced), *failures]
        for table in {row.table for row in rows}:
            left = self.manifest_of(table, key)
            for ends in over:
                left = rest(left, ends)
            own = [*left, *(row for row in rows if row.table == table)]
            self._commits[table, key] = sorted(own, key=attrgetter("first"))

    def failures(self, keys: Collection[str]) -> list[Failure]:
        """Return all current failures under these keys of stages, by source and uri."""
        found = []
        for key in keys:
            before = self._under.failures([key]) if self._under else []
            found += [item for item in before if (item.stage, key) not in self._failures]
        found += [item for (_, key), items in self._failures.items() if key in keys for item in items]
        return sorted(found, key=attrgetter("source", "uri", "stage"))

    def files_under(self, keys: Collection[str]) -> set[str]:
        """Return the committed files of these keys."""
        found = self._under.files_under(keys) if self._under else set()
        return found | {row.file for rows in self._commits.values() for row in rows if row.key in keys}


def _is_among(doc_id: str, ranges: Iterable[Range]) -> bool:
    return any(first <= doc_id < after for first, after in ranges)


class MemoryFiles:
    """Files by name; implements Files."""

    shown = "memory"

    def __init__(self) -> None:
        self._files: dict[str, tuple[int, bytes]] = {}

    def put(self, name: str, data: Any) -> None:
        self._files[name] = time.monotonic_ns(), bytes(data)

    def open(self, name: str) -> Any:
        import pyarrow as pa

        self.check(name)
        return pa.BufferReader(self._files[name][1])

    def check(self, name: str) -> None:
        if name not in self._files:
            raise FileNotFoundError(name)
        if not self.intact(name):
            raise Harmed

    def glance(self, name: str) -> Any:
        return self.open(name)

    def place(self, name: str) -> Path:
        """Raise FileNotFoundError, since the file is on no disk."""
        raise FileNotFoundError(name)

    def exists(self, name: str) -> bool:
        return name in self._files

    def survey(self) -> None:
        """Do nothing, since a look is cheap."""

    def intact(self, name: str) -> bool:
        return name in self._files and bytes_hash(self._files[name][1]) == content_of(name)

    def list_files(self, below: str) -> list[Listed]:
        named = sorted(self._files.items(), key=lambda item: -item[1][0])
        return [(name, len(data)) for name, (_, data) in named if name.startswith(below)]

    def list_own(self, below: str) -> list[Listed]:
        return self.list_files(below)

    def delete(self, names: Collection[str]) -> None:
        for name in names:
            self._files.pop(name, None)
