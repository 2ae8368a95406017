"""The base of every section of the settings, and the messages that explain a wrong setting to its author.

A message names the key, the value found, and the value expected.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

# ---------------------------------------------------------------- section


class Section(BaseModel):
    """A frozen section of settings; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


# ---------------------------------------------------------------- mistakes
#
# The expected value is described from the model, its types and bounds, and not from Pydantic's message. Every mistake
# is therefore described in the same words.


_KINDS = {
    type(None): "nothing",
    str: "text",
    bool: "yes or no",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "a mapping",
}
_SCALARS = {bool: "yes or no", int: "a whole number{}", float: "a number{}", str: "text{} (put it in quotes)"}
_BOUNDS = {"ge": "of at least {}", "gt": "above {}", "le": "of at most {}", "lt": "below {}"}
_LONGEST, _LONGEST_NAME = 20, 100


def explain_errors(model: type[BaseModel], errors: Iterable[Mapping[str, Any]], noun: str = "setting") -> list[str]:
    """Return the problems in the values for this model, from Pydantic's errors; `noun` names the kind of its keys. A
    value that matches none of several types is one problem, although Pydantic reports an error for each type."""
    return list(dict.fromkeys(_explain_error(model, error, noun) for error in errors))


def _explain_error(model: type[BaseModel], error: Mapping[str, Any], noun: str) -> str:
    location, kind = error["loc"], error["type"]
    if kind in ("extra_forbidden", "invalid_key"):
        names = list(_bare(_place_at(model, location[:-1])[1]).model_fields)
        return f"unknown {_setting_name(noun, location)}; {_nearest(str(location[-1]), names)}"
    place, expected = _place_at(model, location)
    if kind == "missing":
        return f"{_setting_name(noun, place)} is missing"
    if kind == "value_error":  # a validator of ours
        told: str = error["msg"].removeprefix("Value error, ")
        return f"{_setting_name(noun, place)}: {told}" if place else told
    where = _setting_name(noun, place) if place else f"all {noun}s"
    if location[-1:] == ("[key]",):
        return f"{where}: expected a name that is text (put it in quotes); found {_found_text(error['input'])}"
    many = kind.endswith("too_long")
    found = len(error["input"]) if many else _found_text(error["input"])
    return f"{where}: expected {describe_type(expected)}; found {found}{_suggestion(error['input'], expected)}"


def describe_type(annotation: Any, bounds: Sequence[Any] = ()) -> str:
    """Return a description of the allowed values of a type; `bounds` are the bounds of a field with this type."""
    if get_origin(annotation) is Annotated:
        inner, *given = get_args(annotation)
        of_fields = [bound for it in given if isinstance(it, FieldInfo) for bound in it.metadata]
        return describe_type(inner, [*bounds, *given, *of_fields])
    members = _members(annotation)
    if len(members) > 1 or members[0] is not annotation:
        return _either([describe_type(member, bounds) for member in members])
    origin = get_origin(annotation) or annotation
    if origin is Literal:
        return _either([repr(value) for value in get_args(annotation)])
    if issubclass(origin, BaseModel):
        return f"a mapping with keys of {', '.join(origin.model_fields)}"
    if origin is str:
        return _SCALARS[str].format(_length(bounds, "character"))
    if origin in _SCALARS:
        return _SCALARS[origin].format(_range(bounds))
    if issubclass(origin, Mapping):
        return "a mapping of names to values"
    return f"a list{_length(bounds, 'item')} (write it as [...])"


def _place_at(model: type[BaseModel], location: Sequence[Any]) -> tuple[list[Any], Any]:
    """Return a place in the settings, and the annotation of the values allowed there. For a value of several types,
    Pydantic's location also has the types that it tried. They are left out, since the author does not see them."""
    place: list[Any] = []
    expected: Any = model
    for part in location:
        inner = _annotation_within(_bare(expected), part)
        if inner is None:
            break
        place.append(part)
        expected = inner
    return place, expected


def _annotation_within(kind: Any, part: Any) -> Any:
    """Return the annotation at a key of a section, at a name of a mapping, or in a list, or None."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = kind.model_fields.get(part)
        return field and Annotated[field.annotation, field]
    if get_origin(kind) in (None, Literal, Union, UnionType) or part == "[key]":
        return None
    return next(inner for inner in reversed(get_args(kind)) if inner is not Ellipsis)


def _bare(annotation: Any) -> Any:
    """Return a type without its annotations, and without None as an alternative."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    members = _members(annotation)
    return annotation if members[0] is annotation or len(members) > 1 else _bare(members[0])


def _members(annotation: Any) -> list[Any]:
    """Return the types that a value may have, without None, which means that the key is left out."""
    if get_origin(annotation) in (Union, UnionType):
        return [member for member in get_args(annotation) if member is not NoneType]
    return [annotation]


# ---------------------------------------------------------------- wording


def _bound_of(bounds: Iterable[Any], name: str) -> Any:
    return next((found for it in bounds if (found := getattr(it, name, None)) is not None), None)


def _range(bounds: Sequence[Any]) -> str:
    found = {name: bound for name in _BOUNDS if (bound := _bound_of(bounds, name)) is not None}
    if found.keys() == {"ge", "le"}:
        return f" from {found['ge']} to {found['le']}"
    told = " and ".join(_BOUNDS[name].format(bound) for name, bound in found.items())
    return f" {told}" if told else ""


def _length(bounds: Sequence[Any], unit: str) -> str:
    least, most = _bound_of(bounds, "min_length"), _bound_of(bounds, "max_length")
    if most is not None:
        return f" of {f'{least} to ' if least else 'at most '}{most} {unit}s"
    return f" of at least {least} {unit}{'s' if least > 1 else ''}" if least else ""


def _either(words: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _setting_name(noun: str, location: Sequence[Any]) -> str:
    return f"{noun} {'.'.join(map(str, location))[:_LONGEST_NAME]!r}"


def _nearest(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name[:_LONGEST_NAME], names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"valid names: {', '.join(names)}"


def _suggestion(value: Any, expected: Any) -> str:
    """Return a question that suggests the valid value nearest to a wrong text; for a section, it names one of its
    keys."""
    if not isinstance(value, str) or len(value) > _LONGEST or "@" in value:
        return ""
    if needed := [name for name, field in _fields(_bare(expected)).items() if field.is_required()]:
        *names, last = needed
        return f"; write {{{', '.join([*(f'{name}: {name.upper()}' for name in names), f'{last}: {value}'])}}}"
    for key, kind in [("", expected), *_choices(_bare(expected))]:
        names = [str(each) for member in _members(_bare(kind)) for each in _values(member)]
        near = [name for name in names if value.lower() in name.lower().split("-")] or difflib.get_close_matches(
            value.lower(), names, n=1
        )
        if near:
            return f"; did you mean {f'{{{key}: {near[0]}}}' if key else repr(near[0])}?"
    return ""


def _values(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


def _choices(kind: Any) -> list[tuple[str, Any]]:
    """Return the keys of a section, each with the type of its values."""
    return [(name, field.annotation) for name, field in _fields(kind).items()]


def _fields(kind: Any) -> Mapping[str, FieldInfo]:
    return kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else {}


def _found_text(value: Any) -> str:
    """Return a number or short word unchanged, but only the kind of another value, which may be a misplaced secret."""
    short = isinstance(value, bool | int | float) or (isinstance(value, str) and "@" not in value)
    shown = repr(value) if short else ""
    return shown if 0 < len(shown) <= _LONGEST + 2 else _KINDS.get(type(value), type(value).__name__)
