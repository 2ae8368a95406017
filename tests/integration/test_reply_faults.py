"""What follows every fault of a language model's endpoint, and replies that cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipelines.errors import SettingsError
from pipelines.ports import NoReply, Reply
from resources.llm import model as module
from resources.llm.endpoint import Completion
from resources.llm.limits import MOST_IN_A_ROW, RateLimits
from resources.llm.model import PROBE, BoughtModel
from resources.llm.replies import ReplyStore
from resources.postgres.database import Database
from tests.support.llm_server import (
    LlmServer,
    cut,
    cut_short,
    empty,
    hang,
    junk,
    refusal,
    reset,
    says,
    status,
    too_many,
    words_about,
)
from tests.support.reply_data import ACCOUNT, prompts, rows, said, settings, texts_of
from tests.support.time_over import time_over
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.integration


@pytest.fixture
def database(emptied_database: Database) -> Database:
    return emptied_database


# ---------------------------------------------------------------- faults that pass


@pytest.mark.case(6)
@pytest.mark.parametrize("fault", [status(500), status(503), status(408), cut(), reset(), too_many(0)])
def test_a_fault_that_passes_costs_a_retry(server: LlmServer, model: Callable[..., BoughtModel], fault: Any) -> None:
    server.next(fault, fault)
    made = model()
    assert texts_of(said(made, "one")) == [words_about("one")]
    assert len(server.calls) == 3
    assert made.spent.calls == 1


@pytest.mark.case(6)
def test_retry_after_is_honoured_by_all_calls(server: LlmServer, store: ReplyStore) -> None:
    now = [1000.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    llm = settings(server, concurrency=1).llm
    made = BoughtModel(llm.role("summary"), llm, store, ACCOUNT, RateLimits(0, 0, lambda: now[0]), sleep=sleep)
    server.next(too_many(20), too_many(30))
    assert texts_of(said(made, "one", "two")) == [words_about("one"), words_about("two")]
    assert now == [1050.0]
    assert len(server.calls) == 4


@pytest.mark.case(6)
def test_a_call_that_hangs_is_made_again(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    server.next(hang())
    with time_over() as server.hung:
        assert texts_of(said(model(timeout_seconds=HANG_SECONDS), "one")) == [words_about("one")]


# ---------------------------------------------------------------- an endpoint that is dead


@pytest.mark.case(6)
def test_an_endpoint_that_fails_for_one_document_answers_the_others(
    server: LlmServer, model: Callable[..., BoughtModel]
) -> None:
    """All prompts of a document stand together, and more of them fail in a row than an endpoint that is gone has."""
    server.reply = lambda prompt: status(500) if "poison" in prompt else words_about(prompt)
    prompts_of = [*(f"poison {number}" for number in range(10)), *(f"good {number}" for number in range(5))]
    replies = said(model(concurrency=1, retries=1), *prompts_of)
    assert [isinstance(reply, NoReply) for reply in replies] == [True] * 10 + [False] * 5
    assert {reply.code for reply in replies if isinstance(reply, NoReply)} == {"unreachable"}
    assert len(server.calls) == 2 * 10 + 3 + 5


@pytest.mark.case(6)
def test_an_endpoint_that_answers_no_document_is_left_alone_after_a_while(
    server: LlmServer, model: Callable[..., BoughtModel]
) -> None:
    server.reply = lambda prompt: words_about(prompt) if prompt == PROBE.user else status(500)
    replies = said(model(concurrency=1, retries=1), *(str(number) for number in range(100)))
    assert all(isinstance(reply, NoReply) for reply in replies)
    assert len(server.calls) == 2 * MOST_IN_A_ROW + 9


@pytest.mark.case(6)
def test_an_endpoint_that_answers_nobody_is_left_alone(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database
) -> None:
    server.reply = lambda prompt: status(500)
    made = model(concurrency=1, retries=1)
    numbers = [str(number) for number in range(20)]
    replies = said(made, *numbers)
    assert {reply.code for reply in replies if isinstance(reply, NoReply)} == {"unreachable"}
    assert len(replies) == 20
    assert len(server.calls) == 6 + 1, "three prompts twice each, and whether it answers anything"
    assert "the next run asks again" in replies[-1].message  # type: ignore[union-attr]
    assert made.gave_up
    assert said(made, "more")[0] == NoReply("unreachable", replies[-1].message, made.key_of(*prompts("more")))  # type: ignore[union-attr]
    assert rows(database, "key") == []
    server.reply = words_about
    assert texts_of(said(model(run_id="next"), *numbers)) == [words_about(text) for text in numbers]


def test_every_question_tries_again_outside_a_run(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    server.reply = lambda prompt: status(401)
    made = model(run_id="")
    assert texts_of(said(made, "one")) == ["rejected"]
    assert texts_of(said(made, "one")) == ["rejected"]
    assert len(server.calls) == 2


@pytest.mark.case(28)
def test_a_wrong_key_ends_the_run_and_is_not_shown(
    server: LlmServer, model: Callable[..., BoughtModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-and-secret")
    server.required_key = "right"
    replies = said(model(concurrency=1, api_key_env="OPENAI_API_KEY"), "one", "two", "three")
    assert texts_of(replies) == ["rejected"] * 3
    assert len(server.calls) == 1
    assert "OPENAI_API_KEY" in replies[0].message  # type: ignore[union-attr]
    assert "sk-wrong" not in repr(replies)


@pytest.mark.case(6)
def test_a_request_that_is_refused_ends_no_other(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    server.reply = lambda prompt: status(400, "too long") if prompt == "two" else words_about(prompt)
    assert texts_of(said(model(concurrency=1), "one", "two", "three")) == [
        words_about("one"), "rejected", words_about("three"),
    ]  # fmt: skip


# ---------------------------------------------------------------- replies that cannot be used


@pytest.mark.case(7)
@pytest.mark.parametrize("bad", [refusal(), empty(), cut_short(), junk(), says(None)])
def test_an_unusable_reply_is_requested_again(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database, bad: Any
) -> None:
    server.next(bad)
    made = model()
    assert texts_of(said(made, "one")) == [words_about("one")]
    assert [call.body["temperature"] for call in server.calls] == [0.0, module.OTHER_TEMPERATURE]
    assert made.spent.calls == 2
    ((text, rejected, attempts, cost),) = rows(database, "text, rejected, attempts, cost")
    assert (text, rejected, attempts) == (words_about("one"), None, 2)
    assert cost == made.spent.cost


@pytest.mark.parametrize("temperature", [None, 0.7])
def test_a_warm_model_is_asked_again_as_before(
    server: LlmServer, model: Callable[..., BoughtModel], temperature: float | None
) -> None:
    server.next(empty())
    said(model(temperature=temperature), "one")
    assert [call.body.get("temperature") for call in server.calls] == [temperature] * 2


@pytest.mark.case(7)
def test_a_model_that_always_refuses_is_remembered(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database
) -> None:
    server.reply = lambda prompt: refusal() if prompt == "one" else words_about(prompt)
    made = model()
    (refused, fine) = said(made, "one", "two")
    assert refused == NoReply("unusable", "refused", made.key_of(*prompts("one")))
    assert texts_of([fine]) == [words_about("two")]
    assert server.prompts.count("one") == 3
    assert rows(database, "text, rejected, attempts, prompt_tokens")[-1] == (None, "refused", 3, 30)
    server.forget()
    again = model(run_id="later")
    assert said(again, "one") == [refused]
    assert (server.prompts, again.spent.cached) == ([], 1)


def test_rejected_replies_are_bought_again_on_request(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database
) -> None:
    server.reply = lambda prompt: refusal()
    said(model(), "one")
    server.forget()
    made = model(retry_rejected=True)
    assert texts_of(said(made, "one")) == ["unusable"]
    assert texts_of(said(made, "one")) == ["unusable"]
    assert len(server.calls) == 3, "once in a run"
    server.reply = words_about
    assert texts_of(said(model(retry_rejected=True), "one")) == [words_about("one")]
    assert texts_of(said(model(), "one")) == [words_about("one")]
    assert rows(database, "rejected, attempts") == [(None, 7)]


def test_a_kept_reply_that_no_longer_passes_counts_as_an_attempt(
    server: LlmServer, model: Callable[..., BoughtModel]
) -> None:
    said(model(), "one")
    server.forget()
    strict = said(model(), "one", check=lambda reply: "too plain")
    assert strict[0] == NoReply("unusable", "too plain", strict[0].key)
    assert len(server.calls) == 2
    server.forget()
    assert texts_of(said(model(), "one")) == ["unusable"]
    assert server.calls == []


def test_attempts_of_a_run_that_was_stopped_count(
    server: LlmServer, model: Callable[..., BoughtModel], store: ReplyStore
) -> None:
    made = model()
    key = made.key_of(*prompts("one"))
    store.add(key, Completion(Reply("I am sorry"), 10, 3), 16.0, ACCOUNT)
    server.reply = lambda prompt: refusal()
    assert texts_of(said(made, "one")) == ["unusable"]
    assert len(server.calls) == 2


# ---------------------------------------------------------------- budget


def test_a_run_spends_no_more_than_allowed(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    # A call is estimated at about 110 (26 prompt tokens, 40 of a reply at twice the price), and costs 24.
    made = model(concurrency=1, max_cost=200.0)
    replies = said(made, *[str(number) for number in range(20)])
    (code,) = {reply.code for reply in replies if isinstance(reply, NoReply)}
    assert code == "budget"
    assert "llm.max_cost (200 USD)" in replies[-1].message  # type: ignore[union-attr]
    assert 100 < made.spent.cost <= 200
    assert made.spent.calls == len(server.calls)
    server.forget()
    said(model(max_cost=200.0, stage="other"), "new")
    assert server.calls == [], "the run's models share it"
    assert texts_of(said(model(run_id="next", max_cost=200.0), "new")) == [words_about("new")]


def test_a_budget_counts_what_the_run_spent_in_another_process(
    server: LlmServer, database: Database, model: Callable[..., BoughtModel]
) -> None:
    ReplyStore(database).add("key", Completion(Reply("text"), 10, 3), 150.0, ACCOUNT)
    assert texts_of(said(model(max_cost=200.0), "one")) == ["budget"]


def test_a_budget_needs_a_price(model: Callable[..., BoughtModel]) -> None:
    with pytest.raises(SettingsError, match=r"llm\.max_cost.*llm\.prices has no price for the model 'fake-model'"):
        model(max_cost=1.0, prices={})
    model(run_id="", max_cost=1.0, prices={})
