"""The JSON of `pincite doctor`: what keeps pincite from working here, and what to do. Needs no index and makes none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from pipelines.errors import SettingsError
from resources.reports.doctor import database, endpoints, installation, machine, project, store
from resources.reports.doctor.finding import Finding, failed, looked_at
from resources.settings_file import Project


def examine(located: Callable[[], Project], ask_models: bool = False) -> dict[str, Any]:
    """{"ok": no failure, "checks": [{"name", "severity", "found", "remedy"}]}; `located` may raise SettingsError.

    With `ask_models` each model behind an endpoint is sent one word, which may cost. No text of documents is sent."""
    found = [*_everywhere(), *_here(located, ask_models)]
    return {"ok": all(each.severity != "failure" for each in found), "checks": [asdict(each) for each in found]}


def _everywhere() -> Iterator[Finding]:
    """What needs no settings."""
    yield from looked_at("python", installation.python)
    yield from looked_at("packages", installation.packages)
    yield from looked_at("files", installation.own_files)
    yield from looked_at("torch", installation.torch)
    yield from looked_at("memory", machine.memory)
    yield from looked_at("clock", machine.clock)
    yield from looked_at("confinement", machine.confinement)


def _here(located: Callable[[], Project], ask_models: bool) -> Iterator[Finding]:
    try:
        found = located()
    except SettingsError as error:
        yield failed("settings", error)
        return
    settings, state = found.settings, found.state
    yield from looked_at("settings", lambda: project.settings(found))
    yield from looked_at("sources", lambda: project.sources(found))
    yield from looked_at("state", lambda: machine.state_rights(state))
    yield from looked_at("disk", lambda: machine.disk(state))
    yield from looked_at("database", lambda: database.database(settings.database, state))
    yield from looked_at("store", lambda: store.store(settings))
    yield from looked_at("dagster", lambda: project.dagster(state))
    yield from looked_at("models", lambda: installation.models(settings))
    yield from looked_at("reading", lambda: machine.reading(settings))
    yield from looked_at("endpoints", lambda: endpoints.endpoints(settings, ask_models))
