"""Replies of language models: bought once, kept as they come, and found again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import DatabaseError
from pipelines.ports import Prompt, Reply
from pipelines.ranges import bucket_range
from pipelines.records import ChunkContext, DocumentSummary, FigureDescription
from pipelines.schemas import to_table
from resources import threads as workers
from resources.engine.tables import ParquetTables
from resources.llm import model as module
from resources.llm.factory import language_model
from resources.llm.model import BoughtModel
from resources.llm.replies import ReplyStore
from resources.postgres.database import Database
from tests.support.llm_server import (
    MODEL,
    LlmServer,
    first_token,
    hang,
    says,
    words_about,
)
from tests.support.reply_data import prompts, rows, said, settings, texts_of, usable
from tests.support.waiting import AT_ONCE_SECONDS, HANG_SECONDS

pytestmark = pytest.mark.integration


@pytest.fixture
def database(module_database: Database) -> Database:
    """The module's database, without the replies of the test before."""
    with module_database.connect() as connection:
        connection.execute("DELETE FROM pincite.llm_replies")
    return module_database


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


def test_parameters_that_shape_a_reply_require_a_new_reply(
    server: LlmServer, model: Callable[..., BoughtModel]
) -> None:
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
            slow.wait(HANG_SECONDS)
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
        three.wait(HANG_SECONDS)
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


# ---------------------------------------------------------------- ends


def test_closing_stops_new_calls_and_keeps_those_under_way(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """End the calls under way once they are waited for."""
    both, go = threading.Barrier(3), threading.Event()

    def waited(*given: Any) -> Any:
        go.set()
        return wait(*given)

    monkeypatch.setattr(workers, "wait", waited)
    monkeypatch.setattr(module, "_LONGEST_FAREWELL_SECONDS", HANG_SECONDS)

    def reply(prompt: str) -> str:
        if prompt != "0":
            both.wait(HANG_SECONDS)
            go.wait(HANG_SECONDS)
        return words_about(prompt)

    server.reply = reply
    made = model(concurrency=2, timeout_seconds=HANG_SECONDS)
    replies = made.replies(prompts(*[str(number) for number in range(50)]), usable)
    next(replies)
    both.wait(HANG_SECONDS)
    replies.close()
    assert len(server.calls) == 3
    assert len(rows(database, "key")) == 3


def test_closing_does_not_wait_for_what_hangs(
    server: LlmServer, model: Callable[..., BoughtModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LONGEST_FAREWELL_SECONDS", AT_ONCE_SECONDS)
    server.reply = lambda prompt: hang() if prompt == "two" else words_about(prompt)
    replies = model(concurrency=2, timeout_seconds=HANG_SECONDS).replies(prompts("one", "two"), usable)
    next(replies)
    assert server.arrived.wait(HANG_SECONDS)
    replies.close()
    assert not server.released.is_set()


@pytest.mark.case(2)
def test_a_database_that_is_gone_stops_the_buying(
    server: LlmServer, model: Callable[..., BoughtModel], store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise DatabaseError("it is gone")

    monkeypatch.setattr(store, "add", fail)
    with pytest.raises(DatabaseError, match="it is gone"):
        said(model(concurrency=2), *[str(number) for number in range(50)])
    assert len(server.calls) <= 4
    stopping, (other,) = threading.Event(), prompts("other")
    with pytest.raises(DatabaseError):
        model()._purchase("key", other, 0, usable, stopping)
    assert stopping.is_set(), "threads that wait buy nothing more"


@pytest.mark.case(2)
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


@pytest.mark.case(2)
def test_a_server_that_fails_once_loses_no_reply(
    model: Callable[..., BoughtModel], store: ReplyStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = store._execute
    failed: list[tuple[Any, ...]] = []

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
from pipelines.settings.base import Settings
from resources.postgres.database import Database
from resources.llm.factory import language_model
from resources.llm.replies import ReplyStore
from tests.support.llm_server import MODEL

database, base_url = sys.argv[1:]
settings = Settings(llm={"base_url": base_url, "model": MODEL, "concurrency": 4})
model = language_model(settings, "summary", ReplyStore(Database(database, Path())), run_id="killed")
prompts = (Prompt("Be short.", str(number), 40) for number in range(1000))
for reply in model.replies(prompts, lambda reply: None):
    pass
"""


@pytest.mark.case(1)
def test_a_killed_run_keeps_every_reply_it_paid_for(
    server: LlmServer, model: Callable[..., BoughtModel], database: Database
) -> None:
    enough = threading.Event()

    def reply(prompt: str) -> str:
        if len(server.completed) >= 40:  # no more are answered before it is killed
            enough.set()
            server.released.wait(HANG_SECONDS)
        return words_about(prompt)

    server.reply = reply
    process = subprocess.Popen([sys.executable, "-c", KILLED, database.url, server.url], cwd=Path.cwd())
    assert enough.wait(HANG_SECONDS)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    paid, kept = list(server.completed), rows(database, "text, rejected, attempts")
    assert 40 <= len(paid) < 1000
    assert {text for text, _, _ in kept} <= {words_about(prompt) for prompt in paid}
    assert len(paid) - len(kept) <= 4, "more was lost than was in flight"
    server.reply = words_about
    server.released.set()
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
    tables.write("document_summaries", "some-key", bucket_range(1, 16), to_table(DocumentSummary, kept), {})
    context = ChunkContext("doc", 0, "chunk", "A kept context.", "llm", MODEL, three)
    tables.write("chunk_contexts", "other-key", bucket_range(2, 16), to_table(ChunkContext, [context]), {})
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
    tables.write("figure_descriptions", "some-key", bucket_range(1, 16), to_table(FigureDescription, kept), {})
    replies = list(made.replies([shown, refused, other], usable))
    assert texts_of(replies) == ["A map of the harbour.", "unusable", words_about("What is this?")]
    assert len(server.calls) == 1


def test_files_are_looked_through_once_and_only_for_what_is_missing(
    server: LlmServer, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    tables = ParquetTables(str(tmp_path / "parquet"))
    files = tables.files

    def watched(table: str) -> Any:
        looked.append(table)
        return files(table)

    monkeypatch.setattr(tables, "files", watched)
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
