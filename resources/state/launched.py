"""A run that Dagster launched: what was asked of it, and what it tells of itself in Postgres."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pipelines.errors import DatabaseError, SettingsError, UsageError
from pipelines.fingerprint import fingerprint
from pipelines.stages import generation_key
from resources.dagster_instance.runs import buckets_in
from resources.postgres.catalog import OwnRun
from resources.state.generation import installed
from resources.state.run_record import record_of

if TYPE_CHECKING:
    from pipelines.settings.base import Settings
    from resources.state.state import State

BACKFILL = "dagster/backfill"
ASKED = "pincite/index"
"""Tag of the runs of `pincite index --distributed`: what was asked, as JSON."""
SETTINGS = "pincite/settings"
"""Tag of them: what the settings, models and versions of who asked make of documents, as a hash."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What `pincite index` was asked for: sources by name, all that are known where none is named."""

    sources: tuple[str, ...] = ()
    allow_deletions: bool = False
    retry_failed: bool = False

    def tags(self, settings: Settings) -> dict[str, str]:
        return {ASKED: json.dumps(asdict(self), sort_keys=True), SETTINGS: shape_of(settings)}


NOTHING_ASKED = Asked()


def asked_of(tags: Mapping[str, str]) -> Asked:
    """What the tags of a run or backfill ask. Raises UsageError for what no pincite wrote."""
    if ASKED not in tags:
        return NOTHING_ASKED
    try:
        values: dict[str, Any] = json.loads(tags[ASKED])
        return Asked(
            tuple(str(name) for name in values["sources"]),
            values["allow_deletions"] is True,
            values["retry_failed"] is True,
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UsageError(f"the tag {ASKED} of this run is none that pincite wrote; leave it out") from None


def shape_of(settings: Settings) -> str:
    """A hash of all that decides what a run makes and who may find it: sources with their groups, where tables are,
    settings that shape an index, versions of stages, models that are installed. `settings` are those of the project:
    when the number of shards was chosen that they leave open decides nothing."""
    shared = settings.model_dump(mode="json", include={"buckets", "shards", "sources", "access", "tables"})
    return fingerprint(shared, generation_key(settings, installed(settings)))


def require_same(tags: Mapping[str, str], settings: Settings) -> None:
    """Raises SettingsError `other_settings` where this machine would make another index than it was asked for."""
    if SETTINGS in tags and tags[SETTINGS] != shape_of(settings):
        raise SettingsError(
            "the settings, prompts, models or version of pincite on this worker are not those of the machine that ran "
            "`pincite index --distributed`, so it would make another index; give all the same and run it again",
            "other_settings",
        )


@contextmanager
def telling(state: State, tags: Mapping[str, str]) -> Iterator[None]:
    """While it lasts, the run of a state tells how far it is, and after each stage what it did."""
    state.parts.database.migrate()
    own = OwnRun(state.parts.database, state.run.id)
    own.begin(tags.get(BACKFILL, ""), buckets_in(tags))

    def keep() -> None:
        own.keep(record_of(state))

    state.run.progress, state.run.keep = own.tell, keep
    try:
        yield
    finally:
        with suppress(DatabaseError):
            keep()
            own.end()


def ranges(buckets: Sequence[int]) -> str:
    """Buckets as people read them: "00 to 03", "07"; empty where there are none."""
    if not buckets:
        return ""
    return f"{buckets[0]:02d}" if len(buckets) == 1 else f"{buckets[0]:02d} to {buckets[-1]:02d}"
