"""The sources of settings: the settings file, options of the command, and environment variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import SettingsError
from pipelines.settings.base import Settings, settings_from
from resources import yaml_text

DEFAULT_FILE = "pincite.yaml"
CONFIG_VARIABLE = "PINCITE_CONFIG"
STATE_VARIABLE = "PINCITE_STATE"
VARIABLES = (
    CONFIG_VARIABLE,
    STATE_VARIABLE,
    "PINCITE_CACHE",
    "PINCITE_PROXY_SECRET",
    "PINCITE_RUN_TMPDIR",
    "PINCITE_UI_TOKEN",
)
"""The environment variables that users set for pincite."""
_ALIKE = 0.9
"""Least similarity of a variable's name to a known one for it to count as misspelt."""


@dataclass(frozen=True, slots=True)
class Project:
    """Settings, and the absolute paths in them."""

    settings: Settings
    file: Path | None
    folder: Path
    state: Path

    def resolve(self, path: str) -> Path:
        """Return the absolute path for a path in the settings file, which is relative to the file's folder."""
        return (self.folder / Path(path).expanduser()).resolve()


FindProject = Callable[[], Project]
"""A function that reads the settings of an index when it is called."""


def locate(config: str | None = None, state: str | None = None, variables: Mapping[str, str] | None = None) -> Project:
    """Read settings from `config`, or else from PINCITE_CONFIG, ./pincite.yaml, or the defaults.

    The state folder is `state`, or else PINCITE_STATE, or the setting, relative to the file. The default of `variables`
    is the environment. Raise SettingsError naming the file and the key.
    """
    variables = os.environ if variables is None else variables
    named = config or variables.get(CONFIG_VARIABLE)
    file = Path(named).expanduser().resolve() if named else Path(DEFAULT_FILE).resolve()
    if named and not file.is_file():
        what = f"{file} is a folder" if file.is_dir() else f"no settings file {file}"
        raise SettingsError(f"{what}; name a file with --config or {CONFIG_VARIABLE}")
    found = file.is_file()
    if not found and (other := file.with_suffix(".yml")).is_file():
        raise SettingsError(f"{other} is not read; rename it to {file.name}, or name it with --config")
    settings = settings_from(_read(file), str(file)) if found else Settings()
    _require_timezone(settings.schedule.timezone, file)
    folder = file.parent if found else Path.cwd()
    settings = with_absolute_places(settings, folder)
    override = state or variables.get(STATE_VARIABLE)
    place = Path(override).expanduser().resolve() if override else (folder / settings.state).resolve()
    return Project(settings, file if found else None, folder, place)


def misspelt_variables(variables: Mapping[str, str] | None = None) -> list[str]:
    """Return a note for each environment variable whose name is similar to one that pincite reads."""
    import difflib

    named = [name for name in (os.environ if variables is None else variables) if name.startswith("PIN")]
    return [
        f"the environment variable {name} is not read; did you mean {near[0]}?"
        for name in named
        if name not in VARIABLES and (near := difflib.get_close_matches(name, VARIABLES, n=1, cutoff=_ALIKE))
    ]


def _require_timezone(name: str, file: Path) -> None:
    if name == "UTC":
        return
    import difflib
    import zoneinfo

    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        near = difflib.get_close_matches(name[:100], sorted(zoneinfo.available_timezones()), n=1)
        told = f"did you mean {near[0]!r}?" if near else "write a name such as Europe/Kyiv or UTC"
        raise SettingsError(f"{file}: setting 'schedule.timezone': unknown time zone {name[:100]!r}; {told}") from None


def project_at(place: Project | str | Path | None = None) -> Project:
    """Return the project of a settings file or a state folder, by default the project of the current folder. Raises the
    errors of `locate`."""
    if isinstance(place, Project):
        return place
    if place is not None and Path(place).is_dir():
        return locate(state=str(place))
    return locate(config=str(place) if place is not None else None)


def with_absolute_places(settings: Settings, folder: Path) -> Settings:
    """Return settings with absolute paths of prompts, models and synonyms. A relative path starts at the folder of the
    settings file, never at the current folder. A model with a revision is a name on a hub, unless it begins with `.`,
    `/` or `~`."""
    enrichment, embedder, query = settings.enrichment, settings.embedder, settings.query
    prompts = str((folder / Path(enrichment.prompts).expanduser()).resolve()) if enrichment.prompts else None
    synonyms = str((folder / Path(query.synonyms).expanduser()).resolve()) if query.synonyms else None
    model = embedder.model if embedder.endpoint else _model(embedder.model, embedder.revision, folder)
    reranker = query.cross_encoder
    read = reranker.model if reranker.endpoint else _model(reranker.model, reranker.revision, folder)
    judge = reranker.model_copy(update={"model": read})
    return settings.model_copy(
        update={
            "enrichment": enrichment.model_copy(update={"prompts": prompts}) if prompts else enrichment,
            "embedder": embedder.model_copy(update={"model": model}),
            "query": query.model_copy(update={"cross_encoder": judge, "synonyms": synonyms}),
        }
    )


def _model(model: str | None, revision: str | None, folder: Path) -> str | None:
    if not model or (revision and not model.startswith((".", "/", "~"))):
        return model
    place = (folder / Path(model).expanduser()).resolve()
    return str(place) if place.is_dir() else model


def _read(file: Path) -> Any:
    import yaml

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: the file cannot be read: {error}; check its path and permissions") from None
    try:
        return yaml_text.load(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"{file}, {yaml_text.describe_error(error, text)}") from None
