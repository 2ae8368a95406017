"""What may be asked over HTTP, and what is told of errors."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from pincite.serve.answers import status_of, told_of
from pincite.serve.api import Ask, Listing, Search, number_in, parse_request
from pincite.serve.turns import Busy
from pipelines.errors import DatabaseError, DocumentError, IndexStateError, ModelError, SettingsError, UsageError


def request(query: str = "", body: bytes | None = None) -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body or b"", "more_body": False}

    method = "GET" if body is None else "POST"
    return Request({"type": "http", "method": method, "query_string": query.encode(), "headers": []}, receive)


def read(model: Any, query: str = "", body: bytes | None = None) -> Any:
    return asyncio.run(parse_request(request(query, body), model))


def test_a_query_string_and_json_say_the_same() -> None:
    told = {"q": "oil", "k": 3, "strategy": "lexical", "filter": ["source=a", "uri=b"], "option": ["A=1"]}
    by_query = read(Ask, "q=oil&k=3&strategy=lexical&filter=source%3Da&filter=uri%3Db&option=A%3D1")
    assert by_query == read(Ask, body=json.dumps(told).encode())
    assert by_query.filter == ("source=a", "uri=b")


@pytest.mark.parametrize(
    "query", ["", "q=", "q=a&q=b", "q=a&k=0", "q=a&k=101", "q=a&k=x", "q=a&groups=hr", "q=a&strategy=none-such",
              "q=" + "a" * 10_001, "q=a" + "&filter=a%3Db" * 51, "k=1", "q=a&rerank=" + "x" * 201]
)  # fmt: skip
def test_an_invalid_query_is_told(query: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(Search, query)
    assert len(str(caught.value)) < 1_000


KEYS = st.sampled_from(["q", "k", "filter"]) | st.text()
JSON = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner)
).map(lambda value: json.dumps(value).encode())


@given(st.binary(max_size=200) | JSON)
def test_any_body_is_a_question_or_a_mistake(body: bytes) -> None:
    try:
        assert read(Search, body=body).q
    except UsageError as error:
        str(error).encode()


@given(st.text())
def test_any_query_string_is_a_question_or_a_mistake(query: str) -> None:
    try:
        read(Listing, query.encode("utf-8", "replace").decode())
    except UsageError as error:
        str(error).encode()


@given(st.dictionaries(st.text(min_size=1), st.text(), min_size=1, max_size=3))
def test_a_message_is_bounded_whatever_it_is_of(values: dict[str, str]) -> None:
    body = json.dumps({"q": "a", **{f"{key}{'x' * 5_000}": value for key, value in values.items()}}).encode()
    with pytest.raises(UsageError) as caught:
        read(Search, body=body)
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize(
    ("text", "number"),
    [("3", 3), ("0", None), ("00", None), ("9999999", 9_999_999), ("10000000", None), ("-1", None), ("x", None),
     ("", None), (None, None), ("٣", None), ("1.0", None), (" 1", None), ("9" * 5_000, None)],
)  # fmt: skip
def test_a_number_is_one_that_a_document_may_have(text: str | None, number: int | None) -> None:
    assert number_in(text) == number


PLACE = "/srv/secret/documents"


@pytest.mark.parametrize(
    ("error", "status", "shown"),
    [
        (IndexStateError("no such chunk", "unknown_chunk"), 404, True), (UsageError("k is 0"), 400, True),
        (Busy("later"), 503, True), (IndexStateError("run `pincite index`", "no_index"), 503, True),
        (SettingsError(f"{PLACE}: no key"), 400, False), (DocumentError(f"{PLACE}/a.pdf", "changed"), 409, False),
        (DocumentError(f"{PLACE}/a.pdf", "gone"), 409, False), (DatabaseError(f"{PLACE} refuses"), 503, False),
        (DatabaseError(f"{PLACE} is slow", "timeout"), 504, False), (ModelError(f"{PLACE}: no model"), 502, False),
        (IndexStateError(f"{PLACE} is damaged", "damaged_file"), 503, False),
    ],
)  # fmt: skip
def test_places_of_the_server_stay_in_its_log(error: Any, status: int, shown: bool) -> None:
    assert status_of(error) == status
    assert (str(error) == told_of(error)) is shown
    assert PLACE not in told_of(error)
