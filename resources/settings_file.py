"""Where settings come from: the file, the command's overrides, the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import SettingsError
from pipelines.settings import Settings, settings_from
from resources import yaml_text

DEFAULT_FILE = "pincite.yaml"
CONFIG_VARIABLE = "PINCITE_CONFIG"
STATE_VARIABLE = "PINCITE_STATE"


@dataclass(frozen=True, slots=True)
class Located:
    """Settings with the places they speak of made absolute."""

    settings: Settings
    file: Path | None
    folder: Path
    state: Path

    def resolve(self, path: str) -> Path:
        """A path of the settings file, relative to its folder."""
        return (self.folder / Path(path).expanduser()).resolve()


def locate(config: str | None = None, state: str | None = None) -> Located:
    """Reads settings from `config`, else PINCITE_CONFIG, else ./pincite.yaml, else defaults.

    The state folder is `state`, else PINCITE_STATE, else the setting relative to the file.
    Raises SettingsError naming the file and the key."""
    named = config or os.environ.get(CONFIG_VARIABLE)
    file = Path(named).expanduser().resolve() if named else Path(DEFAULT_FILE).resolve()
    if named and not file.is_file():
        raise SettingsError(f"no settings file {file}; give one that exists with --config or {CONFIG_VARIABLE}")
    found = file.is_file()
    settings = settings_from(_read(file), str(file)) if found else Settings()
    folder = file.parent if found else Path.cwd()
    if settings.enrichment.prompts:
        prompts = str((folder / Path(settings.enrichment.prompts).expanduser()).resolve())
        settings = settings.model_copy(
            update={"enrichment": settings.enrichment.model_copy(update={"prompts": prompts})}
        )
    override = state or os.environ.get(STATE_VARIABLE)
    place = Path(override).expanduser().resolve() if override else (folder / settings.state).resolve()
    return Located(settings, file if found else None, folder, place)


def _read(file: Path) -> Any:
    import yaml

    try:
        return yaml_text.load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise SettingsError(f"{file}: not valid YAML: {' '.join(str(error).split())}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: cannot be read: {error}") from None
