"""The reading and checking of golden questions, and the mapping of their gold to places in the index.

Gold is a place in a source document, never a chunk id: a page or pages, a verbatim quote, offsets of the decoded
source, or the document as a whole. Gold that cannot be mapped is listed, and counts as missed. A question without gold
has no answer in the documents. A question may have filters that restrict the documents, and groups of the asker. It may
also name wrong places; if it names only wrong places, its right places are unknown.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.errors import UsageError
from pipelines.evaluation.document_map import DocumentMap, Occurrence
from pipelines.groups import group_names
from pipelines.plural import plural
from pipelines.query.retrieve import LONGEST_QUESTION
from pipelines.settings.query import LABEL

Pages = tuple[int, int]
"""First and last page."""

_GOLD_KEYS = {"uri": str, "source": str, "page": int, "page_end": int, "start": int, "end": int, "quote": str}


@dataclass(frozen=True, slots=True)
class Gold:
    """One gold place as read from the file, before it is mapped to the index."""

    uri: str
    source: str | None = None
    page: int | None = None
    page_end: int | None = None
    start: int | None = None
    end: int | None = None
    quote: str | None = None


@dataclass(frozen=True, slots=True)
class GoldenQuestion:
    """One question of the file. `filters` have the form of the option `--filter`, such as `uri=a.pdf`. `wrong` are
    places that do not answer it. `known` is false if the file names only wrong places: `gold` is then empty, although
    the documents may have an answer."""

    id: str
    question: str
    gold: tuple[Gold, ...]
    options: dict[str, str] = field(default_factory=dict)
    answer: str | None = None
    filters: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    wrong: tuple[Gold, ...] = ()
    known: bool = True


@dataclass(frozen=True, slots=True)
class GoldPlace:
    """One gold place in the index; `spans` are of the body. `named_page` is true if the file names the page; the page
    then decides which hits match. `elsewhere` holds the other places of the same quote if the quote is ambiguous.
    `lost` counts characters of gold text that could not be found; `problem` says why."""

    doc_id: str | None
    pages: Pages | None = None
    spans: Occurrence = ()
    named_page: bool = False
    lost: int = 0
    problem: str | None = None
    elsewhere: tuple[Occurrence, ...] = ()

    @property
    def occurrences(self) -> tuple[Occurrence, ...]:
        return (self.spans, *self.elsewhere)


@dataclass(frozen=True, slots=True)
class MappedQuestion:
    question: GoldenQuestion
    places: tuple[GoldPlace, ...]
    wrong: tuple[GoldPlace, ...] = ()


# ---------------------------------------------------------------- reading


class _GoldenLine:
    """A reader of one JSON object that checks its values; errors name file, line and key."""

    def __init__(self, origin: str, number: int) -> None:
        self._where = f"{origin} line {number}"

    def error(self, message: str) -> UsageError:
        return UsageError(f"{self._where}: {message}", code="golden")

    def typed_value(self, values: Mapping[str, Any], key: str, kind: type, name: str, required: bool = False) -> Any:
        value = values.get(key)
        if value is None:
            if required:
                raise self.error(f"key {name!r} is missing")
            return None
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.error(f"key {name!r} must be {_KINDS[kind]}, not {type(value).__name__}")
        if kind is str and required and not str(value).strip():
            raise self.error(f"key {name!r} is empty")
        return value


_KINDS = {str: "text", int: "a whole number", list: "a list", dict: "an object"}


def _gold(line: _GoldenLine, name: str, value: Any) -> Gold:
    if not isinstance(value, dict):
        raise line.error(f"key {name!r} must be an object, not {type(value).__name__}")
    for key in value:
        if key not in _GOLD_KEYS:
            near = difflib.get_close_matches(str(key), _GOLD_KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"valid keys: {', '.join(_GOLD_KEYS)}"
            raise line.error(f"unknown key '{name}.{key}'; {hint}")
    gold = Gold(**{k: line.typed_value(value, k, kind, f"{name}.{k}", k == "uri") for k, kind in _GOLD_KEYS.items()})
    if gold.page is not None and gold.page < 1:
        raise line.error(f"key '{name}.page' must be 1 or more, not {gold.page}")
    if gold.page_end is not None and (gold.page is None or gold.page_end < gold.page):
        raise line.error(f"key '{name}.page_end' needs a page that is not after it")
    if (gold.start is None) != (gold.end is None):
        raise line.error(f"keys '{name}.start' and '{name}.end' go together")
    if gold.start is not None and gold.end is not None and not 0 <= gold.start < gold.end:
        raise line.error(f"key '{name}.end' must be after '{name}.start', both 0 or more")
    if gold.quote is not None and not gold.quote.strip():
        raise line.error(f"key '{name}.quote' is empty")
    return gold


CheckFilters = Callable[[Sequence[str], Sequence[str]], object]
"""A function that raises UsageError for invalid filters; its arguments are filters and groups."""


def _filters(line: _GoldenLine, value: Any, check: CheckFilters | None) -> tuple[str, ...]:
    """Return filters in the form of `--filter`, from {key: value or allowed values} or from a list of such texts."""
    if value is None:
        return ()
    if isinstance(value, dict):
        found = [f"{key}={one}" for key, own in value.items() for one in _values_of(line, key, own)]
    elif isinstance(value, list) and all(isinstance(one, str) for one in value):
        found = value
    else:
        raise line.error(
            'key \'filter\' must be an object such as {"uri": "a.pdf"}, or a list such as ["date>=2024-05"]'
        )
    if check is not None:
        try:
            check(found, ())
        except UsageError as error:
            raise line.error(f"key 'filter': {str(error).removeprefix('--filter ')}") from None
    return tuple(found)


def _values_of(line: _GoldenLine, key: str, value: Any) -> list[Any]:
    if not key.startswith(LABEL) and key[-1:] in ("<", ">"):
        raise line.error(f"key 'filter.{key}' compares; write a list such as [\"{key}=2024-05\"]")
    values = value if isinstance(value, list) else [value]
    if not values:
        raise line.error(f"key 'filter.{key}' has no value; name one, or leave the key out")
    for one in values:
        if not isinstance(one, str | int) or isinstance(one, bool):
            raise line.error(f"key 'filter.{key}' must be text or a list of texts, not {type(one).__name__}")
    return values


def _question(line: _GoldenLine, value: Any, check: CheckFilters | None) -> GoldenQuestion:
    if not isinstance(value, dict):
        raise line.error(f"expected an object, not {type(value).__name__}")
    if isinstance(value.get("id"), int) and not isinstance(value["id"], bool):
        value = {**value, "id": str(value["id"])}
    options = line.typed_value(value, "options", dict, "options") or {}
    for key in options:
        line.typed_value(options, key, str, f"options.{key}", required=True)
    wrong = line.typed_value(value, "wrong", list, "wrong") or []
    if "gold" not in value and not wrong:
        raise line.error("key 'gold' is missing; give an empty list where the documents hold no answer")
    gold = line.typed_value(value, "gold", list, "gold", required="gold" in value) or []
    asked = line.typed_value(value, "question", str, "question", required=True)
    if (length := len(" ".join([asked, *options.values()]))) > LONGEST_QUESTION:
        raise line.error(f"key 'question' and its options have {length:,} characters; at most {LONGEST_QUESTION:,}")
    return GoldenQuestion(
        id=line.typed_value(value, "id", str, "id", required=True),
        question=asked,
        gold=tuple(_gold(line, f"gold[{number}]", item) for number, item in enumerate(gold)),
        options=dict(options),
        answer=line.typed_value(value, "answer", str, "answer"),
        filters=_filters(line, value.get("filter"), check),
        groups=_groups(line, value.get("groups")),
        wrong=tuple(_gold(line, f"wrong[{number}]", item) for number, item in enumerate(wrong)),
        known="gold" in value,
    )


def _groups(line: _GoldenLine, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    try:
        return group_names(value)
    except ValueError as error:
        raise line.error(f"key 'groups': {error}") from None


def golden_questions(
    objects: Iterable[tuple[int, Any]], origin: str = "golden questions", check_filters: CheckFilters | None = None
) -> list[GoldenQuestion]:
    """Return questions from (line number, parsed JSON value).

    Unknown keys of a question are ignored. Raises UsageError (code `golden`) naming `origin`, line and key for a wrong
    type, a missing or repeated id, or an unknown key of a gold place.
    """
    questions: list[GoldenQuestion] = []
    lines: dict[str, int] = {}
    for number, value in objects:
        line = _GoldenLine(origin, number)
        question = _question(line, value, check_filters)
        if question.id in lines:
            raise line.error(f"key 'id' repeats {question.id!r} of line {lines[question.id]}")
        lines[question.id] = number
        questions.append(question)
    if not questions:
        raise UsageError(f"{origin}: the file has no questions; add one on each line", code="golden")
    return questions


# ---------------------------------------------------------------- mapping


def _key(uri: str) -> str:
    return unicodedata.normalize("NFC", uri).removeprefix("./")


def _text_places(gold: Gold, document: DocumentMap) -> list[Occurrence]:
    """Return the places of the body that may hold the gold: near its offsets, on its pages, or anywhere."""
    by_offset: Occurrence = ()
    if gold.start is not None and gold.end is not None:
        by_offset = tuple(document.source_spans(gold.start, gold.end))
    found = document.occurrences(gold.quote) if gold.quote is not None else []
    if not found:
        return [by_offset] if by_offset else []
    if by_offset:
        return [min(found, key=lambda spans: abs(spans[0][0] - by_offset[0][0]))]
    if gold.page is None:
        return found
    wanted = range(gold.page, (gold.page_end or gold.page) + 1)
    on_page = [spans for spans in found if any(page in wanted for page in document.characters_by_page(spans))]
    return on_page or found


def _place(gold: Gold, document: DocumentMap | None) -> GoldPlace:
    named = None if gold.page is None else (gold.page, gold.page_end or gold.page)
    length = gold.end - gold.start if gold.start is not None and gold.end is not None else len(gold.quote or "")
    if document is None:
        where = f" in source {gold.source}" if gold.source else ""
        absent = f"no such document in the index{where}"
        return GoldPlace(None, named, named_page=bool(named), lost=length, problem=absent)
    problem: str | None = None
    if gold.page is not None and (document.pages is None or gold.page > document.pages):
        problem = f"the document has {plural(document.pages, 'page') if document.pages else 'no pages'}"
    spans, *elsewhere = (_text_places(gold, document) if length else []) or [()]
    if length and not spans:
        problem = "the text is not in the document's body"
    touched = document.characters_by_page(spans) if spans else {}
    pages = named
    if named is None:
        pages = (min(touched), max(touched)) if touched else None
    elif touched and not any(named[0] <= page <= named[1] for page in touched):
        problem = f"the text stands on page {min(touched)}, not on page {named[0]}"
    lost = length if length and not spans else 0
    return GoldPlace(document.doc_id, pages, spans, bool(named), lost, problem, tuple(elsewhere))


def map_questions(
    questions: Sequence[GoldenQuestion], documents: Iterable[DocumentMap]
) -> tuple[list[MappedQuestion], list[dict[str, Any]]]:
    """Return questions with their gold in the index, and the gold that could not be mapped: {id, gold (number of the
    place), uri, problem}.

    If two sources have the same uri and gold names no source, the first document that maps is used. A wrong place that
    cannot be mapped is not listed.
    """
    by_uri: dict[str, list[DocumentMap]] = {}
    for document in documents:
        by_uri.setdefault(_key(document.uri), []).append(document)
    mapped: list[MappedQuestion] = []
    unmapped: list[dict[str, Any]] = []

    def place_of(gold: Gold) -> GoldPlace:
        known = [d for d in by_uri.get(_key(gold.uri), ()) if gold.source in (None, d.source)]
        tried = [_place(gold, document) for document in known] or [_place(gold, None)]
        return next((item for item in tried if item.problem is None), tried[0])

    for question in questions:
        places = tuple(map(place_of, question.gold))
        for number, (gold, place) in enumerate(zip(question.gold, places, strict=True)):
            if place.problem is not None:
                unmapped.append({"id": question.id, "gold": number, "uri": gold.uri, "problem": place.problem})
        mapped.append(MappedQuestion(question, places, tuple(map(place_of, question.wrong))))
    return mapped, unmapped
