"""One call of an endpoint: what is sent, what is read from the answer, and what an error says and does not say."""

from __future__ import annotations

import json
import logging
import math
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pipelines.llm.prompts import estimated_tokens, prompt_tokens
from pipelines.ports import Prompt
from pipelines.settings.models import LlmSettings
from resources.llm.batches import answers
from resources.llm.endpoint import MALFORMED, CallFailed, Completion, Endpoint, mask_key, retry_after, storable
from tests.support.llm_server import (
    MODEL,
    Answer,
    LlmServer,
    cut,
    drip,
    first_token,
    hang,
    junk,
    llm_server,
    reset,
    says,
    status,
    too_many,
    wrong_key,
)
from tests.support.waiting import AT_ONCE_SECONDS

KEY = "sk-very-secret-0123456789"
PROMPT = Prompt("Be short.", "What is a boiler?", 40)
PNG, JPEG = b"\x89PNG\r\n\x1a\n rest", b"\xff\xd8\xff rest"


@pytest.fixture(scope="module")
def server() -> Iterator[LlmServer]:
    with llm_server() as made:
        yield made


@pytest.fixture(autouse=True)
def forgotten(server: LlmServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.forget()
    monkeypatch.setenv("SOME_KEY", KEY)


def endpoint(server: LlmServer, **values: Any) -> Endpoint:
    settings = LlmSettings(base_url=server.url, model=MODEL, api_key_env="SOME_KEY", **values)
    return Endpoint(settings.role("summary"), settings)


def failure(made: Endpoint, prompt: Prompt = PROMPT) -> CallFailed:
    with pytest.raises(CallFailed) as raised:
        made.complete(prompt, 0.0)
    return raised.value


# ---------------------------------------------------------------- what is sent


def test_a_prompt_is_sent_as_messages_and_parameters(server: LlmServer) -> None:
    made = endpoint(server).complete(PROMPT, 0.0)
    (call,) = server.calls
    assert call.body == {
        "model": MODEL,
        "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "What is a boiler?"}],
        "max_tokens": 40,
        "temperature": 0.0,
    }
    assert made.reply.text.startswith("This text is about the number")
    assert (made.prompt_tokens, made.completion_tokens, made.estimated_tokens) == (10, 7, 0)


def test_parameters_that_some_models_reject_are_left_out(server: LlmServer) -> None:
    endpoint(server, completion_limit="max_completion_tokens").complete(Prompt("", "hello", 7), None)
    assert server.calls[0].body == {
        "model": MODEL, "messages": [{"role": "user", "content": "hello"}], "max_completion_tokens": 7,
    }  # fmt: skip


def test_pictures_are_sent_as_data(server: LlmServer) -> None:
    endpoint(server).complete(Prompt("", "describe", 7, images=(PNG, JPEG)), 0.0)
    assert server.calls[0].user == "describe"
    assert [url.partition(",")[0] for url in server.calls[0].images] == [
        "data:image/png;base64", "data:image/jpeg;base64",
    ]  # fmt: skip


def test_alternatives_of_the_first_token_are_told(server: LlmServer) -> None:
    server.next(says("Yes", logprobs=first_token(Yes=-0.1, No=-math.inf)))
    reply = endpoint(server).complete(Prompt("", "yes?", 1, top_logprobs=2), 0.0).reply
    assert server.calls[0].body["logprobs"] is True
    assert server.calls[0].body["top_logprobs"] == 2
    assert reply.logprobs == (("Yes", -0.1), ("No", -9999.0))


def test_the_key_is_that_of_the_moment_of_the_call(server: LlmServer, monkeypatch: pytest.MonkeyPatch) -> None:
    made = endpoint(server)
    made.complete(PROMPT, 0.0)
    monkeypatch.setenv("SOME_KEY", " other \n")
    made.complete(PROMPT, 0.0)
    monkeypatch.delenv("SOME_KEY")
    made.complete(PROMPT, 0.0)
    assert [call.key for call in server.calls] == [KEY, "other", "none"]


# ---------------------------------------------------------------- what comes back


def test_tokens_that_are_not_told_are_estimated(server: LlmServer) -> None:
    server.next(says("A few words.", usage={}), says("A few words.", usage={"prompt_tokens": 5}))
    none = endpoint(server).complete(PROMPT, 0.0)
    assert (none.prompt_tokens, none.completion_tokens) == (prompt_tokens(PROMPT), estimated_tokens("A few words."))
    assert none.estimated_tokens == none.prompt_tokens + none.completion_tokens
    some = endpoint(server).complete(PROMPT, 0.0)
    assert (some.prompt_tokens, some.estimated_tokens) == (5, some.completion_tokens)


@pytest.mark.case(21)
def test_characters_that_a_database_rejects_are_left_out(server: LlmServer) -> None:
    server.next(says("a\0b\ud800c", logprobs=first_token(**{"\0Yes": -1.0})))
    reply = endpoint(server).complete(PROMPT, 0.0).reply
    assert (reply.text, reply.logprobs) == ("abc", (("Yes", -1.0),))


@pytest.mark.parametrize(
    "body", [b"<html>", b"[1]", b"{}", b'{"choices": []}', b'{"choices": [{"message": null}]}', b"[" * 100_000, b""]
)
def test_an_answer_that_is_no_completion_is_an_empty_reply(server: LlmServer, body: bytes) -> None:
    server.next(junk(body))
    reply = endpoint(server).complete(PROMPT, 0.0).reply
    assert (reply.text, reply.finish) == ("", MALFORMED)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ([{"type": "text", "text": "part one, "}, {"type": "text", "text": "part two"}], "part one, part two"),
    ],
)
def test_content_that_is_not_text(server: LlmServer, content: Any, text: str) -> None:
    answer = says("")
    answer.body["choices"][0]["message"]["content"] = content
    server.next(answer)
    assert endpoint(server).complete(PROMPT, 0.0).reply.text == text


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("answer", "code", "passing", "hopeless", "says_so"),
    [
        (too_many(7), "unreachable", True, False, "429"),
        (status(500), "unreachable", True, False, "500"),
        (status(408), "unreachable", True, False, "408"),
        (status(409), "unreachable", True, False, "409"),
        (status(400, "context too long"), "rejected", False, False, "context too long"),
        (status(401), "rejected", False, True, "SOME_KEY"),
        (status(403), "rejected", False, True, "SOME_KEY"),
        (status(404), "rejected", False, True, "llm.base_url"),
        (cut(), "unreachable", True, False, "did not answer"),
        (reset(), "unreachable", True, False, "did not answer"),
        (Answer({"error": {"message": "the model behind is down"}}), "unreachable", True, False, "behind is down"),
    ],
)
def test_errors_that_pass_and_that_do_not(
    server: LlmServer, answer: Answer, code: str, passing: bool, hopeless: bool, says_so: str
) -> None:
    server.next(answer)
    failed = failure(endpoint(server))
    assert (failed.code, failed.passing, failed.hopeless) == (code, passing, hopeless)
    assert says_so in failed.message
    assert server.url in failed.message
    assert len(server.calls) == 1, "the client retries nothing by itself"


def test_a_spent_quota_does_not_pass(server: LlmServer) -> None:
    server.next(Answer({"error": {"message": "pay first", "code": "insufficient_quota"}}, 429))
    failed = failure(endpoint(server))
    assert (failed.code, failed.passing, failed.hopeless) == ("rejected", False, True)


@pytest.mark.parametrize("answer", [hang(), drip()])
def test_a_call_ends_at_its_time_limit(server: LlmServer, answer: Answer) -> None:
    server.next(answer)
    failed = failure(endpoint(server, timeout_seconds=AT_ONCE_SECONDS))
    assert failed.passing
    assert "llm.timeout_seconds" in failed.message


def test_nobody_listens() -> None:
    settings = LlmSettings(base_url="http://127.0.0.1:1/v1", model=MODEL)
    failed = failure(Endpoint(settings.role("summary"), settings))
    assert failed.passing
    assert "http://127.0.0.1:1/v1" in failed.message


def everything_of(error: BaseException) -> str:
    """All that a log or a record of a run could make of an error."""
    told = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        item = waiting.pop()
        if item is not None:
            told += [str(item), repr(item), repr(item.args), repr(vars(item)), *traceback.format_exception(item)]
            waiting += [item.__cause__, item.__context__]
    return "\n".join(told)


@pytest.mark.case(28)
@pytest.mark.parametrize("key", [KEY, f"{KEY}\u2713", f"{KEY}\n\nX-Header: 1"], ids=["plain", "not ascii", "two lines"])
def test_the_key_is_in_no_error_and_no_log(
    server: LlmServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    monkeypatch.setenv("SOME_KEY", key)
    caplog.set_level(logging.DEBUG)
    server.next(lambda call: wrong_key(call.key))
    failed = failure(endpoint(server))
    assert failed.hopeless
    assert KEY not in everything_of(failed)
    assert failed.__cause__ is None
    assert failed.__context__ is None
    assert "httpcore" in caplog.text or key != KEY
    assert KEY not in caplog.text


def test_the_error_with_the_key_masked_says_what_was_wrong(server: LlmServer) -> None:
    server.next(lambda call: wrong_key(call.key))
    assert "Incorrect API key provided: ***" in failure(endpoint(server)).message


@pytest.mark.case(28)
@pytest.mark.parametrize(("key", "told"), [(KEY, "***"), ("local", "local")])
def test_a_reply_that_repeats_the_key_is_read_without_it(
    server: LlmServer, monkeypatch: pytest.MonkeyPatch, key: str, told: str
) -> None:
    """A key too short to be one is a word that a reply may say."""
    monkeypatch.setenv("SOME_KEY", key)
    server.next(lambda call: says(f"You sent {call.key} to me."))
    assert endpoint(server).complete(PROMPT, 0.0).reply.text == f"You sent {told} to me."


def test_masking_comes_before_cutting() -> None:
    text = "x" * 290 + KEY
    assert KEY[:5] not in mask_key(text, KEY)
    assert mask_key("Bearer abc123, sent", "none") == "Bearer ***, sent"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 60.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_how_long_the_endpoint_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, 40.0) == seconds


# ---------------------------------------------------------------- replies of every make

DEEP = json.loads("[" * 900 + "]" * 900)
"""Lists that are written as text only by as many calls within each other."""
ODD: dict[str, Any] = {
    "nothing": None, "true": True, "a number": 7, "a huge number": 10**400, "not a number": math.nan,
    "a list": [1, [2]], "lists in lists": DEEP, "a mapping": {"a": 1},
    "a lone surrogate": "\ud800x\x00", "a long text": "a" * 100_000,
}  # fmt: skip
PLACES: dict[str, Callable[[Any], Any]] = {
    "the whole": lambda odd: odd,
    "choices": lambda odd: {"choices": odd},
    "a choice": lambda odd: {"choices": [odd]},
    "message": lambda odd: {"choices": [{"message": odd}]},
    "content": lambda odd: {"choices": [{"message": {"content": odd}}]},
    "a part": lambda odd: {"choices": [{"message": {"content": [odd]}}]},
    "a part's text": lambda odd: {"choices": [{"message": {"content": [{"text": odd}]}}]},
    "finish_reason": lambda odd: {"choices": [{"message": {"content": "said"}, "finish_reason": odd}]},
    "usage": lambda odd: {**said(), "usage": odd},
    "prompt_tokens": lambda odd: {**said(), "usage": {"prompt_tokens": odd, "completion_tokens": odd}},
    "logprobs": lambda odd: said(odd),
    "a first token": lambda odd: said({"content": [odd]}),
    "alternatives": lambda odd: said({"content": [{"token": "a", "logprob": -1, "top_logprobs": odd}]}),
    "a token": lambda odd: said({"content": [{"token": odd, "logprob": -1}]}),
    "a probability": lambda odd: said({"content": [{"token": "a", "logprob": odd}]}),
    "an error": lambda odd: {"error": odd},
    "an error's message": lambda odd: {"error": {"message": odd, "code": odd}},
}


def said(logprobs: Any = None) -> dict[str, Any]:
    return {"choices": [{"message": {"content": "said"}, "finish_reason": "stop", "logprobs": logprobs}]}


@pytest.mark.parametrize(
    ("code", "place"),
    [*((200, place) for place in PLACES), *((400, place) for place in ("the whole", "an error", "an error's message"))],
)
def test_a_value_of_another_type_gives_a_reply_or_a_named_failure(server: LlmServer, place: str, code: int) -> None:
    made, prompt = endpoint(server), Prompt("Be short.", "What is a boiler?", 40, top_logprobs=2)
    for name, odd in ODD.items():
        server.next(Answer(PLACES[place](odd), code))
        try:
            found = made.complete(prompt, 0.0)
        except CallFailed as error:
            assert len(error.message) < 1000 and storable(error.message) == error.message, name
            continue
        assert code == 200
        assert storable(found.reply.text) == found.reply.text and len(found.reply.finish) <= 40, name
        assert all(storable(token) == token and value <= 0 for token, value in found.reply.logprobs), name
        counts = (found.prompt_tokens, found.completion_tokens)
        assert all(type(count) is int and 0 <= count < 1 << 40 for count in counts), name
        assert counts == (7, 7) if (place, name) == ("prompt_tokens", "a number") else found.estimated_tokens, name


@pytest.mark.parametrize("odd", ODD)
def test_an_answer_of_a_batch_of_another_kind_is_left_out_or_a_failure(odd: str) -> None:
    body, value = said(), ODD[odd]
    lines = [
        value, {"custom_id": value, "response": {"body": body}}, {"custom_id": "b", "response": value},
        {"custom_id": "c", "response": {"body": value}}, {"custom_id": "d", "error": value},
        {"custom_id": "e", "error": {"message": value, "code": value}},
        {"custom_id": "f", "response": {"body": body, "status_code": value}},
    ]  # fmt: skip
    found = list(answers(iter([json.dumps(line).encode() for line in lines])))
    assert {"b", "c", "d", "e", "f"} <= {key for key, _ in found}
    assert all(isinstance(got, (Completion, str)) for _, got in found)
