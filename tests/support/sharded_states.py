"""The catalog of a state as versions before migration 19 left it: by numbers of shards, which are in the keys too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pipelines.fingerprint import document_id, fingerprint
from pipelines.settings.base import Settings, settings_from
from pipelines.stages import STAGES, UNPARTITIONED, Frozen
from resources.postgres.document_ranges import (
    KeyInputs,
    Recorded,
    RecordedFailure,
    ShardCommit,
    ShardedCatalog,
    sharded_chunking_key,
    sharded_generation_key,
    sharded_keys,
)

MODELS = Frozen(embedder="any preset", static="static 1", sentence_models="sentences 1")
"""The models that are installed."""
FLOORS = {"en": 0.4}
DOCUMENTS = sorted(document_id("docs", f"{number}.txt") for number in range(60))
TEXT_STAGES = ("raw_documents", "parsed_elements", "figure_descriptions", "structural_chunks", "packed_chunks")
"""Stages that a run makes before it makes a generation."""


def settings(**values: Any) -> Settings:
    return settings_from({"buckets": 4, **values})


def inputs(own: Settings | None = None) -> KeyInputs:
    return KeyInputs(own or settings(), lambda asked: MODELS)


def recorded(
    number: int, own: Settings, shards: int | None = None, embedder: str = "embedder 1", models: Frozen = MODELS
) -> Recorded:
    """A generation as the old version recorded it; None are the shards of versions that recorded no number."""
    frozen = replace(models, floors=FLOORS, embedder=embedder)
    values = own.model_dump(mode="json", exclude={"database", "tables", "tables_cache_mb", "shards"})
    return Recorded(
        number,
        sharded_generation_key(own, models, own.buckets, shards or 1),
        values if shards is None else {**values, "shards": shards},
        {"identity": embedder},
        {
            "overlap": {language: {"floor": floor} for language, floor in FLOORS.items()},
            "models": {"static": models.static, "sentence_models": models.sentence_models, "prompts": {}},
            "chunking": sharded_chunking_key(own, models, own.buckets),
            "packed_chunks": 9,
        },
        sharded_keys(own, frozen, own.buckets * (shards or 1)),
    )


BEGAN = datetime(2026, 11, 1, tzinfo=UTC)


def commits_of(
    keys: Mapping[str, str],
    count: int,
    stages: Collection[str] = tuple(STAGES),
    numbers: Iterable[int] | None = None,
    day: int = 0,
) -> Iterator[ShardCommit]:
    """Commits of these shards, all of them if none are named, of all tables of these stages."""
    own = list(range(count) if numbers is None else numbers)
    for name in stages:
        for table in STAGES[name].tables:
            for number in own if STAGES[name].parted else [UNPARTITIONED]:
                yield commit(table, keys[name], number, day=day)


def commit(table: str, key: str, number: int, day: int = 0, file: str | None = None) -> ShardCommit:
    made = fingerprint(table, key, number, day)
    part = "all" if number == UNPARTITIONED else f"{number:02d}"
    name = f"{table}/{key}/{part}-{made}.parquet" if file is None else file
    return ShardCommit(
        table, key, number, name, f"input {made}", f"output {made}", 7, 3, "run", BEGAN + timedelta(days=day)
    )


def in_postgres(row: Recorded) -> Iterator[ShardCommit]:
    """Commits of the rows of a generation in Postgres."""
    schema, buckets = f"g{row.generation:04d}", int(row.settings["buckets"])
    for bucket in range(buckets):
        yield commit("indexed_documents", schema, bucket, file="")
    for shard in range(buckets * row.shards) if row.shards > 1 else ():
        yield commit("indexed_shards", schema, shard, file="")
    yield commit("loaded_links", schema, UNPARTITIONED, file="")


def catalog(
    commits: Iterable[ShardCommit],
    generations: Iterable[Recorded] = (),
    failures: Iterable[tuple[str, str, str]] = (),
    counts: Collection[int] = (),
    last: int | None = None,
) -> ShardedCatalog:
    return ShardedCatalog(
        list(commits), [RecordedFailure(*failure) for failure in failures], list(generations), set(counts), last
    )
