"""The plan of links in columns, beside that of records."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.increments import DocumentState, plan
from pipelines.ranges import ALL_IDS, bucket_range
from pipelines.records import DocumentSummary, SentenceLink
from pipelines.schemas import to_table
from resources.engine import Part
from resources.engine.committed import StoredRows, with_rows
from resources.engine.tables import ParquetTables, as_states
from resources.postgres.catalog import ManifestRow
from resources.stages.sentence_links import link_plan

TABLES = ("sentences", "sentence_embeddings")
OUTPUTS = st.sampled_from(["", "0123456789abcdefg", "0123456789abcdefh", "fedcba9876543210f"])
"""None is that of a document that failed; two are alike as far as a fingerprint shows."""
DOCUMENTS = st.dictionaries(st.sampled_from("abcdef"), OUTPUTS, max_size=6)
WORLD = st.lists(st.tuples(DOCUMENTS, DOCUMENTS), min_size=1, max_size=3)
"""Of each bucket the outputs of both tables."""


def committed(
    tables: ParquetTables, world: list[tuple[dict[str, str], dict[str, str]]]
) -> dict[str, dict[int, ManifestRow]]:
    made: dict[str, dict[int, ManifestRow]] = {table: {} for table in TABLES}
    for bucket, outputs in enumerate(world):
        ends = bucket_range(bucket, 16)
        for table, own in zip(TABLES, outputs, strict=True):
            states = {f"{bucket}{name}": DocumentState("from", output) for name, output in own.items()}
            file = tables.write(table, "key", ends, to_table(DocumentSummary, []), states)
            made[table][bucket] = ManifestRow(table, "key", *ends, file, True, "", "", 0, 0)
    return made


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(WORLD, min_size=1, max_size=3))
def test_it_is_what_the_plan_of_records_is(
    tmp_path: Path, worlds: list[list[tuple[dict[str, str], dict[str, str]]]]
) -> None:
    tables, before, row = ParquetTables(str(tmp_path)), None, None
    for world in worlds:
        made = committed(tables, world)
        now: dict[str, dict[str, DocumentState]] = {table: {} for table in TABLES}
        for table, rows in made.items():
            for found_row in rows.values():
                now[table].update(with_rows(tables.documents(found_row.file)))
        parts = [
            Part(
                number,
                *bucket_range(number, 16),
                {table: StoredRows(tables, table, [rows[number]]) for table, rows in made.items()},
            )
            for number in range(len(world))
        ]
        own = {"sentence_links": StoredRows(tables, "sentence_links", [row])} if row else {}
        last = Part(-1, *ALL_IDS, own) if row else None
        wanted, found = plan(now, before), link_plan(parts, last)
        assert (dict(found.changed), dict(found.reasons)) == (wanted.compute, wanted.reasons)
        assert (as_states(found.kept), found.gone) == (wanted.keep, len(wanted.gone))
        states = found.states("run")
        assert set(as_states(states)) == wanted.compute.keys() | wanted.keep.keys()
        file = tables.write("sentence_links", "key", ALL_IDS, to_table(SentenceLink, []), states)
        row = ManifestRow("sentence_links", "key", *ALL_IDS, file, True, "", "", 0, 0)
        before = tables.documents(file)
