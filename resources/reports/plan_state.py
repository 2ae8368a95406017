"""A state that a plan may write to: what it writes covers what is there, and goes away with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pipelines.fingerprint import bucket_of
from pipelines.records import Failure
from pipelines.settings.sources import SourceSettings
from resources.parquet.files import Files
from resources.parquet.tables import ParquetTables
from resources.postgres.catalog import GenerationRow, ManifestRow, SourceRow, source_moved
from resources.sources.book import Listed, SourceBook

if TYPE_CHECKING:
    from resources.postgres.catalog import Catalog


class PlannedTables(ParquetTables):
    """Reads the state's files and its own; writes only its own, into a folder that goes away."""

    def __init__(self, files: Files, own: str) -> None:
        super().__init__(files)
        self._own = ParquetTables(own)
        self._written: set[str] = set()

    def write(self, *arguments: Any, **named: Any) -> str:
        file = self._own.write(*arguments, **named)
        self._written.add(file)
        return file

    def _open(self, file: str) -> Any:
        return self._own._open(file) if file in self._written else super()._open(file)

    def exists(self, file: str) -> bool:
        return file in self._written or super().exists(file)


class PlannedSources(SourceBook):
    """Brings what changed, so that its content can be looked at, and removes nothing."""

    def settle(self, names: Sequence[str]) -> None:
        """What is gone is still served."""

    def keep_memberships(self, listed: Listed, whole: bool = True) -> None:
        """Nor does anybody join or leave."""

    def _clock(self, sources: Sequence[SourceSettings]) -> datetime | None:
        return None


class PlannedCatalog:
    """What the state's catalog says, and over it what a plan would have written; all of it empty where
    there is no state yet."""

    def __init__(self, catalog: Catalog | None, buckets: int) -> None:
        self._catalog, self._buckets, self._layouts = catalog, buckets, dict[int, int]()
        self._settled: int | None = None
        self._sources: dict[str, SourceRow] = {}
        self._commits: dict[tuple[str, str, int], ManifestRow] = {}
        self._failures: dict[tuple[str, int], list[Failure]] = {}

    def sources(self) -> list[SourceRow]:
        known = {row.name: row for row in (self._catalog.sources() if self._catalog else ())}
        return list({**self._sources, **known}.values())

    def remember_source(self, name: str, root: str, settings: Mapping[str, Any]) -> None:
        known = next((row for row in self.sources() if row.name == name), None)
        if known and known.root != root:
            raise source_moved(name, known.root, root)
        self._sources[name] = SourceRow(name, root, settings, datetime.now(UTC), None)

    def lost_files(self) -> dict[str, dict[str, str]]:
        return self._catalog.lost_files() if self._catalog else {}

    def remember_lost(self, name: str, lost: Mapping[str, str]) -> None:
        """Keeps nothing."""

    def manifest_of(self, table: str, key: str, shards: Collection[int] | None = None) -> dict[int, ManifestRow]:
        found = self._catalog.manifest_of(table, key, shards) if self._catalog else {}
        own = {shard: row for (name, under, shard), row in self._commits.items()
               if (name, under) == (table, key) and (shards is None or shard in shards)}  # fmt: skip
        return {**found, **own}

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
        kept = [item for item in self.failures([key]) if item.doc_id in keep_failures_of and self._in(item, shard)]
        self._failures[key, shard] = [*kept, *failures]
        self._commits.update({(row.table, row.key, row.bucket): row for row in rows})

    def failures(self, keys: Collection[str]) -> list[Failure]:
        found = []
        for key in keys:
            before = self._catalog.failures([key]) if self._catalog else []
            found += [item for item in before if (key, self._shard_of(item)) not in self._failures]
        found += [item for (key, _), items in self._failures.items() if key in keys for item in items]
        return sorted(found, key=attrgetter("source", "uri", "stage"))

    def _in(self, item: Failure, shard: int) -> bool:
        return self._shard_of(item) == shard

    def _shard_of(self, item: Failure) -> int:
        return bucket_of(item.doc_id, self._buckets * self.shards(self._buckets))

    def shards(self, buckets: int) -> int:
        before = self._catalog.shards(buckets) if self._catalog else 1
        return max(before, self._layouts.get(buckets, 1))

    def keep_layout(self, buckets: int, shards: int) -> None:
        self._layouts[buckets] = shards

    def settle_layout(self, buckets: int, shards: int) -> None:
        self.keep_layout(buckets, shards)
        self._settled = buckets * shards

    def last_layout(self) -> int | None:
        return self._settled or (self._catalog.last_layout() if self._catalog else None)

    def layouts(self) -> set[int]:
        own = {buckets * shards for buckets, shards in self._layouts.items()}
        return own | (self._catalog.layouts() if self._catalog else set())

    def live(self) -> GenerationRow | None:
        return self._catalog.live() if self._catalog else None

    def generations(self) -> list[GenerationRow]:
        return self._catalog.generations() if self._catalog else []

    def generation(self, number: int) -> GenerationRow | None:
        return self._catalog.generation(number) if self._catalog else None

    def find_generation(self, key: str) -> GenerationRow | None:
        return self._catalog.find_generation(key) if self._catalog else None

    def held(self) -> bool:
        return self._catalog.held() if self._catalog else False

    def files_under(self, keys: Collection[str]) -> set[str]:
        return self._catalog.files_under(keys) if self._catalog else set()

    def create_generation(
        self,
        key: str,
        settings: Mapping[str, Any],
        embedder: Mapping[str, Any],
        dimension: int,
        statistics: Mapping[str, Any],
        keys: Mapping[str, str],
    ) -> GenerationRow:
        now = datetime.now(UTC)
        return GenerationRow(
            0, key, settings, embedder, dimension, statistics, None, now, None, None, keys, None
        )  # fmt: skip
