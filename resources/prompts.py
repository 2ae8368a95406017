"""The choice of prompt files: those shipped in `prompts/`, and those in the user's own folder, which take
precedence."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from pipelines.errors import SettingsError
from pipelines.llm.prompts import FIELDS, template_from
from resources.child_process import shipped_folder

_FOLDER = Path(shipped_folder("prompts"))
_NAME = re.compile(r"([a-z_]+)\.([a-z]{2,3}(?:-[A-Za-z0-9]{2,8})*)\.md")


def read_prompts(folder: Path | None = None) -> dict[str, dict[str, str]]:
    """Read the texts of the prompt files, by name and language. Files in `folder` replace shipped files of the same
    name, and may add languages (`summary.de.md`).

    Raises SettingsError, naming the folder or file and the remedy, if it cannot be read, has no prompt's name, has no
    divider, or has a wrong placeholder.
    """
    texts = _texts(_FOLDER)
    missing = [f"{name}.en.md" for name in FIELDS if "en" not in texts.get(name, {})]
    if missing:
        raise SettingsError(f"{_FOLDER}: {', '.join(missing)} is not installed; install pincite again")
    if folder is not None:
        for name, languages in _texts(folder).items():
            texts[name].update(languages)
    return texts


def _texts(folder: Path) -> dict[str, dict[str, str]]:
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix == ".md")
    except OSError as error:
        raise SettingsError(
            f"{folder}: the folder of prompts cannot be listed ({error.strerror}); correct enrichment.prompts"
        ) from None
    texts: dict[str, dict[str, str]] = {}
    for file in files:
        match = _NAME.fullmatch(file.name)
        if not match or match.group(1) not in FIELDS:
            raise SettingsError(f"{file}: no prompt has this name; {_remedy(file.name)}")
        name, language = match.groups()
        texts.setdefault(name, {})[language] = _text(file, name)
    return texts


def _text(file: Path, name: str) -> str:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SettingsError(f"{file}: the prompt cannot be read ({error.strerror}); check its permissions") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{file}: the prompt is not UTF-8; save it as UTF-8") from None
    template_from(text, str(file), FIELDS[name])
    return text


def _remedy(file_name: str) -> str:
    """Return a remedy with the nearest valid name, in the language of the file's name, or else English."""
    stem, *given = file_name.lower().removesuffix(".md").split(".")
    language = next((part for part in given if re.fullmatch("[a-z]{2,3}", part)), "en")
    near = difflib.get_close_matches(stem, FIELDS, n=1)
    return f"did you mean {near[0]}.{language}.md?" if near else f"name it NAME.en.md, NAME one of {', '.join(FIELDS)}"
