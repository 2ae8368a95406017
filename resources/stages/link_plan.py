"""Which documents' sentences are as they were for the last links, told by the states beside them, in columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipelines.increments import FIRST, PART, DocumentState, plan
from pipelines.indexing.changed_links import places_in
from resources.parquet.tables import DOC_ID, as_states, states_schema, states_table
from resources.stages.link_update import ids_of
from resources.threads import read_ahead

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.parquet.tables import ParquetTables
    from resources.postgres.catalog import ManifestRow

Made = Mapping[str, Mapping[int, "ManifestRow"]]
"""The committed shards of the tables that links are made from."""


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """`changed` are documents to compare anew, with why; `kept` the states of the others, in columns."""

    changed: Mapping[str, str]
    reasons: Mapping[str, str]
    gone: int
    kept: pa.Table

    def states(self, run_id: str) -> pa.Table:
        """Of all documents, as they stand beside the new links."""
        import pyarrow as pa

        at = datetime.now(UTC).isoformat(timespec="seconds")
        fresh = {doc_id: DocumentState(wanted, "", None, run_id, at, self.reasons[doc_id])
                 for doc_id, wanted in self.changed.items()}  # fmt: skip
        return pa.concat_tables([self.kept, states_table(fresh)]).sort_by(DOC_ID)


def link_plan(tables: ParquetTables, made: Made, before: ManifestRow | None) -> LinkPlan:
    """What pipelines.increments.plan says; a state is made only for a document that changed."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    first = next(iter(made))
    last = tables.states(before.file) if before else states_schema().empty_table()
    last_ids, last_wanted = ids_of(last[DOC_ID]), pc.coalesce(last["failed"], last["fingerprint"])
    there, first_made = np.zeros(len(last_ids), dtype=bool), dict[str, str]()
    changed: dict[str, dict[str, DocumentState]] = {table: {} for table in made}

    def read(shard: int) -> Iterator[dict[str, pa.Table]]:
        yield {table: _with_rows(tables.states(made[table][shard].file)) for table in made}

    for states in read_ahead(list(made[first]), read):
        ids = states[first][DOC_ID].combine_chunks()
        for table in made:
            ids = ids.filter(pc.is_in(ids, states[table][DOC_ID].combine_chunks()))
        at = {table: pc.index_in(ids, rows[DOC_ID].combine_chunks()) for table, rows in states.items()}
        parts = [pc.utf8_slice_codeunits(rows["output"].take(at[table]), 0, PART) for table, rows in states.items()]
        wanted = pc.binary_join_element_wise(*parts, ".")
        if before is None:
            first_made.update(zip(ids.to_pylist(), wanted.to_pylist(), strict=True))
            continue
        places, known = places_in(last_ids, ids_of(ids))
        there[places[known]] = True
        same = pc.equal(last_wanted.take(pa.array(places, mask=~known)), wanted).combine_chunks()
        other = pc.invert(pc.fill_null(same, False))
        for table, rows in states.items():
            changed[table].update(as_states(rows.take(at[table].filter(other))))
    if before is None:
        return LinkPlan(first_made, dict.fromkeys(first_made, FIRST), 0, last)
    moved = pc.is_in(last[DOC_ID], pa.array(list(changed[first]), pa.string())).to_numpy()
    todo = plan(changed, as_states(last.filter(pa.array(moved))))
    kept = last.filter(pa.array(there & ~moved))
    return LinkPlan(todo.compute, todo.reasons, last.num_rows - int(there.sum()), kept)


def _with_rows(states: pa.Table) -> pa.Table:
    """Of documents that have a result, now or from their last good version."""
    import pyarrow.compute as pc

    return states.filter(pc.not_equal(states["output"], ""))
