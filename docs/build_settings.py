"""Writes docs/settings.md from the settings models: `python docs/build_settings.py`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pydantic import BaseModel  # noqa: E402

from pipelines.enrichment_settings import RoleSettings, RolesSettings  # noqa: E402
from pipelines.settings import Settings, SourceSettings  # noqa: E402

INTRODUCTION = """\
# Settings

One file, `pincite.yaml`, found in the current folder, by `--config FILE` or by `PINCITE_CONFIG`.
Everything is optional; an unknown key is refused with the nearest valid name. Paths are relative to
the file. Secrets come from the environment only. This page is generated from the models
(`python docs/build_settings.py`).
"""


def kind_of(annotation: Any) -> str:
    """A type as a person would say it."""
    names = {str: "text", int: "whole number", float: "number", bool: "yes or no", type(None): "nothing"}
    if annotation in names:
        return names[annotation]
    if hasattr(annotation, "__metadata__"):
        return kind_of(annotation.__origin__)
    arguments = [item for item in get_args(annotation) if item is not Ellipsis]
    if arguments and all(isinstance(item, str) for item in arguments):
        return " or ".join(f"`{item}`" for item in arguments)
    if getattr(annotation, "__origin__", None) is Mapping:
        return "mapping"
    if getattr(annotation, "__origin__", None) is tuple:
        return f"list of {kind_of(arguments[0])}"
    return " or ".join(kind_of(item) for item in arguments if item is not type(None)) or annotation.__name__


def default_of(value: Any) -> str:
    if value is None:
        return "–"
    if value == {}:
        return "`{}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(value)}]`"
    return f"`{value}`"


def table(model: type[BaseModel]) -> str:
    lines = ["| key | default | kind | meaning |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        if isinstance(field.default, BaseModel) or name == "sources":
            continue
        default = "required" if field.is_required() else default_of(field.default)
        lines.append(f"| `{name}` | {default} | {kind_of(field.annotation)} | {field.description} |")
    return "\n".join(lines)


def page() -> str:
    parts = [INTRODUCTION, "## Top level\n", table(Settings), "", "## `sources`\n"]
    parts += ["A list; each source has\n", table(SourceSettings)]
    for name, field in Settings.model_fields.items():
        if isinstance(field.default, BaseModel):
            parts += ["", f"## `{name}`\n", table(type(field.default))]
            for inner, part in type(field.default).model_fields.items():
                if isinstance(part.default, BaseModel) and not isinstance(part.default, RolesSettings):
                    section = type(part.default)
                    parts += ["", f"### `{name}.{inner}`\n", f"{section.__doc__}\n", table(section)]
    parts += ["", "### `llm.roles`\n", f"{RolesSettings.__doc__}\n", "| role | for |", "|---|---|"]
    parts += [f"| `{name}` | {field.description} |" for name, field in RolesSettings.model_fields.items()]
    parts += ["", "Each role has\n", table(RoleSettings)]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "settings.md").write_text(page(), encoding="utf-8")
