"""One `pincite index`: decides whether there is anything to do, and if so runs the Dagster job."""

from __future__ import annotations

import importlib
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pipelines.errors import PinciteError
from resources import outcome
from resources.settings_file import Located
from resources.sources import source_from
from resources.workspace import Workspace

_DAGSTER_YAML = """\
# Written once by pincite; edit it as you like.
telemetry:
  enabled: false
nux:
  enabled: false
run_monitoring:
  enabled: true
  free_slots_after_run_end_seconds: 60
concurrency:
  runs:
    max_concurrent_runs: 2
# Nothing is written to standard output by the stages; capturing it would put helper processes
# between the progress of a run and the terminal.
compute_logs:
  module: dagster._core.storage.noop_compute_log_manager
  class: NoOpComputeLogManager
"""


class Interrupted(PinciteError):
    default_code = "interrupted"


def dagster_home(state: Path) -> Path:
    """The instance's folder in the state, with its settings written at first use."""
    home = state / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    file = home / "dagster.yaml"
    if not file.exists():
        file.write_text(_DAGSTER_YAML, encoding="utf-8")
    return home


def run_index(
    located: Located,
    sources: Sequence[str],
    allow_deletions: bool,
    retry_failed: bool,
    progress: Callable[[str, int, int], None],
) -> dict[str, Any]:
    """Brings the index up to date; returns the JSON of `index`.

    Raises PinciteError; Interrupted says what the next run will reuse."""
    started = time.perf_counter()
    for argument in sources:
        source_from(argument)
    if located.settings.publish.golden:
        from pipelines.query.golden import golden_questions
        from resources.evaluation import read_questions

        golden = located.resolve(located.settings.publish.golden)
        golden_questions(read_questions(golden), str(golden))
    if not (located.state / "dagster").exists():
        # A first run starts a database, which is waiting; the imports that come next need no waiting.
        threading.Thread(target=importlib.import_module, args=("assets.definitions",), daemon=True).start()
    located.state.mkdir(parents=True, exist_ok=True)
    workspace = Workspace(located, progress=progress)
    try:
        with workspace.database.exclusive("index"):
            return _locked(workspace, sources, allow_deletions, retry_failed, started)
    finally:
        workspace.close()


def _locked(
    workspace: Workspace, sources: Sequence[str], allow_deletions: bool, retry_failed: bool, started: float
) -> dict[str, Any]:
    book = workspace.sources
    for argument in sources:
        book.select(source_from(argument, book.known()))
    served = outcome.served(workspace)
    if outcome.is_current(workspace) and not retry_failed:
        return outcome.result(workspace, served, time.perf_counter() - started)
    workspace.sources.guard(workspace.listed(), workspace.raw_documents(), allow_deletions)
    workspace.runner.retry_failed = retry_failed
    if any(served.get(document.doc_id) != document.content_hash for document in workspace.listed().documents):
        workspace.warm()
    _materialise(workspace, allow_deletions)
    return outcome.result(workspace, served, time.perf_counter() - started)


def _materialise(workspace: Workspace, allow_deletions: bool) -> None:
    import dagster as dg

    from assets.definitions import build_defs
    from assets.partitions import bucket_partitions

    logging.getLogger("dagster").setLevel(logging.ERROR)
    os.environ.setdefault("DAGSTER_HOME", str(dagster_home(workspace.located.state)))
    buckets = workspace.settings.buckets
    keys = bucket_partitions(buckets).get_partition_keys()
    job = build_defs({"workspace": workspace}, buckets).resolve_job_def("index")
    config: dict[str, Any] = {
        "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
        "ops": {
            "raw_documents": {
                "config": {"sources": list(workspace.listed().sources), "allow_deletions": allow_deletions}
            }
        },
    }
    tags = {"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[-1]}
    with dg.DagsterInstance.from_config(str(dagster_home(workspace.located.state))) as instance:
        try:
            job.execute_in_process(instance=instance, run_config=config, tags=tags)
        except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
            raise Interrupted(f"interrupted; {outcome.kept(workspace)}") from None
        except Exception as error:
            raise _root(error) from error


def _root(error: BaseException) -> BaseException:
    """The project's own error under Dagster's, where there is one."""
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        if isinstance(cause, PinciteError):
            return cause
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    return error
