"""What pincite finds of the settings, their sources, and Dagster's folder of the state."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path

from pipelines.settings.base import Settings
from pipelines.settings.sources import SourceSettings
from resources.reports.doctor.finding import Finding, broken, doubtful, looked_at, ok
from resources.settings_file import Project


def settings(project: Project) -> Iterator[Finding]:
    yield ok("settings", str(project.file) if project.file else "no pincite.yaml here: defaults")
    if golden := project.settings.publish.golden:
        yield from looked_at("golden questions", lambda: _golden(project.resolve(golden)))
    if project.settings.enrichment.prompts:
        yield from looked_at("prompts", lambda: _prompts(project.settings))


def _golden(file: Path) -> Iterator[Finding]:
    from pipelines.evaluation.golden import golden_questions
    from resources.evaluation.golden import read_questions

    yield ok("golden questions", f"{len(golden_questions(read_questions(file), str(file)))} in {file}")


def _prompts(given: Settings) -> Iterator[Finding]:
    from resources.prompts import read_prompts

    assert given.enrichment.prompts
    read_prompts(Path(given.enrichment.prompts))
    yield ok("prompts", given.enrichment.prompts)


def sources(project: Project) -> Iterator[Finding]:
    """Those of the settings, as `pincite sources check` reaches them; nothing is fetched but names."""
    if not project.settings.sources:
        yield ok("sources", "the settings name none; `pincite index --source FOLDER` does")
    for source in project.settings.sources:
        root = source.path if source.scheme else str(project.resolve(source.path))
        yield from looked_at(f"source {source.name}", partial(_source, source.model_copy(update={"path": root})))


def _source(source: SourceSettings) -> Iterator[Finding]:
    from resources.sources.check import check_source

    found = check_source(source)
    count = len(found["entries"])
    if count:
        yield ok(f"source {source.name}", f"{found['root']}: {count}{' files and more' if found['more'] else ' files'}")
    else:
        yield doubtful(f"source {source.name}", f"{found['root']} has no file that its filters take",
                      "see its path, include and exclude")  # fmt: skip


def dagster(state: Path) -> Iterator[Finding]:
    named = os.environ.get("DAGSTER_HOME")
    home = Path(named) if named else state / "dagster"
    if named and not home.is_dir():
        yield broken("dagster", f"DAGSTER_HOME is {named}, which is no folder",
                     "make it with a dagster.yaml, or unset it")  # fmt: skip
    elif not named and not (home / "dagster.yaml").exists():
        yield ok("dagster", f"{home} is not there yet; `pincite index` makes it")
    else:
        yield from _instance(home)


def _instance(home: Path) -> Iterator[Finding]:
    from dagster import DagsterInstance

    try:
        with DagsterInstance.from_config(str(home)) as instance:
            runs = instance.get_runs_count()
    except Exception as error:  # whose text may hold an address with its password
        told = f"mend {home / 'dagster.yaml'}, or move {home} away: it holds the history of runs alone"
        yield broken("dagster", f"{home} cannot be opened: {type(error).__name__}", told)
        return
    yield ok("dagster", f"{version('dagster')}, {runs} runs in {home}")
