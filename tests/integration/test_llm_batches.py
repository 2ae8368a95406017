"""Prompts bought by an endpoint's batch API: submitted by one run, collected by a later one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import IndexStateError
from pipelines.ports import NoReply, Prompt, Reply
from pipelines.settings.base import Settings
from resources.llm import batches as module
from resources.llm.batches import Spool, answers
from resources.llm.factory import language_model
from resources.llm.model import OTHER_TEMPERATURE, BoughtModel
from resources.llm.replies import ReplyStore
from resources.postgres.database import Database
from resources.postgres.statements import query
from tests.support.llm_server import MODEL, LlmServer, cut, hang, llm_server, refusal, status, words_about
from tests.support.waiting import AT_ONCE_SECONDS

pytestmark = pytest.mark.integration

PRICES = {MODEL: {"prompt": 1_000_000.0, "completion": 2_000_000.0}}


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with llm_server() as made:
        yield made


@pytest.fixture
def database(module_database: Database, tmp_path: Path) -> Iterator[Database]:
    """The module's database without batches and replies, with a state folder of its own."""
    with Database(module_database.url, tmp_path) as made:
        yield made
    with module_database.connect() as connection:
        connection.execute("TRUNCATE pincite.llm_batches, pincite.llm_replies")


@pytest.fixture
def model(server: LlmServer, database: Database) -> Callable[..., BoughtModel]:
    """A model of a run of its own."""
    store = ReplyStore(database)

    def make(run_id: str, role: str = "summary", stage: str = "", retry_rejected: bool = False,
             **values: Any) -> BoughtModel:  # fmt: skip
        llm = {"base_url": server.url, "model": MODEL, "prices": PRICES, "batch": True, **values}
        return language_model(
            Settings(llm=llm), role, store, run_id=run_id, generation=7, stage=stage,
            retry_rejected=retry_rejected, sleep=lambda seconds: None,
        )  # fmt: skip

    return make


def usable(reply: Reply) -> str | None:
    return "refused" if "sorry" in reply.text else None if reply.text else "empty"


def said(model: BoughtModel, *texts: str) -> list[Reply | NoReply]:
    return list(model.replies([Prompt("Be short.", text, 40) for text in texts], usable))


def texts_of(replies: Sequence[Reply | NoReply]) -> list[str]:
    return [reply.text if isinstance(reply, Reply) else reply.code for reply in replies]


def message(reply: Reply | NoReply) -> str:
    assert isinstance(reply, NoReply)
    return reply.message


def asked(server: LlmServer, batch_id: str) -> list[str]:
    """The prompts of a batch."""
    return [request["body"]["messages"][-1]["content"] for request in server.requests_of(batch_id)]


def states(database: Database) -> list[tuple[str, bool]]:
    with database.connect() as connection:
        statement = "SELECT state, collected_at IS NOT NULL FROM pincite.llm_batches ORDER BY number"
        return connection.execute(statement).fetchall()  # type: ignore[return-value]


# ---------------------------------------------------------------- from submission to replies


def test_one_run_submits_and_a_later_one_collects(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database
) -> None:
    first = model("first", stage="document_summaries")
    replies = said(first, "one", "two", "one")
    assert texts_of(replies) == ["pending"] * 3
    assert message(replies[0]).startswith("in batch batch-2 since 20")
    assert (first.spent.pending, first.spent.calls) == (2, 0)
    assert server.calls == []
    (request, _) = server.requests_of("batch-2")
    assert (request["method"], request["url"]) == ("POST", "/v1/chat/completions")
    assert (request["body"]["model"], request["body"]["max_tokens"]) == (MODEL, 40)
    assert (server.batches["batch-2"]["completion_window"], asked(server, "batch-2")) == ("24h", ["one", "two"])

    second = model("second", stage="document_summaries")
    assert texts_of(said(second, "one", "two")) == ["pending"] * 2
    assert len(server.batches) == 1

    server.end_batch()
    third = model("third", stage="document_summaries")
    assert texts_of(said(third, "one", "two", "one")) == [words_about("one"), words_about("two"), words_about("one")]
    assert vars(third.spent) == {
        "calls": 2, "cached": 0, "prompt_tokens": 20, "completion_tokens": 14, "cost": 48.0, "pending": 0,
    }  # fmt: skip
    assert states(database) == [("completed", True)]
    (costs,) = ReplyStore(database).costs()
    assert (costs["stage"], costs["calls"], costs["cost"]) == ("document_summaries", 2, 48.0)

    fourth = model("fourth", stage="document_summaries")
    assert texts_of(said(fourth, "two")) == [words_about("two")]
    assert (fourth.spent.calls, fourth.spent.cached) == (0, 1)
    assert len(server.batches) == 1


def test_only_what_is_new_is_submitted(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    said(model("first"), "one", "two")
    said(model("second"), "one", "two", "three")
    assert [asked(server, batch_id) for batch_id in server.batches] == [["one", "two"], ["three"]]
    for batch_id in server.batches:
        server.end_batch(batch_id)
    replies = said(model("third"), "one", "two", "three", "four")
    assert texts_of(replies) == [*map(words_about, ("one", "two", "three")), "pending"]
    assert asked(server, list(server.batches)[-1]) == ["four"]


def test_stages_do_not_collect_each_others_batches(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    said(model("first"), "one")
    server.end_batch()
    assert texts_of(said(model("second", "context"), "two")) == ["pending"]
    assert texts_of(said(model("second"), "one")) == [words_about("one")]


def test_roles_that_somebody_waits_for_are_not_batched(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    assert texts_of(said(model("first", "answer"), "one")) == [words_about("one")]
    assert server.batches == {}


def test_large_submissions_are_divided(
    server: LlmServer, model: Callable[..., BoughtModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Spool", lambda: Spool(most_requests=40))
    numbers = [str(number) for number in range(100)]
    assert texts_of(said(model("first"), *numbers)) == ["pending"] * 100
    assert [len(asked(server, batch_id)) for batch_id in server.batches] == [40, 40, 20]
    for batch_id in server.batches:
        server.end_batch(batch_id)
    assert texts_of(said(model("second"), *numbers)) == [words_about(text) for text in numbers]


def test_many_prompts_are_answered_batch_by_batch(
    server: LlmServer, model: Callable[..., BoughtModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_REQUESTS", 4)
    words, taken = [*"abcd", *"aefg", "h"], list[str]()

    def prompts() -> Iterator[Prompt]:
        for word in words:
            taken.append(word)
            yield Prompt("Be short.", word, 40)

    first = model("first")
    for number, reply in enumerate(first.replies(prompts(), usable)):
        assert isinstance(reply, NoReply) and reply.code == "pending"
        assert len(taken) == min(4 * (number // 4 + 1), len(words))
    assert [asked(server, batch_id) for batch_id in server.batches] == [list("abcd"), list("efg"), ["h"]]
    for batch_id in server.batches:
        server.end_batch(batch_id)
    second = model("second")
    halves = said(second, *words[:5]), said(second, *words[5:])
    assert [*texts_of(halves[0]), *texts_of(halves[1])] == list(map(words_about, words))
    assert (second.spent.calls, len(server.batches)) == (8, 3)


def test_a_part_is_no_larger_than_an_endpoint_takes() -> None:
    with Spool(most_bytes=300) as spool:
        for number in range(5):
            spool.add(str(number), {"text": "x" * 40})
        spool.add("large", {"text": "x" * 1000})
        assert [part.keys for part in spool.parts] == [["0", "1"], ["2", "3"], ["4"], ["large"]]
        assert [part.bytes <= 300 for part in spool.parts] == [True, True, True, False]


def test_pictures_and_odd_characters_go_into_the_file(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    made = model("first", "figure", roles={"figure": {}})
    prompts = [Prompt("", "Що це? \u2028 \ud800", 40, images=(b"\x89PNG one",))]
    assert texts_of(list(made.replies(prompts, usable))) == ["pending"]
    server.end_batch()
    (call,) = server.calls
    assert (call.user, len(call.images)) == ("Що це? \u2028 ?", 1)
    assert isinstance(next(model("second", "figure", roles={"figure": {}}).replies(prompts, usable)), Reply)


# ---------------------------------------------------------------- what is not answered


def test_an_expired_batch_gives_what_it_has_and_the_rest_is_submitted_again(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database
) -> None:
    said(model("first"), "one", "two", "three")
    server.end_batch(state="expired", answered=lambda prompt: prompt != "two")
    replies = said(model("second"), "one", "two", "three")
    assert texts_of(replies) == [words_about("one"), "pending", words_about("three")]
    assert states(database) == [("expired", True), ("submitted", False)]
    assert asked(server, list(server.batches)[-1]) == ["two"]
    for run in ("third", "fourth", "fifth"):
        server.end_batch(state="expired", answered=lambda prompt: False)
        assert texts_of(said(model(run), "two")) == ["pending"], "what was never asked is no attempt"


def test_errors_are_submitted_again_as_often_as_allowed(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    for run in ("first", "second", "third"):
        assert texts_of(said(model(run), "bad")) == ["pending"]
        server.end_batch(failing=lambda prompt: "the prompt is too long")
    (reply,) = said(model("fourth"), "bad")
    assert (reply, len(server.batches)) == (NoReply("unusable", message(reply), reply.key), 3)
    assert message(reply).endswith(": the prompt is too long")
    assert said(model("fifth"), "bad") == [reply]
    assert texts_of(said(model("sixth", retry_rejected=True), "bad")) == ["pending"]
    assert texts_of(said(model("seventh"), "bad")) == ["pending"], "it is being asked again"
    server.end_batch()
    assert texts_of(said(model("eighth"), "bad")) == [words_about("bad")]


def test_prompts_a_completed_batch_omits_are_resubmitted_up_to_the_limit(
    server: LlmServer, model: Callable[..., BoughtModel]
) -> None:
    for run in ("first", "second", "third"):
        assert texts_of(said(model(run), "one", "lost"))[1] == "pending"
        server.end_batch(answered=lambda prompt: prompt == "one")
    assert texts_of(said(model("fourth"), "one", "lost")) == [words_about("one"), "unusable"]


@pytest.mark.case(7)
def test_a_reply_that_cannot_be_used_is_asked_for_again_warmer(
    server: LlmServer, model: Callable[..., BoughtModel]
) -> None:
    said(model("first"), "one")
    server.next(refusal())
    server.end_batch()
    assert texts_of(said(model("second"), "one")) == ["pending"]
    (request,) = server.requests_of(list(server.batches)[-1])
    assert request["body"]["temperature"] == OTHER_TEMPERATURE
    server.end_batch()
    assert texts_of(said(model("third"), "one")) == [words_about("one")]


def test_a_batch_that_failed_as_a_whole_says_why_and_is_submitted_by_the_next_run(
    server: LlmServer, model: Callable[..., BoughtModel]
) -> None:
    said(model("first"), "one")
    server.end_batch(state="failed", errors=["Enqueued token limit reached"])
    (reply,) = said(model("second"), "one")
    assert isinstance(reply, NoReply)
    assert reply.code == "rejected"
    assert "Enqueued token limit reached; the next run submits" in reply.message
    assert len(server.batches) == 1
    assert texts_of(said(model("third"), "one")) == ["pending"]
    assert len(server.batches) == 2


def test_a_batch_that_the_endpoint_forgot_is_submitted_again(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database
) -> None:
    said(model("first"), "one")
    server.batches.clear()
    assert texts_of(said(model("second"), "one")) == ["pending"]
    assert states(database) == [("gone", True), ("submitted", False)]


def test_an_endpoint_that_does_not_answer_leaves_its_batches_pending(
    server: LlmServer, model: Callable[..., BoughtModel]
) -> None:
    said(model("first"), "one")
    server.close()
    replies = said(model("second", retries=1), "one", "two")
    assert texts_of(replies) == ["pending", "unreachable"]
    assert "could not be looked at" in message(replies[0])


def test_an_endpoint_without_batches_is_said_to_have_none(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database
) -> None:
    server.batch_api = False
    replies = said(model("first"), "one", "two")
    assert texts_of(replies) == ["rejected"] * 2
    assert "has no batch API" in message(replies[0])
    assert "set llm.batch to false" in message(replies[0])
    assert states(database) == []
    assert texts_of(said(model("second", batch=False), "one")) == [words_about("one")]


def test_a_run_submits_no_more_than_it_may_spend(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    replies = said(model("first", max_cost=250.0), *[str(number) for number in range(10)])
    assert {"pending", "budget"} == set(texts_of(replies))
    submitted = len(asked(server, "batch-2"))
    assert texts_of(replies) == ["pending"] * submitted + ["budget"] * (10 - submitted)


@pytest.mark.case(28)
def test_no_key_in_what_a_batch_says(
    server: LlmServer, model: Callable[..., BoughtModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-batch")
    said(model("first", attempts=1, api_key_env="OPENAI_API_KEY"), "one")
    server.end_batch(failing=lambda prompt: "wrong key sk-secret-of-the-batch")
    assert "sk-secret" not in repr(said(model("second", attempts=1, api_key_env="OPENAI_API_KEY"), "one"))


# ---------------------------------------------------------------- runs that were killed


class Killed(BaseException):
    """In place of SIGKILL: nothing is done after it."""


def killed_before(monkeypatch: pytest.MonkeyPatch, name: str) -> Callable[[], None]:
    """Runs end before this statement, until that is undone."""
    execute = module.BatchModel._execute

    def dying(self: Any, statement: str, **values: Any) -> None:
        if statement == name:
            raise Killed
        execute(self, statement, **values)

    monkeypatch.setattr(module.BatchModel, "_execute", dying)
    return lambda: monkeypatch.setattr(module.BatchModel, "_execute", execute)


@pytest.mark.case(1)
def test_a_batch_that_a_run_was_killed_over_is_found_again(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = killed_before(monkeypatch, "batch_submitted")
    with pytest.raises(Killed):
        said(model("first"), "one", "two")
    alive()
    assert (states(database), len(server.batches)) == ([("submitting", False)], 1)
    server.end_batch()
    assert texts_of(said(model("second"), "two", "three")) == [words_about("two"), "pending"]
    assert [asked(server, batch_id) for batch_id in server.batches] == [["one", "two"], ["three"]]


@pytest.mark.case(1)
def test_a_run_killed_before_it_submitted_leaves_nothing(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(module.BatchModel, "_create_batch", die)
        with pytest.raises(Killed):
            said(model("first"), "one")
    assert states(database) == [("submitting", False)]
    assert texts_of(said(model("second"), "one")) == ["pending"]
    assert (states(database), len(server.batches)) == ([("submitted", False)], 1)


@pytest.mark.case(6)
def test_a_submission_whose_answer_was_lost_is_not_made_twice(
    server: LlmServer, model: Callable[..., BoughtModel]
) -> None:
    server.next_batch(cut(), cut())
    assert texts_of(said(model("first"), "one")) == ["pending"]
    assert len(server.batches) == 1


def test_a_submission_that_got_no_answer_at_all_is_looked_for_by_the_next_run(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database
) -> None:
    server.next_batch(*[status(500)] * 2)
    assert texts_of(said(model("first", retries=1), "one")) == ["unreachable"]
    assert states(database) == [("submitting", False)]
    assert texts_of(said(model("second"), "one")) == ["pending"]
    assert len(server.batches) == 1


def test_a_batch_outlives_the_database(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database
) -> None:
    said(model("first"), "one", "two")
    with database.connect() as connection:
        connection.execute("TRUNCATE pincite.llm_batches")
    assert texts_of(said(model("second"), "two", "one")) == ["pending"] * 2
    assert len(server.batches) == 1


def test_a_database_that_is_gone_is_no_fault_of_the_endpoint(
    model: Callable[..., BoughtModel], database: Database
) -> None:
    with database.connect() as connection:
        connection.execute("ALTER TABLE pincite.llm_batches RENAME TO lost")
    try:
        with pytest.raises(IndexStateError, match="llm_batches"):
            said(model("first"), "one")
    finally:
        with database.connect() as connection:
            connection.execute("ALTER TABLE pincite.lost RENAME TO llm_batches")


@pytest.mark.case(1)
def test_a_batch_is_collected_once_however_often_a_run_is_killed_over_it(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(model("first"), "one", "two")
    server.end_batch()

    def dying(file: str, name: str) -> Any:
        if name == "batch_collected":
            raise Killed
        return query(file, name)

    with monkeypatch.context() as patched:
        patched.setattr(module, "query", dying)
        with pytest.raises(Killed):
            said(model("second"), "one", "two")
    said(model("third"), "one", "two")
    with database.connect() as connection:
        assert connection.execute("SELECT attempts, cost FROM pincite.llm_replies").fetchall() == [(1, 24.0)] * 2


def test_a_batch_that_hangs_at_submission_is_given_up(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    server.next_batch(hang(), hang())
    assert texts_of(said(model("first", retries=1, timeout_seconds=AT_ONCE_SECONDS), "one")) == ["unreachable"]


def test_lines_that_cannot_be_read_are_left_out() -> None:
    lines = [
        b"", b"half a li", b"[]", b"{}", b'{"custom_id": "a", "response": null, "error": null}',
        b'{"custom_id": "b", "response": {"status_code": 500, "body": "broken"}}',
        b'{"custom_id": "c", "error": {"code": "batch_expired"}}', b'{"custom_id": "d", "error": {"code": "odd"}}',
    ]  # fmt: skip
    assert list(answers(iter(lines))) == [("a", "it was not answered"), ("b", "broken"), ("d", "odd")]
