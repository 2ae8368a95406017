"""Writes what is built from code into docs/reference: `python docs/build.py`.

A built part of a page stands between `<!-- built: NAME -->` and `<!-- end of NAME -->`; all else of the page is written
by hand. The JSON Schema of structural maps is a file of its own.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pydantic import BaseModel  # noqa: E402

from pincite.codes import ERRORS, EXITS, EXPLAINED, FAILURES, SKIPPED, Told  # noqa: E402
from pipelines.errors import LIMITED, PASSING, UNREAD  # noqa: E402
from pipelines.parsing.elements import KINDS  # noqa: E402
from pipelines.parsing.formats import FORMATS, Format  # noqa: E402
from pipelines.settings.base import Settings  # noqa: E402
from pipelines.settings.models import RoleSettings, RolesSettings  # noqa: E402
from pipelines.settings.sources import SourceSettings  # noqa: E402
from resources.checks.findings import AUDITED, PROBLEMS  # noqa: E402
from resources.parsers import elements_map as schema  # noqa: E402

REFERENCE = ROOT / "docs" / "reference"
_PART = re.compile(r"<!-- built: (\w+) -->\n\n.*?\n\n<!-- end of \1 -->\n", re.DOTALL)


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(header)
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *rows))


# ---------------------------------------------------------------- settings


def settings() -> str:
    """Every section of the settings, its keys in the order of the models."""
    parts = ["## Top level", _keys(Settings), "## `sources`", f"A list; each source has\n\n{_keys(SourceSettings)}"]
    for name, field in Settings.model_fields.items():
        if isinstance(field.default, BaseModel):
            parts += [f"## `{name}`", _keys(type(field.default)), *_inner(name, type(field.default))]
    roles = ((f"`{name}`", field.description or "") for name, field in RolesSettings.model_fields.items())
    parts += ["### `llm.roles`", str(RolesSettings.__doc__), table(("role", "for"), roles)]
    return "\n\n".join([*parts, f"Each role has\n\n{_keys(RoleSettings)}"])


def _inner(name: str, section: type[BaseModel]) -> Iterator[str]:
    for inner, part in section.model_fields.items():
        if isinstance(part.default, BaseModel) and not isinstance(part.default, RolesSettings):
            yield from (f"### `{name}.{inner}`", str(type(part.default).__doc__), _keys(type(part.default)))


def _keys(model: type[BaseModel]) -> str:
    rows = (
        (
            f"`{name}`",
            "required" if field.is_required() else _value(field.default),
            _kind(field.annotation),
            field.description or "",
        )
        for name, field in model.model_fields.items()
        if not isinstance(field.default, BaseModel) and name != "sources"
    )
    return table(("key", "default", "kind", "meaning"), rows)


def _kind(annotation: Any) -> str:
    """A type as a person would say it."""
    names = {str: "text", int: "whole number", float: "number", bool: "yes or no", type(None): "nothing"}
    if annotation in names:
        return names[annotation]
    if hasattr(annotation, "__metadata__"):
        return _kind(annotation.__origin__)
    arguments = [item for item in get_args(annotation) if item is not Ellipsis]
    if arguments and all(isinstance(item, str) for item in arguments):
        return " or ".join(f"`{item}`" for item in arguments)
    if getattr(annotation, "__origin__", None) is Mapping:
        return "mapping"
    if getattr(annotation, "__origin__", None) is tuple:
        return f"list of {_kind(arguments[0])}"
    return " or ".join(_kind(item) for item in arguments if item is not type(None)) or annotation.__name__


def _value(value: Any) -> str:
    if value is None:
        return "–"
    if value == {}:
        return "`{}`"
    return f"`[{', '.join(value)}]`" if isinstance(value, tuple) else f"`{value}`"


# ---------------------------------------------------------------- formats


def formats() -> str:
    """Every ending of a file, who reads it, what is kept, and what it needs."""
    rows = ((_endings(found.endings), _reader_of(found), found.keeps, found.needs or "–") for found in FORMATS)
    return table(("endings", "reader", "keeps", "needs"), rows)


def _endings(endings: Iterable[str]) -> str:
    return " ".join(f"`{ending}`" for ending in endings)


def _reader_of(found: Format) -> str:
    if not found.own:
        return "unstructured"
    other = "unstructured" if found.either == found.endings else f"for {_endings(found.either)} unstructured"
    return f"pincite, or {other}" if found.either else "pincite"


# ---------------------------------------------------------------- structural maps

KIND_MEANINGS = {
    "heading": "A title or heading; `level` counts from 1. It opens a section.",
    "paragraph": "Running text.",
    "list_item": "An item; `level` is its nesting, `marker` what stands before it.",
    "table": "`cells`, and no text of its own.",
    "caption": "Of the table or figure that it stands before or after.",
    "formula": "A displayed formula, as LaTeX or text.",
    "code": "Lines and indentation are kept.",
    "key_value": "A label and its value; the value also goes into `metadata` as `kv.LABEL`.",
    "footnote": "A note at the foot of its page.",
    "quote": "A quotation set apart.",
    "figure": "A picture. With a `text`, that is its description, and is found; without, it only has its place.",
    "page_header": "A running header: kept, but no part of the text.",
    "page_footer": "A running footer or page number: kept, but no part of the text.",
    "break": "A break between sections, without text.",
}
_MAPS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("The file", schema.ElementMap),
    ("`document`", schema.MapDocument),
    ("`pages[]`", schema.MapPage),
    ("`elements[]`", schema.MapElement),
    ("`cells[]`", schema.MapCell),
    ("`runs[]`", schema.MapRun),
    ("`boxes[]`, `box`", schema.MapBox),
)


def elements() -> str:
    """The kinds of elements, and the keys of every part of a structural map."""
    assert KIND_MEANINGS.keys() == KINDS, KIND_MEANINGS.keys() ^ KINDS
    kinds = table(("kind", "meaning"), ((f"`{kind}`", said) for kind, said in KIND_MEANINGS.items()))
    return "\n\n".join(["## Kinds", kinds, *(f"## {name}\n\n{_map_keys(model)}" for name, model in _MAPS)])


def elements_schema() -> str:
    values = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema.ElementMap.model_json_schema()}
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def _map_keys(model: type[BaseModel]) -> str:
    fields = sorted(model.model_fields.items(), key=lambda item: not item[1].is_required())
    rows = (
        (f"`{name}`", _map_value(field), _map_kind(field.annotation), field.description or "") for name, field in fields
    )
    return table(("key", "default", "kind", "meaning"), rows)


def _map_kind(annotation: Any) -> str:
    """A type of JSON as a person would say it."""
    names = {str: "text", int: "whole number", float: "number", bool: "true or false", dict: "object"}
    if annotation in names:
        return names[annotation]
    origin, arguments = get_origin(annotation), [item for item in get_args(annotation) if item is not type(None)]
    if origin is dict:
        return "object of texts"
    if origin is list:
        return f"list of {_map_kind(arguments[0]).removeprefix('a ')}".replace("box", "boxes").replace("text", "texts")
    if hasattr(annotation, "__metadata__"):
        return _map_kind(arguments[0])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        plural = annotation.__name__.removeprefix("Map").lower() + "s"
        return {"MapBox": "a box", "MapDocument": "object"}.get(annotation.__name__, plural)
    if arguments and all(isinstance(item, int) for item in arguments):
        return f"`{arguments[0]}`"
    return " or ".join(_map_kind(item) for item in arguments)


def _map_value(field: Any) -> str:
    if field.is_required():
        return "required"
    empty = field.default in (None, "", [], {}) or isinstance(field.default, BaseModel)
    return "–" if empty else f"`{json.dumps(field.default)}`"


# ---------------------------------------------------------------- codes

_KEPT = "of generations beside the live one: `pincite generations prune --keep 1` drops them"


def codes() -> str:
    """A table of each kind of code."""
    exits = ((str(code), _sentence(what), _sentence(remedy)) for code, (what, remedy) in EXITS.items())
    explained = ((f"`{code}`", _sentence(what)) for code, what in sorted(EXPLAINED.items()))
    parts = [
        "## Exit codes",
        table(("exit code", "meaning", "what to do"), exits),
        "## Errors of commands",
        'With `--json`: `{"error": {"code", "message"}}` on standard output. The message names the thing and the '
        "remedy.",
        _remedies(ERRORS),
        "## Failures of documents",
        "In `documents.failed` of `pincite index --json` and `failures` of `pincite status --json`, each with its "
        "stage. A failed\ndocument is not tried again before it changes, unless its code says so or `pincite index "
        "--retry-failed` is run.",
        _failures(),
        "## Files that are no documents",
        "In `documents.skipped` of `pincite index --json`.",
        _remedies(SKIPPED),
        "## Problems of an index",
        "What `pincite verify` finds; audits before publishing and the checks of a run find some of them. `g0001` "
        "stands for the\nschema of the generation.",
        _remedies(_found()),
        "## Problems of `pincite explain`",
        "All but `held` and `refused_text` are mended by `pincite index`, where the generation is the live one.",
        table(("code", "meaning"), explained),
    ]
    return "\n\n".join(parts)


def _sentence(text: str) -> str:
    """With a capital and a full stop, unless it begins with a command or a key."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def _remedies(told: Mapping[str, Told]) -> str:
    rows = ((f"`{code}`", _sentence(what), _sentence(remedy)) for code, (what, remedy) in sorted(told.items()))
    return table(("code", "meaning", "what to do"), rows)


def _found() -> Mapping[str, Told]:
    """What `verify`, audits and checks find; a message carries its remedy, with the generation's schema."""
    said = {code: (what, remedy or _KEPT) for code, (what, remedy) in PROBLEMS.items()}
    return {
        code: (what, remedy.replace("{schema}", "g0001")) for code, (what, remedy) in (said | dict(AUDITED)).items()
    }


def _failures() -> str:
    rows = (
        (
            f"`{code}`",
            ", ".join(f"`{stage}`" for stage in stages.split(", ")),
            _sentence(what),
            _sentence(remedy),
            _tried_again(code),
        )
        for code, (stages, what, remedy) in sorted(FAILURES.items())
    )
    return table(("code", "stage", "meaning", "what to do", "tried again"), rows)


def _tried_again(code: str) -> str:
    known = (("yes", PASSING), ("under other limits", LIMITED), ("with other readers installed", UNREAD))
    return next((told for told, codes in known if code in codes), "no")


# ---------------------------------------------------------------- pages

PARTS: Mapping[str, Callable[[], str]] = {
    "settings": settings,
    "elements": elements,
    "codes": codes,
    "formats": formats,
}


def pages() -> dict[Path, str]:
    """Every file that has a built part, as it should be."""
    found = {REFERENCE / "elements.schema.json": elements_schema()}
    for page in sorted(REFERENCE.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if _PART.search(text):
            found[page] = _PART.sub(_built, text)
    return found


def _built(part: re.Match[str]) -> str:
    return f"<!-- built: {part[1]} -->\n\n{PARTS[part[1]]()}\n\n<!-- end of {part[1]} -->\n"


if __name__ == "__main__":
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
