"""A table of a state under its present settings: the committed files, and what is in them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError
from pipelines.fingerprint import shard_name as named
from pipelines.stages import MAKER, WHOLE

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.postgres.catalog import ManifestRow
    from resources.state.stage_runner import StageRunner


class Table:
    """The committed shards of a table; each method looks at the manifest as it is then."""

    def __init__(self, name: str, runner: StageRunner, shards: Collection[int] | None = None) -> None:
        """`shards` are those that are looked at; all that there are where none are named."""
        self._name, self._runner, self._shards = name, runner, shards

    def commits(self, shards: Collection[int] | None = None) -> dict[int, ManifestRow]:
        """By shard; one whose file is gone was never made. Of these where they are named."""
        return self._runner.manifest(self._name, shards)

    def commit(self, shard: int) -> ManifestRow:
        """Raises IndexStateError (`missing_input`) where the shard was never made."""
        return committed(self._name, shard, self.commits([shard]))

    def read(self, shard: int, columns: Sequence[str] | None = None) -> pa.Table:
        """A shard's rows. Raises IndexStateError where it was never made, or its file is damaged."""
        return self._runner.tables.read(self.commit(shard).file, columns)

    def pieces(self, columns: Sequence[str], shards: Collection[int] | None = None) -> Iterator[pa.Table]:
        """Columns of these shards, one after the other; of all that are looked at and were made where none are
        named."""
        wanted = self._shards if shards is None else shards
        for row in self.commits(wanted).values():
            yield self._runner.tables.read(row.file, columns)

    def values(self, shard: int, column: str) -> list[Any]:
        """One column of a shard."""
        found: list[Any] = self.read(shard, [column])[column].to_pylist()
        return found

    def column(self, name: str) -> list[Any]:
        """One column of all shards that were made."""
        return [value for read in self.pieces([name]) for value in read[name].to_pylist()]


def committed(table: str, shard: int, commits: dict[int, ManifestRow]) -> ManifestRow:
    """The commit of a shard; raises IndexStateError (`missing_input`) where it was never made."""
    if shard not in commits:
        part = table if shard == WHOLE else f"{named(shard)} of {table}"
        raise IndexStateError(
            f"{part} has not been made with these settings; materialise {MAKER[table].name} first", "missing_input"
        )
    return commits[shard]
