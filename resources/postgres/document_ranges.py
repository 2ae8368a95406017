"""The move of commits and failures from shards to ranges of document ids, in one transaction with migration 19.

Up to migration 18 a commit had the number of a shard, and the number of shards was part of every key, so the same
results could be committed under several keys. Now a commit has a range of document ids, and only what shapes a result
is in its key. Files are not moved, and the hashes of inputs and outputs do not change.

`plan_ranges` decides everything from the content of the catalog. An old key is replaced only if the old version's
formula gives it from the settings of a generation or of the project. Other recorded keys stay, for example one made by
a stage of another version. Commits under all other keys are dropped, since nothing would read them: these are results
of settings that were tried without a generation. Their files stay until `pincite generations prune`, so that their
vectors and replies are found.

If several old keys have the same new key, the number of shards was changed at some time, perhaps during a run. The
ranges of the last number of shards are kept. Ranges missing there are filled from the others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from pipelines.errors import DatabaseError, PinciteError, SettingsError
from pipelines.fingerprint import fingerprint
from pipelines.ranges import ALL_IDS, bucket_range
from pipelines.settings.base import Settings, shaped_as
from pipelines.settings.models import EnrichmentSettings, LlmSettings
from pipelines.stages import (
    STAGE_OF_TABLE,
    STAGES,
    TERMS_VERSION,
    UNPARTITIONED,
    Frozen,
    chunking_key,
    generation_key,
    stage_keys,
)
from resources.postgres.run_lock import lock, unlock
from resources.postgres.statements import query

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg import Connection

NAME = "document_ranges"
"""The name of the migration for this module."""
MOST_COUNTED = 4096
"""The largest number of shards in a state of an older version."""
RUN = "index"
"""The name of the lock that a run holds."""
LISTING = "raw_documents"


# ---------------------------------------------------------------- keys of older versions
#
# These formulas stay as the older versions had them, whatever `pipelines.stages` does.


def sharded_keys(settings: Settings, frozen: Frozen, count: int) -> dict[str, str]:
    """Return the keys that an older version gave the stages in a state of `count` shards, by name."""
    keys: dict[str, str] = {}
    for name, stage in STAGES.items():
        before = [keys[STAGE_OF_TABLE[table].name] for table in stage.inputs]
        values = list(stage.shaped_by(settings, frozen).values())
        shape = values[0] if len(values) == 1 else values or None
        keys[name] = fingerprint(name, stage.version, count, shape, before)
    return keys


def sharded_generation_key(settings: Settings, installed: Frozen, buckets: int, shards: int) -> str:
    """Return the key that an older version gave a generation with `buckets` buckets of `shards` shards each."""
    keys = list(sharded_keys(settings, installed, buckets * shards).values())
    return fingerprint(
        "generation", keys, settings.chunking.overlap_floor, TERMS_VERSION, *([buckets] if shards > 1 else [])
    )


def sharded_chunking_key(settings: Settings, installed: Frozen, buckets: int) -> str:
    """Return the key of the chunking that an older version recorded with a generation."""
    return fingerprint(sharded_keys(settings, installed, buckets)["chunks"], settings.chunking.overlap_floor)


@cache
def _listing_keys() -> dict[str, int]:
    """Return the number of shards by the key of the listing, which depends only on it."""
    version = STAGES[LISTING].version
    return {fingerprint(LISTING, version, count, None, []): count for count in range(1, MOST_COUNTED + 1)}


# ---------------------------------------------------------------- rows before and after


@dataclass(frozen=True, slots=True)
class KeyInputs:
    """The inputs for computing keys: the project's settings, and a function that returns the models installed on this
    machine for given settings. The function may raise PinciteError."""

    settings: Settings
    installed: Callable[[Settings], Frozen]


@dataclass(frozen=True, slots=True)
class ShardCommit:
    """The commit of one shard or bucket, or of a whole table if its number is UNPARTITIONED."""

    table: str
    key: str
    number: int
    file: str
    input: str
    output: str
    rows: int
    documents: int
    run_id: str | None
    committed_at: datetime


@dataclass(frozen=True, slots=True)
class RangeCommit:
    """The commit of the documents whose ids are from `first` to before `after`. If it is not `whole`, its file has
    other documents too, and its rows and documents are -1 (not counted)."""

    table: str
    key: str
    first: str
    after: str
    file: str
    whole: bool
    input: str
    output: str
    rows: int
    documents: int
    run_id: str | None
    committed_at: datetime


@dataclass(frozen=True, slots=True)
class RecordedFailure:
    doc_id: str
    stage: str
    key: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """The columns of a generation from which keys are computed."""

    generation: int
    key: str
    settings: Mapping[str, Any]
    embedder: Mapping[str, Any]
    statistics: Mapping[str, Any]
    keys: Mapping[str, str]

    @property
    def frozen_values(self) -> Frozen:
        """The frozen values of the generation. Raise KeyError if it recorded no values."""
        floors = {name: values["floor"] for name, values in self.statistics["overlap"].items()}
        return Frozen(floors, self.embedder["identity"], **self.statistics.get("models", {}))

    def buckets(self, default: int) -> int:
        return int(self.settings.get("buckets", default))

    @property
    def shards(self) -> int:
        """The shards of each bucket: one in versions that recorded no number."""
        return int(self.settings.get("shards", 1))


@dataclass(frozen=True, slots=True)
class ShardedCatalog:
    """All rows that the move depends on. `last` is the number of shards at the last listing, or None if it was not
    recorded; `counts` has all recorded numbers."""

    commits: Sequence[ShardCommit]
    failures: Sequence[RecordedFailure]
    generations: Sequence[Recorded]
    counts: Collection[int]
    last: int | None


@dataclass
class RangedCatalog:
    """The rows to write. `keys` maps each old key with recorded failures to its new key."""

    commits: list[RangeCommit] = field(default_factory=list)
    gone: list[RecordedFailure] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    generations: list[Recorded] = field(default_factory=list)


# ---------------------------------------------------------------- old keys


@dataclass(frozen=True, slots=True)
class KnownKey:
    """The meaning of an old key: its stage, the number of shards in it, and the key without that number."""

    stage: str
    count: int
    key: str


class OldKeys:
    """The old keys that can be computed again, by key. `staying` has the number of shards for recorded keys that cannot
    be computed again."""

    def __init__(self, old: ShardedCatalog, inputs: KeyInputs) -> None:
        self._old, self._inputs = old, inputs
        self._shaped: dict[int, tuple[Settings, Frozen]] = {}
        """Settings and frozen values of generations, if this version can read them."""
        for row in old.generations:
            try:
                self._shaped[row.generation] = shaped_as(inputs.settings, row.settings), row.frozen_values
            except (SettingsError, LookupError, TypeError):
                continue  # another version made it: its keys stay
        used = {commit.key for commit in old.commits} | {failure.key for failure in old.failures}
        listings = {key: count for key, count in _listing_keys().items() if key in used}
        counts = {*old.counts, *listings.values(), inputs.settings.buckets, *map(self.count, old.generations)}
        listing = stage_keys(inputs.settings, Frozen())[LISTING]
        self.known = {key: KnownKey(LISTING, count, listing) for key, count in listings.items()}
        for settings, frozen in self._shaped.values():
            self._compute(settings, frozen, counts)
        self.staying = {key: self.count(row) for row in old.generations for key in row.keys.values()
                        if key not in self.known}  # fmt: skip
        schemas = {_schema(row) for row in old.generations}
        if used - self.known.keys() - self.staying.keys() - schemas - {""}:
            # They may be of a run that was stopped before it made a generation.
            models = inputs.installed(inputs.settings)
            for frozen in (replace(models, embedder=""), models):
                self._compute(inputs.settings, frozen, counts)

    def _compute(self, settings: Settings, frozen: Frozen, counts: Iterable[int]) -> None:
        now = stage_keys(settings, frozen)
        for count in counts:
            before = sharded_keys(settings, frozen, count)
            self.known.update({key: KnownKey(stage, count, now[stage]) for stage, key in before.items()})

    def count(self, row: Recorded) -> int:
        """Return the number of shards with which a generation was made."""
        return row.buckets(self._inputs.settings.buckets) * row.shards

    def move(self, row: Recorded) -> Recorded:
        """Return a generation with its new keys. Keys that cannot be computed again stay."""
        keys = {stage: known.key if (known := self.known.get(key)) else key for stage, key in row.keys.items()}
        if row.generation not in self._shaped:
            return replace(row, keys=keys)
        settings, frozen = self._shaped[row.generation]
        buckets, key, chunking = row.buckets(settings.buckets), row.key, row.statistics.get("chunking")
        for models in self._models(settings, frozen):
            if row.key == sharded_generation_key(settings, models, buckets, row.shards):
                key = generation_key(settings, models)
            if row.statistics.get("chunking") == sharded_chunking_key(settings, models, buckets):
                chunking = chunking_key(settings, models)
        statistics = {**row.statistics, **({"chunking": chunking} if "chunking" in row.statistics else {})}
        return replace(row, key=key, keys=keys, statistics=statistics)

    def _models(self, settings: Settings, frozen: Frozen) -> Iterator[Frozen]:
        """Yield the models from which a generation's key may have been computed: the recorded ones, and the installed
        ones."""
        recorded = replace(frozen, floors={})
        yield recorded
        # The prompts of the generation are in its record, and their folder may be gone.
        plain = settings.model_copy(update={"enrichment": EnrichmentSettings(), "llm": LlmSettings()})
        try:
            here = self._inputs.installed(plain)
        except PinciteError:
            return  # its models are not on this machine
        yield replace(recorded, embedder=here.embedder)
        yield replace(here, prompts=recorded.prompts)


def _schema(row: Recorded) -> str:
    return f"g{row.generation:04d}"


# ---------------------------------------------------------------- ranges


def _bounds(number: int, count: int) -> tuple[str, str]:
    return ALL_IDS if number == UNPARTITIONED else bucket_range(number, count)


def _range_commit(commit: ShardCommit, key: str, first: str, after: str) -> RangeCommit:
    return RangeCommit(
        commit.table, key, first, after, commit.file, True, commit.input, commit.output, commit.rows, commit.documents,
        commit.run_id, commit.committed_at,
    )  # fmt: skip


def _part(commit: ShardCommit, key: str, first: str, after: str) -> RangeCommit:
    """Return a commit of a part of a shard's documents. Its input is empty, so the next run examines each document."""
    made = replace(_range_commit(commit, key, first, after), input="")
    if commit.file.endswith("/empty"):  # a name without a file: nothing else is in it
        return made
    output = fingerprint("part", commit.file, commit.output, first, after)
    return replace(made, whole=False, output=output, rows=-1, documents=-1)


class Layout:
    """The commits of one stage under one old key, by table and number, and the number of shards in that key."""

    def __init__(self, stage: str, key: str, count: int) -> None:
        self.stage, self.key, self.count = stage, key, count
        self.commits: defaultdict[str, dict[int, ShardCommit]] = defaultdict(dict)

    def add(self, commit: ShardCommit) -> None:
        if commit.number < self.count:
            self.commits[commit.table][commit.number] = commit

    @cached_property
    def complete(self) -> list[int]:
        """The shards with a commit of each table. Other shards count as never made."""
        return sorted(set.intersection(*(set(self.commits.get(table, ())) for table in STAGES[self.stage].tables)))

    @property
    def whole(self) -> bool:
        return self.complete == (list(range(self.count)) if STAGES[self.stage].parted else [UNPARTITIONED])

    @property
    def newest_time(self) -> float:
        """The time of the newest commit, in seconds since the epoch."""
        times = (commit.committed_at.timestamp() for rows in self.commits.values() for commit in rows.values())
        return max(times, default=0.0)

    def all(self, key: str) -> Iterator[RangeCommit]:
        """Yield all commits with their new key, including those of incomplete shards."""
        for rows in self.commits.values():
            for number, commit in rows.items():
                yield _range_commit(commit, key, *_bounds(number, self.count))


class MergedLayouts:
    """The commits of one stage from all layouts that have the same new key, the preferred one first. Each table gets
    the same ranges from the same layouts, and no document is in two ranges."""

    def __init__(self, key: str, layouts: Sequence[Layout]) -> None:
        self._layouts = [layout.key for layout in layouts]
        self._taken: list[tuple[str, str, str]] = []
        """Ranges that are already covered, in order: first, after, and the old key."""
        self.commits: list[RangeCommit] = []
        for layout in layouts:
            # A listing is taken whole or not at all: documents may have left the sources since.
            if layout is layouts[0] or layout.whole or STAGES[layout.stage].inputs:
                self.commits += self._take(layout, key)
        if len(layouts) == 1:
            self.commits = list(layouts[0].all(key))

    def _take(self, layout: Layout, key: str) -> list[RangeCommit]:
        """Cover the ranges of a layout's shards that are not yet covered. Return their commits."""
        found, taken = [], []
        for number in layout.complete:
            bounds = _bounds(number, layout.count)
            for gap in self._gaps(*bounds):
                make = _range_commit if gap == bounds else _part
                found += [make(layout.commits[table][number], key, *gap) for table in STAGES[layout.stage].tables]
                taken.append((*gap, layout.key))
        self._taken = sorted([*self._taken, *taken])
        return found

    def _gaps(self, first: str, after: str) -> Iterator[tuple[str, str]]:
        """Yield the parts of a range that are not covered."""
        for start, end, _ in self._taken[max(bisect_right(self._taken, (first, "~")) - 1, 0) :]:
            if start >= after:
                break
            if first < start:
                yield first, start
            first = max(first, end)
        if first < after:
            yield first, after

    def holding(self, failures: Sequence[RecordedFailure]) -> RecordedFailure | None:
        """Return one of several failures of a document at this stage: the one that belongs to the commit of the
        document, or else the one of the preferred layout."""
        by_key, doc_id = {failure.key: failure for failure in failures}, failures[0].doc_id
        at = bisect_right(self._taken, (doc_id, "~")) - 1
        if at >= 0 and doc_id < self._taken[at][1]:
            return by_key.get(self._taken[at][2])
        return next((by_key[key] for key in self._layouts if key in by_key), failures[0])


# ---------------------------------------------------------------- the move


def plan_ranges(old: ShardedCatalog, inputs: KeyInputs) -> RangedCatalog:
    """Return the catalog with ranges instead of shards."""
    keys, new = OldKeys(old, inputs), RangedCatalog()
    layouts: defaultdict[str, dict[str, Layout]] = defaultdict(dict)
    homes = {_schema(row): row for row in old.generations}
    for commit in old.commits:
        if commit.key in homes:
            new.commits += _in_postgres(commit, homes[commit.key], inputs.settings.buckets)
        elif known := keys.known.get(commit.key):
            found = layouts[known.key].setdefault(commit.key, Layout(known.stage, commit.key, known.count))
            found.add(commit)
        elif (count := keys.staying.get(commit.key, 0)) > commit.number:
            new.commits.append(_range_commit(commit, commit.key, *_bounds(commit.number, count)))
    last = old.last or inputs.settings.buckets
    merged: dict[str, MergedLayouts] = {}
    for key, several in layouts.items():
        best = sorted(several.values(), key=lambda one: (one.count == last, one.whole, one.newest_time), reverse=True)
        merged[key] = MergedLayouts(key, best)
        new.commits += merged[key].commits
    _move_failures(old, keys, merged, new)
    moved = [(row, keys.move(row)) for row in old.generations]
    new.generations = [after for before, after in moved if after != before]
    return new


def _in_postgres(commit: ShardCommit, generation: Recorded, default: int) -> Iterator[RangeCommit]:
    """Yield the commit of a generation's rows in Postgres, unless its name is unknown."""
    buckets = generation.buckets(default)
    counts = {"indexed_documents": buckets, "indexed_shards": buckets * generation.shards, "loaded_links": 0}
    if (count := counts.get(commit.table)) is not None and commit.number < count:
        name = "indexed_parts" if commit.table == "indexed_shards" else commit.table
        yield replace(_range_commit(commit, commit.key, *_bounds(commit.number, count)), table=name)


def _move_failures(old: ShardedCatalog, keys: OldKeys, merged: Mapping[str, MergedLayouts], new: RangedCatalog) -> None:
    same: defaultdict[tuple[str, str, str], list[RecordedFailure]] = defaultdict(list)
    for failure in old.failures:
        known = keys.known.get(failure.key)
        if known:
            new.keys[failure.key] = known.key
            same[failure.doc_id, failure.stage, known.key].append(failure)
        elif failure.key not in keys.staying:
            new.gone.append(failure)
    for (_, _, key), several in same.items():
        kept = merged[key].holding(several) if key in merged else several[0]
        new.gone += [failure for failure in several if failure is not kept]


class Move:
    """The migration of one database. It reads everything before the SQL of the migration, and writes after it."""

    def __init__(self, connection: Connection[Any], inputs: KeyInputs | None, where: str) -> None:
        """Read the old catalog. Raise DatabaseError if it is not empty and the settings are not known, IndexStateError
        (`busy`) if a run of an older version is in progress, since that run could not continue afterwards."""
        self._connection = connection
        lock(connection, RUN, 0.0, lambda busy: None)
        self._ask("hold")
        layouts = self._rows("layouts")
        old = ShardedCatalog(
            [ShardCommit(*row) for row in self._rows("sharded_commits")],
            [RecordedFailure(*row) for row in self._rows("failures")],
            [Recorded(*row) for row in self._rows("generations")],
            {count for count, _ in layouts},
            next((count for count, settled in layouts if settled), None),
        )
        empty = not (old.commits or old.failures or old.generations)
        if not empty and inputs is None:
            raise DatabaseError(
                f"the index in {where} was made by an older pincite, and its keys are computed again from the settings "
                "of the project; open it with those once, for example by `pincite status`"
            )
        self._new = RangedCatalog() if empty or inputs is None else plan_ranges(old, inputs)

    def write(self) -> None:
        """Write the new catalog."""
        from psycopg.types.json import Jsonb

        new = self._new
        with self._connection.cursor() as cursor:
            if new.commits:
                with cursor.copy(query("document_ranges", "copy_commits")) as copy:
                    for commit in new.commits:
                        copy.write_row([getattr(commit, column.name) for column in fields(commit)])
            if new.gone:
                cursor.executemany(query("document_ranges", "drop_failure"), [asdict(each) for each in new.gone])
            for before, after in new.keys.items():
                cursor.execute(query("document_ranges", "move_failures"), {"old": before, "new": after})
            for row in new.generations:
                values = {"keys": Jsonb(dict(row.keys)), "statistics": Jsonb(dict(row.statistics))}
                named = {"generation": row.generation, "key": row.key, **values}
                cursor.execute(query("document_ranges", "move_generation"), named)
        unlock(self._connection, RUN)

    def _ask(self, name: str) -> Any:
        return self._connection.execute(query("document_ranges", name))

    def _rows(self, name: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._ask(name).fetchall()
        return rows
