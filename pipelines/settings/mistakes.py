"""What is wrong with settings, in the words of whoever wrote them: the key, what was found, and what is expected."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel

_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "yes or no",
    "string": "text (put it in quotes)",
    "tuple": "a list (write it as [...])",
    "list": "a list (write it as [...])",
    "dict": "a mapping of names to values",
    "mapping": "a mapping of names to values",
}
"""By the first word of the kind of error that Pydantic tells."""
_KINDS = {
    type(None): "nothing",
    str: "text",
    bool: "yes or no",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "a mapping",
}
_LONGEST = 20


def explained(settings: type[BaseModel], error: Mapping[str, Any]) -> str:
    """One of a validation's errors, as Pydantic gives them, for settings of this model."""
    location = error["loc"]
    where, told = ".".join(map(str, location)), error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        return f"unknown setting {where!r}; {_nearest(str(location[-1]), _fields(settings, location[:-1]))}"
    if error["type"] == "missing":
        return f"setting {where!r} is missing"
    if error["type"] == "model_type":
        names = ", ".join(_fields(settings, location))
        return f"setting {where!r}: expected a mapping with keys of {names}; found {_found(error['input'])}"
    if error["type"] == "literal_error":
        valid = error["ctx"]["expected"]
        return f"setting {where!r}: expected {valid}; found {_found(error['input'])}"
    kind, _, problem = error["type"].partition("_")
    if kind in _EXPECTED and problem in ("type", "parsing", "from_float"):
        return f"setting {where!r}: expected {_EXPECTED[kind]}; found {_found(error['input'])}"
    return f"setting {where!r}: {told}" if where else told


def _nearest(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"valid names: {', '.join(names)}"


def _fields(settings: type[BaseModel], location: tuple[Any, ...]) -> list[str]:
    """Names valid at a place in the tree of settings."""
    section = settings
    for part in location:
        if isinstance(part, str) and part in section.model_fields:
            section = _section_of(section.model_fields[part].annotation)
    return list(section.model_fields)


def _section_of(annotation: Any) -> Any:
    """The section that an annotation holds: itself, or what a list, a mapping or an option is of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _section_of(part))), None)


def _found(value: Any) -> str:
    """A number or a short word as it stands; of all else the kind, since it may be a secret in the wrong place."""
    short = isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= _LONGEST)
    return repr(value) if short and "@" not in str(value) else _KINDS.get(type(value), type(value).__name__)
