"""A table of a state under its present settings: the committed files, and what is in them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError
from pipelines.stages import MAKER, WHOLE

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.postgres.catalog import ManifestRow
    from resources.state.stage_runner import StageRunner


class Table:
    """The committed buckets of a table; each method looks at the manifest as it is then."""

    def __init__(self, name: str, runner: StageRunner, buckets: Collection[int] | None = None) -> None:
        """`buckets` are those that are looked at; all that there are where none are named."""
        self._name, self._runner, self._buckets = name, runner, buckets

    def commits(self) -> dict[int, ManifestRow]:
        """By bucket; one whose file is gone was never made."""
        return self._runner.manifest(self._name)

    def commit(self, bucket: int) -> ManifestRow:
        """Raises IndexStateError (`missing_input`) where the bucket was never made."""
        return committed(self._name, bucket, self.commits())

    def read(self, bucket: int, columns: Sequence[str] | None = None) -> pa.Table:
        """A bucket's rows. Raises IndexStateError where it was never made, or its file is damaged."""
        return self._runner.tables.read(self.commit(bucket).file, columns)

    def values(self, bucket: int, column: str) -> list[Any]:
        """One column of a bucket."""
        found: list[Any] = self.read(bucket, [column])[column].to_pylist()
        return found

    def column(self, name: str) -> list[Any]:
        """One column of all buckets that were made."""
        tables, own = self._runner.tables, self._buckets
        files = [row.file for bucket, row in self.commits().items() if own is None or bucket in own]
        return [value for file in files for value in tables.read(file, [name])[name].to_pylist()]


def committed(table: str, bucket: int, commits: dict[int, ManifestRow]) -> ManifestRow:
    """The commit of a bucket; raises IndexStateError (`missing_input`) where it was never made."""
    if bucket not in commits:
        part = table if bucket == WHOLE else f"bucket {bucket:02d} of {table}"
        raise IndexStateError(
            f"{part} has not been made with these settings; materialise {MAKER[table].name} first", "missing_input"
        )
    return commits[bucket]
