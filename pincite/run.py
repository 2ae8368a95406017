"""The building of an index on this machine, for `pincite index` and `export-texts` and for Python: whether there is
work, and the Dagster job that does it, or a run without Dagster if few documents changed."""

from __future__ import annotations

import errno
import importlib
import logging
import os
import sqlite3
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from pipelines.errors import IndexStateError, PinciteError, SettingsError, Waiting
from pipelines.plural import plural
from pipelines.settings.base import Settings
from pipelines.settings.models import key_variable
from pipelines.stages import STAGES
from resources.dagster_instance.home import usable
from resources.generations.due import Served, find_due, new_documents, served_now
from resources.generations.upkeep import restricted_whatever
from resources.models.embedders.specs import require_place
from resources.postgres.row_security import secure
from resources.private_files import private
from resources.reports import run_result as outcome
from resources.settings_file import Project, project_at
from resources.sources.folder import source_from
from resources.sources.registry import require_apart
from resources.stages.make import guard, require_replies, with_repair
from resources.state.run import Run, silent
from resources.state.state import LAST_OF_TEXT, State

Progress = Callable[[str, int, int], None]
_KINDS_SHOWN = 5
FEW = 4
"""Most new or changed documents of a run that is made without Dagster, whose start and records take a second or two.
Removed documents do not count."""
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})


class Interrupted(PinciteError):
    default_code = "interrupted"


def update_index(
    sources: Sequence[str] = (),
    place: Project | str | Path | None = None,
    *,
    allow_deletions: bool = False,
    retry_failed: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Index new and changed documents; return the JSON of `pincite index`.

    The index need not exist yet. `sources` are folders, as for `pincite index --source`; the default is all known
    sources. `place` is a project, a settings file or a state folder, as for open_index(). An Index that is open at the
    same time serves the new generation as soon as it is published.

    Raise PinciteError if the command would exit with 1 or 2; Interrupted says what the next run will reuse. Documents
    that failed are in the result.
    """
    started = time.perf_counter()
    run = Run(str(uuid.uuid4()), progress, retry_failed)

    def work(state: State) -> dict[str, Any]:
        return _run_locked(state, sources, allow_deletions, retry_failed, started)

    project = project_at(place)
    if not project.state.exists():
        require_models(project.settings)
    return _alone(project, sources, run, work)


def export_texts(
    folder: str | Path,
    sources: Sequence[str] = (),
    place: Project | str | Path | None = None,
    *,
    allow_deletions: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Update the stages up to the texts to embed, and write these texts to a new or empty folder, or a URI, in the form
    of docs/reference/vectors.md.

    Return the JSON of `pincite export-texts`. The index need not exist yet. `sources` and `place` are as for
    update_index(). Raise PinciteError if the command would exit with 1 or 2.
    """
    from resources.exchange import texts
    from resources.exchange.locations import TextFolder

    project = project_at(place)
    texts.sources_of(project.settings.sentences.embedded)
    target = TextFolder(str(folder))

    def work(state: State) -> dict[str, Any]:
        served = _texts(state, sources, allow_deletions)
        found = with_repair(state, lambda: texts.export_texts(state, target), before="chunk_embeddings")
        return {**found, "documents": outcome.documents(state, served), "failing_sources": dict(state.listing.failing)}

    return _alone(project, sources, Run(str(uuid.uuid4()), progress), work)


def _alone(
    project: Project, sources: Sequence[str], run: Run, work: Callable[[State], dict[str, Any]]
) -> dict[str, Any]:
    """Do work while holding the lock of the state, and return its result; create the state if it does not exist."""
    first = not project.state.exists()
    if first:  # nothing is served yet that would have to be restricted first
        _require_given(project, sources)
    if not (project.state / "dagster").exists():
        # A first run waits for its database to start; the imports that come next can be done meanwhile.
        threading.Thread(target=importlib.import_module, args=("assets.definitions",), daemon=True).start()
    with usable(project.state):
        project.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with private(project.state):
        state = State(project, run)
        state.run.report_start("opening the state")
        try:
            if first:
                known = project.settings.sources
                given = [source_from(argument, known) for argument in sources] or known
                state.warmup.begin(project.resolve(each.path) for each in given if not each.scheme)
            with state.database.exclusive("index", run_id=run.id):
                return work(state)
        finally:
            state.close()


def _require_given(project: Project, sources: Sequence[str]) -> None:
    """Raise PinciteError if the given sources, golden questions or synonyms cannot be used."""
    require_apart(project, [source_from(argument, project.settings.sources) for argument in sources])
    synonyms = project.settings.query.synonyms
    if synonyms and not Path(synonyms).is_file():
        raise SettingsError(f"query.synonyms: {synonyms} is not a file; correct the path, or leave the setting out")
    if project.settings.publish.golden:
        from resources.evaluation.golden import read_questions

        read_questions(project.resolve(project.settings.publish.golden))


def _run_locked(
    state: State, sources: Sequence[str], allow_deletions: bool, retry_failed: bool, started: float
) -> dict[str, Any]:
    with restricted_whatever(state):
        _select(state, sources)
        served = served_now(state)
        due = find_due(state)
        if due.up_to_date and not retry_failed:
            state.listing.keep_memberships()
            state.run.keep_verdict(due.up_to_date)
            return outcome.result(state, served, time.perf_counter() - started)
        guard(state, allow_deletions)
    _require_documents(state)
    fresh = new_documents(state, served)
    if fresh.documents:
        require_models(state.settings)
        state.warmup.start(fresh.documents, fresh.added_bytes)
    buckets = range(state.settings.buckets) if retry_failed else due.buckets
    from resources.dagster_instance.run_history import takes_more_runs

    state.run.report_start("beginning the run")
    few = due.touched is not None and due.touched <= FEW and not retry_failed
    direct = few and not _dagster_is_watched(state) and takes_more_runs(state.project.state / "dagster")
    run = direct_run if direct else dagster_job
    _execute(state, run(state, buckets, allow_deletions))
    return outcome.result(state, served, time.perf_counter() - started)


def require_models(settings: Settings) -> None:
    """Raise PinciteError if a model certainly cannot be used: its folder is missing, or the variable of an endpoint's
    key is not set. This is checked before documents are read."""
    embedder = settings.embedder
    if embedder.endpoint:
        _require_key(key_variable(embedder.endpoint, embedder.api_key_env), "embedder", embedder.endpoint)
    elif embedder.model:
        require_place(embedder)
    for name in settings.bought_roles:
        role = settings.llm.role(name)
        _require_key(role.api_key_env, f"llm, role {name!r}", role.base_url)


def _require_key(variable: str, setting: str, address: str) -> None:
    if variable and not os.environ.get(variable, "").strip():
        raise SettingsError(
            f"{setting}: the environment variable {variable} for the key of {address} is not set; set it where "
            "pincite runs"
        )


def _require_documents(state: State) -> None:
    """Raise IndexStateError if a first run found nothing to index."""
    now = state.listing.now()
    if now.documents or now.failures or now.failing or state.catalog.live() or any(state.listing.counts().values()):
        return
    places = ", ".join(each.place for each in state.parts.sources.known_sources() if each.name in now.sources)
    if not now.skipped:
        raise IndexStateError(
            f"{places}: no file to index; check the folder, and the settings include and exclude", "no_text"
        )
    kinds = Counter(PurePosixPath(item.uri).suffix.lower() or item.uri for item in now.skipped)
    told = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common(_KINDS_SHOWN))
    raise IndexStateError(
        f"{places}: {plural(len(now.skipped), 'file')}, none in a format that pincite reads ({told}); "
        "docs/reference/formats.md lists the formats",
        "no_text",
    )


def _texts(state: State, sources: Sequence[str], allow_deletions: bool) -> Served:
    """Update the texts to embed, and in the served index only access restrictions; return the served generation."""
    with restricted_whatever(state):
        _select(state, sources)
        served = served_now(state)
        due = find_due(state)
        guard(state, allow_deletions)
    if not due.up_to_date:
        stages = list(STAGES)
        _execute(state, dagster_job(state, due.buckets, allow_deletions, stages[: stages.index(LAST_OF_TEXT) + 1]))
    require_replies(state)
    return served


def _select(state: State, sources: Sequence[str]) -> None:
    book = state.parts.sources
    secure(state.catalog)
    _require_given(state.project, sources)
    for argument in sources:
        book.select(source_from(argument, book.known_sources()))
    state.run.report_start("listing the sources")


def _execute(state: State, prepared: AbstractContextManager[Callable[[], None]]) -> None:
    """Execute a run that was prepared: the job, or one without Dagster."""
    with prepared as execute:
        try:
            execute()
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; {outcome.kept_text(state)}") from None
        except Exception as error:
            told = failed_check(state.run.problems) or _own_error(error, state)
            if not isinstance(told, Waiting):
                raise told from error
            state.run.waits(str(told))


def _dagster_is_watched(state: State) -> bool:
    """Say whether somebody may watch this state's runs in Dagster: its instance is an operator's, or `pincite ui` is
    running. Then even a small run is one of the job."""
    from resources.dagster_instance.home import home_of

    home = state.project.state / "dagster"
    if home_of(state.project.state).resolve() != home.resolve():
        return True
    if not (home / "ui.lock").exists():
        return False
    from pincite.ui.services import running_ui

    return running_ui(state.project.state) is not None


@contextmanager
def direct_run(state: State, due: range, allow_deletions: bool) -> Iterator[Callable[[], None]]:
    """Yield a function that does what the job `index` does for these buckets, without importing dagster. A record of
    the run waits in the state folder until Dagster is opened."""
    from resources.dagster_instance.run_history import note_run
    from resources.generations.direct_run import failed_record, make_assets, run_record

    home, began = state.project.state / "dagster", time.time()

    def execute() -> None:
        try:
            scored = make_assets(state, due, allow_deletions)
        except (KeyboardInterrupt, Exception) as error:
            status = "CANCELED" if isinstance(error, KeyboardInterrupt) else "FAILURE"
            with suppress(OSError):
                note_run(home, failed_record(state, began, time.time(), status, str(error)))
            raise
        note_run(home, run_record(state, began, time.time(), due, scored))

    yield execute


@contextmanager
def dagster_job(
    state: State, due: range, allow_deletions: bool, only: Sequence[str] = ()
) -> Iterator[Callable[[], None]]:
    """Yield a function that runs Dagster's job `index` for these buckets in this process; Dagster's records are kept in
    the state folder. The function raises the error of an asset, or KeyboardInterrupt after an interrupt."""
    import dagster as dg

    from assets.declare import bucket_partitions
    from assets.definitions import build_defs
    from assets.metadata import key_of, record_direct_runs
    from resources.dagster_instance.home import close_dead_runs, instance_home, process_tag
    from resources.dagster_instance.run_history import run_history

    logging.getLogger("dagster").setLevel(logging.ERROR)
    buckets = state.settings.buckets
    keys = bucket_partitions(buckets).get_partition_keys()[due.start : due.stop]
    names = state.settings.dagster
    job = build_defs({"state": state}, settings=state.settings).resolve_job_def(names.name("index"))
    config: dict[str, Any] = {
        "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
        "ops": {
            key_of("raw_documents", names).to_python_identifier(): {
                "config": {"sources": list(state.listing.now().sources), "allow_deletions": allow_deletions}
            }
        },
    }
    tags = {
        "dagster/asset_partition_range_start": keys[0],
        "dagster/asset_partition_range_end": keys[-1],
        **process_tag(state.database),
    }

    def execute() -> None:
        try:
            job.execute_in_process(
                instance=instance,
                run_config=config,
                tags=tags,
                run_id=state.run.id,
                asset_selection=[key_of(name, names) for name in only] or None,
            )
        except dg.DagsterExecutionInterruptedError:
            raise KeyboardInterrupt from None

    with run_history(instance_home(state.project.state)) as instance:
        close_dead_runs(instance, state.database, names=names)
        record_direct_runs(instance, state.project.state)
        yield execute


def failed_check(found: Mapping[str, Sequence[tuple[str, str]]]) -> PinciteError | None:
    """Return an error with the findings of the first failed check, which stopped the run; return None if no check
    failed."""
    from resources.checks.stages import check_error

    for name, problems in found.items():
        if problems:
            return check_error(name, problems)
    return None


def _own_error(error: BaseException, state: State) -> BaseException:
    """Return the error of pincite that caused Dagster's error, or else one that names a full disk, or else the error
    itself."""
    root = _root(error)
    return root if isinstance(root, PinciteError) else _full_disk(error, state) or root


def _full_disk(error: BaseException, state: State) -> PinciteError | None:
    """Return an error that names the state folder if Dagster could not write its records there, or None."""
    for cause in _causes(error):
        if isinstance(cause, sqlite3.OperationalError) or (isinstance(cause, OSError) and cause.errno in _NO_ROOM):
            return IndexStateError(
                f"the state folder {state.project.state} cannot be written: {cause}; free space on that disk and "
                "run again; committed work is kept",
                "disk",
            )
    return None


def _root(error: BaseException) -> BaseException:
    """Return the error of pincite that caused Dagster's error, or the error itself."""
    return next((cause for cause in _causes(error) if isinstance(cause, PinciteError)), error)


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error and its causes, outermost first."""
    found: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in found:
        found.append(cause)
        cause = cause.__cause__ or cause.__context__
    return found
