"""The requests that may be made over HTTP, the same in a query string and in JSON, and the errors as askers see
them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request

from pincite.guard import no_text
from pipelines.errors import DatabaseError, DocumentError, IndexStateError, PinciteError, UsageError
from pipelines.inert import clear
from pipelines.settings.query import HITS, StrategyName
from pipelines.settings.section import explained

MOST_HITS = 100
UNFORESEEN = "an error that was not foreseen; the server's log has it"
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
M = TypeVar("M", bound=BaseModel)


class Search(BaseModel):
    """A question, and how it is to be searched for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    q: str = Field(min_length=1, max_length=10_000, description="The question.")
    k: int = Field(HITS, ge=1, le=MOST_HITS, description="Hits to give.")
    strategy: StrategyName | None = Field(None, description="How candidates are found; the settings' where left out.")
    rerank: str | None = Field(None, max_length=200, description="Rerankers by commas; the settings' where left out.")
    filter: tuple[str, ...] = Field((), max_length=50, description="KEY=VALUE, as of `pincite query --filter`.")


class Ask(Search):
    """A question to be answered."""

    option: tuple[str, ...] = Field((), max_length=26, description="LETTER=TEXT of answers to choose from.")


class Listing(BaseModel):
    """Documents in the order of their ids."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    after: str = Field("", max_length=200, description="Those after this doc_id: the last of the list before.")
    most: int = Field(100, ge=1, le=1000, description="How many at most.")


_MANY: Final = ("filter", "option")
MOST_TOLD: Final = 5
"""Most faults of a request that an error names."""


async def asked(request: Request, model: type[M]) -> M:
    """Return what a request asks, from its query string or, by POST, from its JSON. Raises UsageError."""
    values: Any
    if request.method == "POST":
        values = await body_of(request)
    else:
        pairs = request.query_params.multi_items()
        single = [(name, value) for name, value in pairs if name not in _MANY]
        values = dict(single)
        if len(values) < len(single):
            raise UsageError("a parameter is given twice")
        for name in _MANY:
            if given := [value for key, value in pairs if key == name]:
                values[name] = given
    return checked(model, values)


def checked(model: type[M], values: Any) -> M:
    """Return what comes from outside as a model; raise UsageError naming what is wrong."""
    require_text(values)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        wrong = explained(model, error.errors()[:MOST_TOLD], "parameter")
        raise UsageError(f"this cannot be asked: {'; '.join(wrong)}") from None


def require_text(values: Any) -> None:
    """Raise UsageError if a text or name within JSON holds U+0000 or half of a surrogate pair.

    Neither can be stored, nor written as UTF-8 in an answer."""
    waiting = [values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if found := _NO_TEXT.search(value):
                raise UsageError(no_text(found[0]))
        elif isinstance(value, Mapping):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            waiting += value


def place_of(item: Mapping[str, Any]) -> str:
    """Return where the reader shows a hit or citation, below `/passages/`; a citation's sentence is set off there."""
    sentence = item.get("sentence_id")
    return f"{item['chunk_id']}?sentence={sentence}" if sentence else str(item["chunk_id"])


def number_in(text: str | None) -> int | None:
    """Parse the number of a page or part, which begin at 1; return None if the text is no such number."""
    return int(text) or None if text and text.isascii() and text.isdecimal() and len(text) < 8 else None


async def body_of(request: Request) -> Any:
    """Return the JSON of a request. Raises UsageError."""
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError):
        raise UsageError("the request's body is not JSON") from None


_NOT_THERE = frozenset({"unknown_chunk", "unknown_document", "no_pages", "no_page", "no_file", "ambiguous_chunk"})
_SAYABLE = frozenset({"busy", "no_index", "text_moved"})


def status_of(error: PinciteError) -> int:
    """Return the HTTP status of an error."""
    if error.code in _NOT_THERE:
        return 404
    if isinstance(error, UsageError):
        return 400
    if isinstance(error, DocumentError):
        return 409
    if error.code == "timeout":
        return 504
    if error.code in ("busy", "no_index") or isinstance(error, DatabaseError | IndexStateError):
        return 503
    return 502


def told_of(error: PinciteError) -> str:
    """Return the message for who asks: what they can mend, or that the server's log has the reason.

    A message that names places on the server stays in its log."""
    if error.code in _TOLD:
        return _TOLD[error.code]
    if error.code in _NOT_THERE | _SAYABLE or type(error) is UsageError:
        return clear(str(error))  # it may name a document
    return f"the server cannot answer this now ({error.code}); its log says why"


_TOLD = {
    "no_pages": "this document has no pages that can be drawn; read its text",
    "timeout": "this took longer than the server lets it; ask again later, for a search with fewer words or a filter",
    "changed": "the file has changed since it was indexed, so that its pages are not shown; it is indexed again by the "
    "next run",
    "gone": "the file is gone from its source, so that its pages are not shown",
    "unreadable": "the file cannot be read now, so that its pages are not shown",
    "corrupt": "the page cannot be drawn",
}
