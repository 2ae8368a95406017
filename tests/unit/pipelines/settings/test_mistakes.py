from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from pincite.serve.api import Ask, Listing
from pincite.serve.mcp import AskFor, Fetch, PageImageOf, SearchFor
from pipelines.errors import SettingsError
from pipelines.settings.base import Settings, settings_from
from pipelines.settings.section import describe_type, explain_errors


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"schedule": "0 4 * * *"}, "'schedule': expected a mapping with keys of cron, timezone; found '0 4 * * *'"),
        ({"embedder": "english-small"}, "setting 'embedder': expected a mapping with keys of preset, model,"),
        ({"chunking": None}, "setting 'chunking': expected a mapping with keys of strategy,"),
        ({"sources": ["handbook"]}, "setting 'sources.0': expected a mapping with keys of name, path,"),
        ({"sources": ["handbook"]}, "found 'handbook'; write {name: NAME, path: handbook}"),
        (
            {"schedule": {"cron": "every day"}},
            "'schedule.cron': 'every day' is no schedule: write minute, hour,",
        ),
        ({"schedule": {"cron": "0 25 * * *"}}, "'25' is no hour: write *, a number from 0 to 23"),
        (
            {"schedule": {"cron": "0 0 * * mon-fry"}},
            "'mon-fry' is no day of the week: write *, a number from 0 to 7,",
        ),
        ({"schedule": {"cron": "*/0 * * * *"}}, "'*/0' is no minute"),
        ({"sources": "handbook"}, "setting 'sources': expected a list (write it as [...]); found 'handbook'"),
        ({"sources": [{"name": "a"}]}, "setting 'sources.0.path' is missing"),
        ({"state": 3}, "setting 'state': expected text (put it in quotes); found 3"),
        ({"buckets": 16.5}, "setting 'buckets': expected a whole number from 1 to 64; found 16.5"),
        ({"shards": "many"}, "setting 'shards': expected"),
        (
            {"vector_index": {"memory_mb": "2GB"}},
            "'vector_index.memory_mb': expected a whole number from 16 to 2097151; found '2GB'",
        ),
        ({"publish": {"max_drop": "2 %"}}, "setting 'publish.max_drop': expected a number from 0 to 1; found '2 %'"),
        ({"chunking": {"strategy": "semantic"}}, "expected 'structure', 'page', 'recursive', 'sentences' or 'cluster'"),
        ({"query": {"candidates": -3}}, "setting 'query.candidates': expected a whole number from 1 to 1000; found -3"),
        ({"query": {"rerank": "weighted"}}, "'query.rerank': expected a list (write it as [...]); found 'weighted'"),
    ],
)
def test_a_message_names_the_found_and_the_expected_value(values: object, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_from(values)
    assert told in str(caught.value)
    assert "Settings" not in str(caught.value), "a name of the code's own says nothing to who wrote the file"


@pytest.mark.parametrize("secret", ["postgresql://pincite:hunter2@db.example/docs", "sk-0123456789abcdef0123456789"])
def test_possible_secrets_are_not_repeated(secret: str) -> None:
    for values in ({"buckets": secret}, {"embedder": secret}, {"serve": {"auth": secret}}, {"sources": secret}):
        with pytest.raises(SettingsError) as caught:
            settings_from(values)
        assert secret not in str(caught.value)
        assert "found text" in str(caught.value)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"chunking": {"overlap_floor": "high"}},
            "'chunking.overlap_floor': expected a number or 'auto'; found 'high'",
        ),
        (
            {"llm": {"roles": {"answer": {"temperature": 3}}}},
            "'llm.roles.answer.temperature': expected a number from 0 to 2 or 'none'; found 3",
        ),
        ({"sentences": {"related_floor": 0}}, "expected a number above 0 and of at most 1; found 0"),
        ({"sentences": {"related_floors": {"mine": 2}}}, "'sentences.related_floors.mine': expected a number above 0"),
        ({"parsing": {"workers": -1}}, "'parsing.workers': expected a whole number of at least 0; found -1"),
        ({"parsing": {"readers": {".docx": "mine"}}}, "expected 'auto', 'own' or 'unstructured'; found 'mine'"),
        ({"serve": {"host": ""}}, "'serve.host': expected text of at least 1 character (put it in quotes); found ''"),
        ({"query": {"rerank": ["best"]}}, "setting 'query.rerank.0': expected 'none', 'weighted',"),
        ({"sources": [{"name": "a", "path": "a", "options": {1: "x"}}]}, "expected a name that is text"),
        ({"embedder": {"query_fields": {"task": []}}}, "or yes or no; found a list"),
        ({1: "x"}, "unknown setting '1'; valid names: state,"),
    ],
)
def test_bounds_and_choices_are_told_as_they_are(values: object, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_from(values, "pincite.yaml")
    assert told in str(caught.value)
    assert str(caught.value).count("found") <= 1, "a value that is none of several types is one mistake"


# ---------------------------------------------------------------- every field of every model

Path = tuple[Any, ...]
WRONG: Path = (
    "no such word", "", "x" * 20_000, -1, 0, 0.5, 1 << 40, -1e300, float("nan"), float("inf"), True, [], [[]],
    ["x"] * 2_000, {"x": []}, {1: "x"}, {"x": {"y": 1}},
)  # fmt: skip
KNOWN = {"ge", "gt", "le", "lt", "min_length", "max_length", "allow_inf_nan", "func"}
"""Attributes by which what a field asks for is known; `func` is of a validator, which has words of its own."""


def fields(model: type[BaseModel], place: Path = ()) -> Iterator[tuple[Path, FieldInfo]]:
    """Every field, those of lists and mappings of sections at their first place; and what a path of it begins with."""
    for name, field in model.model_fields.items():
        yield (*place, name), field
        for held in held_by(field.annotation):
            section, inside = held
            yield from fields(section, (*place, name, *inside))


def held_by(annotation: Any) -> Iterator[tuple[type[BaseModel], Path]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, ()
    inside: Path = {tuple: (0,), list: (0,), dict: ("m",), Mapping: ("m",)}.get(get_origin(annotation), ())
    for part in get_args(annotation):
        yield from ((section, (*inside, *more)) for section, more in held_by(part))


def at(place: Path, value: object) -> Any:
    """Values whose only one stands at a place."""
    for part in reversed(place):
        value = [value] if part == 0 else {part: value}
    return value


EVERY = [(model, *found) for model in (Settings, Ask, Listing, SearchFor, Fetch, PageImageOf, AskFor)
         for found in fields(model)]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "place", "field"), EVERY, ids=lambda it: getattr(it, "__name__", None) or str(it)[:60]
)
def test_every_field_says_what_it_expects_and_no_mistake_in_it_is_told_in_pydantics_words(
    model: type[BaseModel], place: Path, field: FieldInfo
) -> None:
    told = describe_type(Annotated[field.annotation, field])
    nested = [it for part in get_args(field.annotation) for it in getattr(part, "__metadata__", ())]
    bounds = [*field.metadata, *(bound for it in nested for bound in getattr(it, "metadata", [it]))]
    for bound in bounds:
        asked = {name: getattr(bound, name) for name in KNOWN if getattr(bound, name, None) is not None}
        assert asked, f"{place}: nothing here has words for {bound!r}"
        for name, value in asked.items():
            assert name in ("allow_inf_nan", "func") or str(value) in told or get_origin(field.annotation) is dict
    refused = 0
    for value in WRONG:
        try:
            model.model_validate(at(place, value))
        except ValidationError as error:
            mistakes = [item for item in error.errors() if item["loc"][: len(place)] == place]
            refused += bool(mistakes)
            for item in mistakes:
                (said,) = explain_errors(model, [item])
                assert item["type"] == "value_error" or item["msg"] not in said, said
                assert said.startswith((f"setting '{'.'.join(map(str, place))}", "unknown setting")), said
    assert refused, "nothing that is written there is refused"


@pytest.mark.parametrize(
    "cron",
    [
        "0 2 * * *",
        "*/5 8-18 * * mon-fri",
        "0,30 0 L JAN,mar ?",
        "0 22-2 1/2 * 7",
        "@daily",
        "0 0 * * 1#1",
        "0 0 * * L5",
    ],
)
def test_schedules_that_dagster_accepts_are_accepted(cron: str) -> None:
    assert settings_from({"schedule": {"cron": cron}}).schedule.cron == cron
