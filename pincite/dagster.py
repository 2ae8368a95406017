"""The definitions of an index, to merge with those of another Dagster project: `dg.Definitions.merge(mine,
definitions(...))`."""

from __future__ import annotations

from pincite.environment import require_own

require_own()

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets.definitions import build_defs
from pipelines.settings.base import settings_from
from resources.settings_file import Project, locate

if TYPE_CHECKING:
    import dagster as dg

__all__ = ["definitions"]


def definitions(
    settings: Project | str | Path | None = None,
    state: str | Path | None = None,
    *,
    key_prefix: str | Sequence[str] | None = None,
    group: str | None = None,
) -> dg.Definitions:
    """Return the assets, checks, jobs, schedules, sensors and resources of one index. They have no executor and no
    `io_manager`, and those of several indexes can be merged.

    `settings` is a settings file; PINCITE_CONFIG and PINCITE_STATE count only if it is left out. `state` is the state
    folder, by default the one in the settings. `key_prefix` and `group` replace those of the settings' section
    `dagster`. If neither sets a prefix, asset keys have no prefix, and all other names begin with `pincite_`.

    Raise SettingsError, and ForeignPackageError if another package has the name of a package of pincite.
    """
    origin = Path(settings).expanduser().resolve() if isinstance(settings, str | Path) else settings
    place = str(Path(state).expanduser().resolve()) if state is not None else None
    given = {"key_prefix": key_prefix, "group": group}

    def find() -> Project:
        project = _project(origin, place)
        return replace(project, settings=project.settings.model_copy(update={"dagster": _names(project, given)}))

    return build_defs(find=find)


def _project(origin: Project | Path | None, state: str | None) -> Project:
    if isinstance(origin, Project):
        return origin if state is None else replace(origin, state=Path(state))
    return locate(state=state) if origin is None else locate(str(origin), state, variables={})


def _names(project: Project, given: dict[str, Any]) -> Any:
    values = {
        **project.settings.dagster.model_dump(),
        **{name: value for name, value in given.items() if value is not None},
    }
    if not values["key_prefix"] and not values["names"]:
        values["names"] = "pincite"
    return settings_from({"dagster": values}, "pincite.dagster.definitions").dagster
