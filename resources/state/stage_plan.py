"""What a stage has to do: which of its shards stand as they are, and of the others, one at a time, what is computed,
what is kept and what is let go of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.errors import IndexStateError
from pipelines.fingerprint import combined
from pipelines.fingerprint import shard_name as named
from pipelines.increments import plan
from pipelines.stages import MAKER, Stage
from resources.state.stage_work import Work, with_rows
from resources.state.standing import Previous, Standing

if TYPE_CHECKING:
    from resources.parquet.tables import ParquetTables
    from resources.postgres.catalog import ManifestRow

Commits = Mapping[str, Mapping[int, "ManifestRow"]]
"""Committed files, by table and shard."""


def input_hash(inputs: Commits, shard: int) -> str:
    """The hash of what a shard is made from."""
    return combined(rows[shard].output for rows in inputs.values())


@dataclass(frozen=True, slots=True)
class StagePlan:
    """A stage over the commits that a run of it begins with, so that a shard's plan is the same whenever it is made:
    of its `inputs`, of what it looks at besides, and of what stands of it `before`.

    `retried` are documents, by shard, that are tried again although nothing about them changed; all that failed are
    where `retry_failed` says so."""

    stage: Stage
    tables: ParquetTables
    inputs: Commits
    looked_at: Commits
    before: Previous
    retried: Mapping[int, set[str]]
    retry_failed: bool

    def require(self, shards: Iterable[int]) -> None:
        """Raises IndexStateError (`missing_input`) where what the stage reads was never made for one of them."""
        for shard in shards:
            for table, rows in (*self.inputs.items(), *self.looked_at.items()):
                if shard not in rows:
                    raise IndexStateError(
                        f"{self.stage.name}: {named(shard)} of {table} has not been made with these settings; "
                        f"materialise {MAKER[table].name} first",
                        "missing_input",
                    )

    def input(self, shard: int) -> str:
        return input_hash(self.inputs, shard)

    def standing(self, shard: int) -> ManifestRow | None:
        """The commit of a shard that stands as it is; None where there is something to do to it."""
        before = self.before.first.get(shard)
        if self.retry_failed or shard in self.retried or not isinstance(before, Standing):
            return None
        return before.row if before.input == self.input(shard) else None

    def most(self, shard: int) -> int | None:
        """How many documents of a shard that was never made are computed, as far as none of them failed in its inputs;
        None of one of which some may be kept."""
        if shard in self.before.first:
            return None
        return min(rows[shard].documents for rows in self.inputs.values())

    def work(self, shard: int) -> Work:
        """What is to be done to a shard."""
        before = self.before.first.get(shard)
        known = before.documents() if before else None
        retried = self.retried.get(shard, set())
        if self.retry_failed and known:
            retried = retried.union(doc_id for doc_id, state in known.items() if state.failed is not None)
        states = {table: with_rows(self.tables.documents(rows[shard].file)) for table, rows in self.inputs.items()}
        todo = plan(states, known, retried)
        files = {table: rows[shard].file for table, rows in (*self.inputs.items(), *self.looked_at.items())}
        last = {table: rows[shard] for table, rows in self.before.tables.items() if shard in rows}
        return Work(
            self.stage, shard, todo.compute, files, self.tables, last, todo.reasons, todo.gone, kept=len(todo.keep)
        )
