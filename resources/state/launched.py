"""A run that Dagster launched in another process: its request and buckets in tags, and its results in JSON.

The requesting process reads the JSON from Postgres and adds up the results of several runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from pipelines.errors import DatabaseError, SettingsError, UsageError
from pipelines.fingerprint import fingerprint
from pipelines.stages import STAGES, WHOLE_CORPUS, generation_key
from resources.engine import StageReport
from resources.llm.model import Spent
from resources.postgres.launched_runs import OwnRun
from resources.sources.files import Skipped
from resources.sources.listed_documents import AllListed
from resources.sources.registry import Listed
from resources.state.generation import installed_models
from resources.state.run import Missing, PublishResult, Run

if TYPE_CHECKING:
    from dagster import DagsterRun

    from pipelines.settings.base import DagsterSettings, Settings
    from resources.state.state import State


# ---------------------------------------------------------------- run record


_COUNTED = ("computed", "kept", "gone", "written", "total", "seconds")
_LISTS = "raw_documents"


def record_of(state: State) -> dict[str, Any]:
    """Return as JSON the data of a state's run that `with_records` needs. Failures are in the catalog."""
    run = state.run
    return {
        "reports": {
            name: {**{key: getattr(report, key) for key in _COUNTED}, "notes": dict(report.notes)}
            for name, report in run.reports.items()
        },
        "spent": asdict(total_spent([*run.spent, *(model.spent for model in run.models)])),
        "problems": {name: [list(problem) for problem in found] for name, found in run.problems.items()},
        "built": None if run.built is None else {**asdict(run.built), "scored": {}},
        "damaged": list(state.parts.tables.damaged),
        "listed": _listing_json(state.listing.now()) if _LISTS in run.reports else None,
    }


def _listing_json(listed: Listed) -> dict[str, Any]:
    return {
        "sources": list(listed.sources),
        "skipped": [asdict(item) for item in listed.skipped],
        "failing": dict(listed.failing),
    }


def with_records(run: Run, records: Iterable[Mapping[str, Any]]) -> tuple[Run, Listed | None]:
    """Add up the records of several runs, given in order of time, into one run. Return it together with their listing
    (without documents), or with None if no run listed sources. Counts and seconds are sums."""
    made, listed = replace(run, reports={}, problems={}, spent=[], damaged=[], built=None), None
    for record in records:
        for name, values in record.get("reports", {}).items():
            report = StageReport(name, **{key: values[key] for key in _COUNTED}, notes=values["notes"])
            made.reports[name] = _sum(made.reports[name], report) if name in made.reports else report
        for name, problems in record.get("problems", {}).items():
            found = made.problems.setdefault(name, [])
            found += [problem for code, message in problems if (problem := (code, message)) not in found]
        if values := record.get("spent"):
            made.spent.append(Spent(**values))
        if values := record.get("built"):
            problems = [(code, message) for code, message in values["problems"]]
            made.built = PublishResult(**{**values, "problems": problems, "missing": Missing(**values["missing"])})
        made.damaged += [name for name in record.get("damaged", ()) if name not in made.damaged]
        if values := record.get("listed"):
            skipped = [Skipped(**item) for item in values["skipped"]]
            listed = Listed(tuple(values["sources"]), AllListed(), skipped, [], failing=values["failing"])
    return made, listed


def total_spent(parts: Iterable[Spent]) -> Spent:
    total = Spent()
    for part in parts:
        for item in fields(Spent):
            setattr(total, item.name, getattr(total, item.name) + getattr(part, item.name))
    return total


def _sum(first: StageReport, second: StageReport) -> StageReport:
    """Return the sum of two reports of one stage. Numeric notes are added; of other notes the second's are kept."""
    added = {
        name: value + second.notes[name]
        for name, value in first.notes.items()
        if _is_number(value) and _is_number(second.notes.get(name))
    }
    counts = {key: getattr(first, key) + getattr(second, key) for key in _COUNTED}
    return replace(first, **counts, notes={**first.notes, **second.notes, **added})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# ---------------------------------------------------------------- launched run


BACKFILL = "dagster/backfill"
REQUEST = "pincite/index"
"""The tag of runs of `pincite index --distributed` that holds the request as JSON."""
SETTINGS = "pincite/settings"
"""The tag of these runs that holds a hash of the requesting machine's settings, models and stage versions."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A request of `pincite index`: the sources by name (empty means all known ones) and its options."""

    sources: tuple[str, ...] = ()
    allow_deletions: bool = False
    retry_failed: bool = False

    def tags(self, settings: Settings) -> dict[str, str]:
        return {REQUEST: json.dumps(asdict(self), sort_keys=True), SETTINGS: shape_of(settings)}


EMPTY_REQUEST = RunRequest()


def request_of(tags: Mapping[str, str]) -> RunRequest:
    """Return the request in the tags of a run or backfill. Raise UsageError if pincite did not write the tag."""
    if REQUEST not in tags:
        return EMPTY_REQUEST
    try:
        values: dict[str, Any] = json.loads(tags[REQUEST])
        return RunRequest(
            tuple(str(name) for name in values["sources"]),
            values["allow_deletions"] is True,
            values["retry_failed"] is True,
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UsageError(f"the tag {REQUEST} of this run was not written by pincite; leave it out") from None


def shape_of(settings: Settings) -> str:
    """Return a hash of everything that affects the results of a run and the access to them: sources with their groups,
    the place of the tables, settings that shape an index, stage versions and installed models.

    `settings` must be the project's own.
    """
    shared = settings.model_dump(mode="json", include={"buckets", "sources", "access", "tables"})
    return fingerprint(shared, generation_key(settings, installed_models(settings)))


def require_same(tags: Mapping[str, str], settings: Settings) -> None:
    """Raise SettingsError `other_settings` if this machine would make a different index than the requesting one."""
    if SETTINGS in tags and tags[SETTINGS] != shape_of(settings):
        raise SettingsError(
            "the settings, prompts, models or version of pincite on this worker are not those of the machine that ran "
            "`pincite index --distributed`, so it would make a different index; use the same ones and run it again",
            "other_settings",
        )


@contextmanager
def telling(state: State, tags: Mapping[str, str]) -> Iterator[None]:
    """Write a run's progress to Postgres while the context is open, and its record after each stage."""
    state.database.migrate()
    own = OwnRun(state.database, state.run.id)
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
    """Return buckets in a form for people: "00 to 03", "07"; return "" if there are no buckets."""
    if not buckets:
        return ""
    return f"{buckets[0]:02d}" if len(buckets) == 1 else f"{buckets[0]:02d} to {buckets[-1]:02d}"


# ---------------------------------------------------------------- run buckets
#
# The buckets of a launched run, and whether other runs may work on other buckets meanwhile.


_FIRST, _LAST, _ONE = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end", "dagster/partition"
_NUMBER = re.compile(r"[0-9]{1,4}")
BY_BUCKET = frozenset({*STAGES, "indexed_documents"} - WHOLE_CORPUS)
"""Assets whose buckets several runs can make at the same time."""


def is_for(run: DagsterRun, asset: str, names: DagsterSettings) -> bool:
    """Say whether a run makes only this asset."""
    return {key.to_user_string() for key in run.asset_selection or ()} == {names.key(asset)}


def require_whole(run: DagsterRun, settings: Settings) -> None:
    """Raise UsageError for a run of the whole job over some of the buckets.

    It would make assets of the whole corpus from a part, or repeatedly: `dagster job backfill` launches a run of the
    job for each bucket.
    """
    job, buckets = settings.dagster.name("index"), buckets_in(run.tags)
    if run.job_name != job or run.asset_selection or buckets is None:
        return
    if set(buckets) >= set(range(settings.buckets)):
        return
    raise UsageError(
        f"the job {job} makes what belongs to the whole corpus, and this run of it is for {ranges(buckets) or 'none'} "
        f"of the {settings.buckets} partitions; run it for all of them: `dagster job launch -j {job}` without a "
        "partition. To make some partitions, materialise or backfill the assets, not the job"
    )


def buckets_alone(run: DagsterRun, settings: Settings) -> frozenset[int] | None:
    """Return the buckets of a run that may work beside other runs, or None if it must be the only run: if the settings
    do not divide buckets among runs (`buckets_per_run`), or it makes an asset of the whole corpus.

    Raise UsageError if its tags name buckets that the index does not have.
    """
    if settings.buckets_per_run is None or not run.asset_selection:
        return None
    if {key.to_user_string() for key in run.asset_selection} - {settings.dagster.key(name) for name in BY_BUCKET}:
        return None
    buckets = buckets_in(run.tags)
    if buckets is None:
        return None
    if not 0 <= buckets.start < buckets.stop <= settings.buckets:
        raise _no_buckets(settings.buckets)
    return frozenset(buckets) if len(buckets) < settings.buckets else None


def buckets_in(tags: Mapping[str, str]) -> range | None:
    """Return the buckets in the tags of a run, or None without such tags.

    The range is empty if the tags are not bucket numbers, since anyone who launches a run can write its tags.
    """
    if not tags.keys() & {_FIRST, _LAST, _ONE}:
        return None
    # Dagster does the same: a partition comes before the range that the tags of a job name.
    first = tags.get(_ONE, tags.get(_FIRST, ""))
    last = tags.get(_ONE, tags.get(_LAST, first))
    if not all(_NUMBER.fullmatch(key) for key in (first, last)):
        return range(0)
    return range(int(first), int(last) + 1)


def _no_buckets(count: int) -> UsageError:
    return UsageError(
        f"the partitions in the tags of this run are not buckets of this index, which are 00 to {count - 1:02d}; "
        "launch it again for partitions that Dagster's UI shows"
    )
