"""Replies of language models: bought once, kept as they come, and what follows every fault of an endpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import DatabaseError, SettingsError
from pipelines.ports import NoReply, Prompt, Reply
from pipelines.records import ChunkContext, DocumentSummary, FigureDescription
from pipelines.schemas import to_table
from pipelines.settings import Settings
from resources.database import Database
from resources.llm import model as module
from resources.llm.endpoint import Completion
from resources.llm.factory import language_model
from resources.llm.limits import Limits
from resources.llm.model import BoughtModel
from resources.llm.replies import Account, ReplyStore
from resources.parquet_tables import ParquetTables
from tests.llm_server import (
    MODEL,
    LlmServer,
    cut,
    cut_short,
    empty,
    first_token,
    hang,
    junk,
    llm_server,
    refusal,
    reset,
    says,
    status,
    too_many,
    words_about,
)

pytestmark = pytest.mark.integration

PRICES = {MODEL: {"prompt": 1_000_000.0, "completion": 2_000_000.0}}
"""One for a prompt token, two for a token of the reply."""
ACCOUNT = Account("stage", MODEL, "run", 1, "USD")


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with llm_server() as made:
        yield made


@pytest.fixture
def store(database: Database) -> ReplyStore:
    return ReplyStore(database)


def settings(server: LlmServer, **values: Any) -> Settings:
    return Settings(llm={"base_url": server.url, "model": MODEL, "prices": PRICES, **values})


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def model(server: LlmServer, store: ReplyStore, slept: list[float]) -> Callable[..., BoughtModel]:
    """Makes a model that records its pauses in place of waiting."""

    def make(run_id: str = "run", retry_rejected: bool = False, stage: str = "", **values: Any) -> BoughtModel:
        return language_model(
            settings(server, **values), "summary", store, run_id=run_id, generation=7, stage=stage,
            retry_rejected=retry_rejected, sleep=slept.append,
        )  # fmt: skip

    return make


def prompts(*texts: str) -> list[Prompt]:
    return [Prompt("Be short.", text, 40) for text in texts]


def usable(reply: Reply) -> str | None:
    if reply.finish == "length":
        return "cut short"
    return "refused" if "sorry" in reply.text else None if reply.text else "empty"


def said(model: BoughtModel, *texts: str, check: Callable[[Reply], str | None] = usable) -> list[Reply | NoReply]:
    return list(model.replies(prompts(*texts), check))


def texts_of(replies: Sequence[Reply | NoReply]) -> list[str]:
    return [reply.text if isinstance(reply, Reply) else reply.code for reply in replies]


def rows(database: Database, columns: str) -> list[tuple[Any, ...]]:
    with database.connect() as connection:
        return connection.execute(f"SELECT {columns} FROM pincite.llm_replies ORDER BY at, key").fetchall()  # type: ignore[arg-type]


# ---------------------------------------------------------------- bought once


def test_a_reply_is_bought_once(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database, store: ReplyStore
) -> None:
    first = model(stage="document_summaries")
    assert texts_of(said(first, "one", "two")) == [words_about("one"), words_about("two")]
    assert sorted(server.prompts) == ["one", "two"]
    assert vars(first.spent) == {
        "calls": 2, "cached": 0, "prompt_tokens": 20, "completion_tokens": 14, "cost": 48.0, "pending": 0,
    }  # fmt: skip
    server.forget()
    second = model(run_id="later")
    assert texts_of(said(second, "two", "three", "one")) == [words_about(text) for text in ("two", "three", "one")]
    assert server.prompts == ["three"]
    assert (second.spent.calls, second.spent.cached) == (1, 2)
    kept = rows(database, "model, finish, rejected, attempts, currency, generation")
    assert kept == [(MODEL, "stop", None, 1, "USD", 7)] * 3
    assert [(row["stage"], row["calls"], row["cost"]) for row in store.costs()] == [
        ("document_summaries", 2, 48.0), ("summary", 1, 24.0),
    ]  # fmt: skip
    (of_run,) = store.costs_of_run("run")
    assert (of_run["prompts"], of_run["prompt_tokens"], of_run["completion_tokens"]) == (2, 20, 14)


def test_what_shapes_a_reply_makes_it_another(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    said(model(), "one")
    said(model(temperature=0.5), "one")
    said(model(roles={"summary": {"model": "other"}}), "one")
    list(model().replies([Prompt("Be long.", "one", 40)], usable))
    said(model(concurrency=1, retries=1), "one")
    assert server.prompts == ["one"] * 4


def test_the_whole_reply_is_kept(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    server.reply = lambda prompt: says("Так\0 \ud800Yes", logprobs=first_token(Yes=-0.25, No=-1.5))
    (bought,) = said(model(), "one")
    (kept,) = said(model(), "one")
    assert isinstance(bought, Reply)
    assert bought == kept
    assert (bought.text, bought.logprobs) == ("Так Yes", (("Yes", -0.25), ("No", -1.5)))
    assert len(server.calls) == 1


def test_one_key_in_flight_is_bought_once(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    made = model(concurrency=8)
    assert texts_of(said(made, *["one", "two"] * 20)) == [words_about("one"), words_about("two")] * 20
    assert sorted(server.prompts) == ["one", "two"]
    assert (made.spent.calls, made.spent.cached) == (2, 38)


def test_replies_come_in_order_whichever_is_first(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    slow = threading.Event()

    def reply(prompt: str) -> str:
        if prompt == "0":
            slow.wait(60)
        elif prompt == "9":
            slow.set()
        return words_about(prompt)

    server.reply = reply
    numbers = [str(number) for number in range(10)]
    assert texts_of(said(model(concurrency=2), *numbers)) == [words_about(text) for text in numbers]
    assert server.completed[-1] == "0" or server.completed.index("0") > 0


def test_no_more_calls_at_once_than_allowed(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    lock, three = threading.Lock(), threading.Barrier(3)
    now, most = 0, 0

    def reply(prompt: str) -> str:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        three.wait(60)
        with lock:
            now -= 1
        return "fine"

    server.reply = reply
    assert texts_of(said(model(concurrency=3), *[str(number) for number in range(30)])) == ["fine"] * 30
    assert most == 3


def test_prompts_are_taken_lazily_in_the_callers_thread(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    taken: list[int] = []
    threads = set()

    def endless() -> Iterator[Prompt]:
        while True:
            threads.add(threading.get_ident())
            taken.append(len(taken))
            yield from prompts(str(len(taken)))

    replies = model(concurrency=4).replies(endless(), usable)
    assert taken == []
    assert isinstance(next(replies), Reply)
    assert len(taken) <= module.AT_ONCE + 8
    for _ in range(100):
        next(replies)
    assert len(taken) <= 101 + module.AT_ONCE + 8
    assert threads == {threading.get_ident()}
    replies.close()


def test_no_prompts_are_no_replies(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    assert said(model()) == []


# ---------------------------------------------------------------- faults that pass


@pytest.mark.parametrize("fault", [status(500), status(503), status(408), cut(), reset(), too_many(0)])
def test_a_fault_that_passes_costs_a_retry(server: LlmServer, model: Callable[..., BoughtModel], fault: Any) -> None:
    server.next(fault, fault)
    made = model()
    assert texts_of(said(made, "one")) == [words_about("one")]
    assert len(server.calls) == 3
    assert made.spent.calls == 1


def test_retry_after_is_honoured_by_all_calls(server: LlmServer, store: ReplyStore) -> None:
    now = [1000.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    llm = settings(server, concurrency=1).llm
    made = BoughtModel(llm.role("summary"), llm, store, ACCOUNT, Limits(0, 0, lambda: now[0]), sleep=sleep)
    server.next(too_many(20), too_many(30))
    assert texts_of(said(made, "one", "two")) == [words_about("one"), words_about("two")]
    assert now == [1050.0]
    assert len(server.calls) == 4


def test_a_call_that_hangs_is_made_again(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    server.next(hang())
    assert texts_of(said(model(timeout_seconds=0.3), "one")) == [words_about("one")]


# ---------------------------------------------------------------- an endpoint that is dead


def test_an_endpoint_that_answers_nobody_is_left_alone(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database
) -> None:
    server.reply = lambda prompt: status(500)
    made = model(concurrency=1, retries=1)
    numbers = [str(number) for number in range(100)]
    replies = said(made, *numbers)
    assert {reply.code for reply in replies if isinstance(reply, NoReply)} == {"unreachable"}
    assert len(replies) == 100
    assert len(server.calls) == 6
    assert "the next run asks again" in replies[-1].message  # type: ignore[union-attr]
    assert made.gave_up
    assert said(made, "more")[0] == NoReply("unreachable", replies[-1].message, made.key_of(*prompts("more")))  # type: ignore[union-attr]
    assert rows(database, "key") == []
    server.reply = words_about
    assert texts_of(said(model(run_id="next"), *numbers)) == [words_about(text) for text in numbers]


def test_without_a_run_every_question_hopes_anew(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    server.reply = lambda prompt: status(401)
    made = model(run_id="")
    assert texts_of(said(made, "one")) == ["rejected"]
    assert texts_of(said(made, "one")) == ["rejected"]
    assert len(server.calls) == 2


def test_a_wrong_key_ends_the_run_and_is_not_shown(
    server: LlmServer, model: Callable[..., BoughtModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-and-secret")
    server.required_key = "right"
    replies = said(model(concurrency=1), "one", "two", "three")
    assert texts_of(replies) == ["rejected"] * 3
    assert len(server.calls) == 1
    assert "OPENAI_API_KEY" in replies[0].message  # type: ignore[union-attr]
    assert "sk-wrong" not in repr(replies)


def test_a_request_that_is_refused_ends_no_other(server: LlmServer, model: Callable[..., BoughtModel]) -> None:
    server.reply = lambda prompt: status(400, "too long") if prompt == "two" else words_about(prompt)
    assert texts_of(said(model(concurrency=1), "one", "two", "three")) == [
        words_about("one"), "rejected", words_about("three"),
    ]  # fmt: skip


# ---------------------------------------------------------------- replies that cannot be used


@pytest.mark.parametrize("bad", [refusal(), empty(), cut_short(), junk(), says(None)])
def test_what_cannot_be_used_is_asked_for_again(
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


def test_what_was_rejected_is_bought_again_when_asked_for(
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


# ---------------------------------------------------------------- ends


def test_closing_stops_new_calls_and_keeps_those_under_way(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database
) -> None:
    both, go = threading.Barrier(3), threading.Event()

    def reply(prompt: str) -> str:
        if prompt != "0":
            both.wait(60)
            go.wait(60)
        return words_about(prompt)

    server.reply = reply
    replies = model(concurrency=2).replies(prompts(*[str(number) for number in range(50)]), usable)
    next(replies)
    both.wait(60)
    threading.Timer(0.05, go.set).start()
    replies.close()
    assert len(server.calls) == 3
    assert len(rows(database, "key")) == 3


def test_closing_does_not_wait_for_what_hangs(
    server: LlmServer, model: Callable[..., BoughtModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LONGEST_FAREWELL_SECONDS", 0.05)
    server.reply = lambda prompt: hang() if prompt == "two" else words_about(prompt)
    replies = model(concurrency=2, timeout_seconds=60).replies(prompts("one", "two"), usable)
    next(replies)
    assert server.arrived.wait(60)
    replies.close()
    assert not server.released.is_set()


def test_a_database_that_is_gone_stops_the_buying(
    server: LlmServer, model: Callable[..., BoughtModel], store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise DatabaseError("it is gone")

    monkeypatch.setattr(store, "add", fail)
    with pytest.raises(DatabaseError, match="it is gone"):
        said(model(concurrency=2), *[str(number) for number in range(50)])
    assert len(server.calls) <= 4
    stopping = threading.Event()
    with pytest.raises(DatabaseError):
        model()._purchase("key", *prompts("other"), 0, usable, stopping)
    assert stopping.is_set(), "threads that wait buy nothing more"


def test_a_connection_that_broke_loses_no_reply(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database
) -> None:
    def reply(prompt: str) -> str:
        with database.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        return words_about(prompt)

    server.reply = reply
    assert texts_of(said(model(concurrency=1), "one", "two")) == [words_about("one"), words_about("two")]
    assert len(rows(database, "key")) == 2


def test_a_server_that_fails_once_loses_no_reply(
    model: Callable[..., BoughtModel], store: ReplyStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute, failed = store._execute, []

    def fail_once(*values: Any) -> None:
        if not failed:
            failed.append(values)
            raise DatabaseError("it is starting")
        execute(*values)

    monkeypatch.setattr(store, "_execute", fail_once)
    assert texts_of(said(model(), "one")) == [words_about("one")]
    assert len(failed) == len(rows(database, "key")) == 1


KILLED = """
import sys
from pathlib import Path
from pipelines.ports import Prompt
from pipelines.settings import Settings
from resources.database import Database
from resources.llm.factory import language_model
from resources.llm.replies import ReplyStore
from tests.llm_server import MODEL

database, base_url = sys.argv[1:]
settings = Settings(llm={"base_url": base_url, "model": MODEL, "concurrency": 4})
model = language_model(settings, "summary", ReplyStore(Database(database, Path())), run_id="killed")
prompts = (Prompt("Be short.", str(number), 40) for number in range(1000))
for reply in model.replies(prompts, lambda reply: None):
    pass
"""


def test_a_killed_run_keeps_every_reply_it_paid_for(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database
) -> None:
    enough = threading.Event()

    def reply(prompt: str) -> str:
        if len(server.completed) >= 40:
            enough.set()
        return words_about(prompt)

    server.reply = reply
    process = subprocess.Popen([sys.executable, "-c", KILLED, database.url, server.url], cwd=Path.cwd())
    assert enough.wait(60)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    paid, kept = list(server.completed), rows(database, "text, rejected, attempts")
    assert 40 <= len(paid) < 1000
    assert {text for text, _, _ in kept} <= {words_about(prompt) for prompt in paid}
    assert len(paid) - len(kept) <= 4, "more was lost than was in flight"
    server.forget()
    numbers = [str(number) for number in range(60)]
    assert texts_of(said(model(run_id="next"), *numbers)) == [words_about(text) for text in numbers]
    expected = {words_about(number) for number in numbers} - {text for text, _, _ in kept}
    assert {words_about(prompt) for prompt in server.prompts} == expected
    assert len(server.prompts) == len(expected)


# ---------------------------------------------------------------- a lost database


def summary(key: str, text: str, method: str = "llm", note: str = "") -> DocumentSummary:
    return DocumentSummary("doc", text, method, MODEL, key, note)


def test_replies_are_taken_back_from_the_files_of_the_state(
    server: LlmServer, database: Database, tmp_path: Path
) -> None:
    tables = ParquetTables(str(tmp_path / "parquet"))
    made = language_model(settings(server), "summary", ReplyStore(database, tables))
    one, two, three, four = (made.key_of(prompt) for prompt in prompts("one", "two", "three", "four"))
    kept = [summary(one, "A kept summary."), summary(two, "Plain words.", "fallback", "the model refused"),
            summary("", "Plain words.", "extractive"), summary(four, "Old words.", "waiting")]  # fmt: skip
    tables.write("document_summaries", "some-key", 1, to_table(DocumentSummary, kept), {})
    context = ChunkContext("doc", 0, "chunk", "A kept context.", "llm", MODEL, three)
    tables.write("chunk_contexts", "other-key", 2, to_table(ChunkContext, [context]), {})
    broken = tmp_path / "parquet/chunk_contexts/other-key/03-broken.parquet"
    broken.write_bytes(b"PAR1 half")
    assert texts_of(said(made, "one", "two", "three", "four")) == [
        "A kept summary.", "unusable", "A kept context.", words_about("four"),
    ]  # fmt: skip
    assert server.prompts == ["four"]
    assert rows(database, "rejected, attempts, cost")[0][1:] == (0, 0.0)
    assert [row["calls"] for row in ReplyStore(database).costs()] == [1]


def test_descriptions_of_figures_are_taken_back_too(server: LlmServer, database: Database, tmp_path: Path) -> None:
    tables = ParquetTables(str(tmp_path / "parquet"))
    made = language_model(settings(server, roles={"figure": {}}), "figure", ReplyStore(database, tables))
    shown, refused, other = (Prompt("", "What is this?", 40, images=(image,)) for image in (b"one", b"two", b"three"))
    kept = [
        FigureDescription("doc", 0, 3, "a", "A map of the harbour.", "llm", MODEL, made.key_of(shown)),
        FigureDescription("doc", 1, 5, "b", "", "fallback", MODEL, made.key_of(refused), "the model refused"),
        FigureDescription("doc", 2, 7, "c", "", "unseen", note="an EMF drawing"),
    ]
    tables.write("figure_descriptions", "some-key", 1, to_table(FigureDescription, kept), {})
    replies = list(made.replies([shown, refused, other], usable))
    assert texts_of(replies) == ["A map of the harbour.", "unusable", words_about("What is this?")]
    assert len(server.calls) == 1


def test_files_are_looked_through_once_and_only_for_what_is_missing(
    server: LlmServer, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    tables = ParquetTables(str(tmp_path / "parquet"))
    files = tables.files
    monkeypatch.setattr(tables, "files", lambda table: looked.append(table) or files(table))
    store = ReplyStore(database, tables)
    said(language_model(settings(server), "summary", store), "one")
    assert looked == ["document_summaries", "chunk_contexts", "figure_descriptions"]
    said(language_model(settings(server), "summary", store), "two")
    assert len(looked) == 3
    said(language_model(settings(server), "summary", ReplyStore(database, tables)), "one", "two")
    assert len(looked) == 3, "nothing was missing"
    said(language_model(settings(server), "answer", ReplyStore(database, tables)), "three")
    assert len(looked) == 3, "no index carries answers"


def test_an_embedded_server_is_shared_and_let_go_of(server: LlmServer, tmp_path: Path) -> None:
    with Database("embedded", tmp_path) as embedded:
        embedded.migrate()
        assert embedded.server is not None
        made = language_model(settings(server), "summary", ReplyStore(embedded), run_id="run")
        assert texts_of(said(made, "one", "two")) == [words_about("one"), words_about("two")]
        pid = embedded.server.status().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert texts_of(said(made, "one", "three")) == [words_about("one"), words_about("three")]
        assert embedded.server.status().running
    assert not embedded.server.status().running


def test_pictures_reach_a_model_that_sees(server: LlmServer, database: Database) -> None:
    made = language_model(settings(server, roles={"figure": {}}), "figure", ReplyStore(database))
    picture = Prompt("", "What is this?", 40, images=(b"\x89PNG one",))
    other = Prompt("", "What is this?", 40, images=(b"\x89PNG two",))
    list(made.replies([picture, other, picture], usable))
    assert len({url for call in server.calls for url in call.images}) == len(server.calls) == 2
