"""Endpoints of models that fail, lie, or answer nobody, through whole runs: reliability.md 6, 7 and 8."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.faults.running import (
    NO_TEXTS,
    VECTORS,
    Change,
    Clean,
    Reader,
    assert_converges,
    assert_verified,
    changed,
    contents,
    edit,
    row_versions,
    unchanged,
    vectors_on_disk,
)
from tests.support.embedding_server import EmbeddingServer
from tests.support.llm_server import Answer, LlmServer, cut_short, empty, junk, llm_server, refusal, says, words_about
from tests.support.projects import Project
from tests.support.time_over import time_over
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.integration

Reply = tuple[int, dict[str, Any]] | tuple[int, dict[str, Any], Mapping[str, str]]


@pytest.fixture
def project(full: tuple[Project, Clean], server_url: str, tmp_path: Path) -> Iterator[Project]:
    with changed(full[0], server_url, tmp_path / "project", edit) as copy:
        yield copy


# ---------------------------------------------------------------- vectors


def no_number(server: EmbeddingServer, texts: list[str]) -> Reply:
    status, reply = server.good(texts)
    reply["data"][0]["embedding"] = [math.nan for _ in reply["data"][0]["embedding"]]
    return status, reply


POOR: dict[str, tuple[Callable[[EmbeddingServer, list[str]], Reply], str]] = {
    "not-a-number": (no_number, "zero or not finite"),
    "one-short": (EmbeddingServer.one_short, "vectors? for"),
}


@pytest.mark.defends("7g")
@pytest.mark.case(8, served=True)
@pytest.mark.parametrize("name", POOR)
def test_a_vector_that_cannot_be_used_fails_its_document_alone(
    name: str, project: Project, clean_after: Callable[[Change], Clean], endpoint: EmbeddingServer
) -> None:
    fault, told = POOR[name]
    clean, struck = clean_after(edit), list[str]()

    def strikes(texts: list[str]) -> Reply:
        """The first request of several texts."""
        if struck or len(texts) < 2:
            return endpoint.good(texts)
        struck.extend(texts)
        return fault(endpoint, texts)

    with endpoint.answering(strikes):
        result = project.index(code=3)
    assert struck and result["published"] is True
    (failed,) = result["documents"]["failed"]
    assert (failed["stage"], failed["code"]) == ("chunk_embeddings", "vector")
    assert re.search(rf"[0-9a-f]{{32}} among them.*{told}", failed["message"]), failed
    for (norm,) in project.rows("SELECT vector_norm(embedding) FROM g0001.chunks"):
        assert abs(norm - 1) < 0.01
    assert_verified(project)
    stood, asked_before = row_versions(project), len(endpoint.requests)
    project.index(code=3)
    assert row_versions(project) == stood and len(endpoint.requests) == asked_before
    assert project.index("--retry-failed")["documents"]["failed"] == []
    assert contents(project) == clean.contents
    assert_verified(project)


MURKY = {
    f"murky/{name}.md": f"# Water {name}\n\n"
    + "".join(f"The murky water of pond {name} is {depth} feet deep. " for depth in range(12))
    for name in ("north", "south")
}


def clouded(endpoint: EmbeddingServer, texts: list[str]) -> Reply:
    """No vector of what is murky."""
    status, reply = endpoint.good(texts)
    for text, item in zip(texts, reply["data"], strict=True):
        item["embedding"] = [math.nan if "murky" in text else number for number in item["embedding"]]
    return status, reply


def murky(project: Project) -> None:
    """Two documents more, of more than ten texts each."""
    for uri, text in MURKY.items():
        project.write(uri, text)


@pytest.mark.defends("7g")
@pytest.mark.case(8, served=True)
def test_many_vectors_that_cannot_be_used_fail_their_documents_while_others_have_good_ones(
    full: tuple[Project, Clean],
    server_url: str,
    tmp_path: Path,
    clean_after: Callable[[Change], Clean],
    endpoint: EmbeddingServer,
    record_property: Callable[[str, object], None],
) -> None:
    """More than what ends a run where they are refused; and the only texts of their buckets."""
    record_property("injected", len(MURKY))
    clean = clean_after(murky)

    with changed(full[0], server_url, tmp_path / "project", murky) as project:
        with endpoint.answering(lambda texts: clouded(endpoint, texts)), Reader(project) as reader:
            result = project.index(code=3)
            reader.assert_saw_whole_documents(reader.ask())
        assert result["published"] is True
        assert [(item["uri"], item["stage"], item["code"]) for item in result["documents"]["failed"]] == [
            (uri, stage, "vector") for uri in sorted(MURKY) for stage in VECTORS
        ]
        assert all("of its texts" in item["message"] for item in result["documents"]["failed"])
        served = {uri for (uri,) in project.rows("SELECT uri FROM g0001.documents")}
        assert served == {uri for (uri,) in full[0].rows("SELECT uri FROM g0001.documents")} | set(MURKY)
        assert project.hits("who repairs the boiler")[0]["uri"] == "boilers.txt"
        assert {hit["uri"] for hit in project.hits("murky pond", "--strategy", "lexical")} == set(MURKY)
        assert_verified(project)
        stood, calls = row_versions(project), len(endpoint.requests)
        project.index(code=3)
        assert row_versions(project) == stood and len(endpoint.requests) == calls
        assert project.index("--retry-failed")["documents"]["failed"] == []
        assert contents(project) == clean.contents
        assert_verified(project)


BROKEN: dict[str, tuple[Callable[[EmbeddingServer, list[str]], Reply], str]] = {
    "not-a-number": (lambda server, texts: every_vector(server, texts, math.nan), "zero or not finite"),
    "other-dimension": (EmbeddingServer.other_dimension, "17 dimensions, not 16"),
}


def every_vector(server: EmbeddingServer, texts: list[str], value: float) -> Reply:
    status, reply = server.good(texts)
    for item in reply["data"]:
        item["embedding"] = [value for _ in item["embedding"]]
    return status, reply


@pytest.mark.case(8, served=True)
@pytest.mark.parametrize("name", BROKEN)
def test_a_model_that_gives_no_vector_that_can_be_used_ends_the_run(
    name: str,
    project: Project,
    full: tuple[Project, Clean],
    clean_after: Callable[[Change], Clean],
    endpoint: EmbeddingServer,
) -> None:
    fault, told = BROKEN[name]
    clean, before = clean_after(edit), vectors_on_disk(project)
    with endpoint.answering(lambda texts: fault(endpoint, texts)):
        ran = project.run("index")
    assert ran.code == 1, ran.out
    message = ran.json["error"]["message"]
    assert told in message and endpoint.url in message and "docs/" in message
    assert contents(project) == full[1].contents
    assert_converges(project, endpoint, clean, before)


@pytest.mark.case(8, served=True)
def test_vectors_that_come_in_another_order_are_put_in_order(
    project: Project, clean_after: Callable[[Change], Clean], endpoint: EmbeddingServer
) -> None:
    clean = clean_after(edit)
    with endpoint.answering(endpoint.shuffled):
        assert project.index()["published"] is True
    assert contents(project) == clean.contents
    assert_verified(project)


# ---------------------------------------------------------------- an endpoint that fails


@pytest.fixture
def over(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """End a call of an embeddings endpoint that hangs, in place of a limit that slow answers would pass too."""
    monkeypatch.setattr("resources.models.embedders.endpoint._TIMEOUT_SECONDS", 4 * HANG_SECONDS)
    with time_over() as ending:
        yield ending


def breaks_off(texts: list[str]) -> Reply:
    """The connection is closed without an answer."""
    raise ConnectionAbortedError


@pytest.mark.case(6, served=True)
def test_an_endpoint_of_vectors_that_fails_for_a_while_costs_retries(
    project: Project,
    clean_after: Callable[[Change], Clean],
    endpoint: EmbeddingServer,
    over: Callable[[int], None],
    record_property: Callable[[str, object], None],
) -> None:
    clean, released = clean_after(edit), threading.Event()

    def hangs(texts: list[str]) -> Reply:
        over(endpoint.asker)
        released.wait(HANG_SECONDS)
        return endpoint.good(texts)

    faults = [endpoint.status(429), endpoint.status(500), breaks_off, hangs]
    record_property("injected", len(faults))
    endpoint.next(*faults)
    try:
        assert project.index()["published"] is True
    finally:
        released.set()
    assert endpoint.faults == []
    assert contents(project) == clean.contents
    assert_verified(project)


@pytest.mark.case(6, served=True)
def test_an_endpoint_of_vectors_that_answers_nobody_stops_the_run_and_what_was_served_is_served(
    project: Project, clean_after: Callable[[Change], Clean], endpoint: EmbeddingServer
) -> None:
    clean = clean_after(edit)
    before = vectors_on_disk(project)
    no_answer = endpoint.status(500)

    def answers_readers(texts: list[str]) -> Reply:
        return endpoint.good(texts) if texts[0] in NO_TEXTS else no_answer(texts)

    endpoint.forget()
    with endpoint.answering(answers_readers):
        with Reader(project) as reader:
            ran = project.run("index")
            reader.ask()
        reader.assert_saw_only(reader.first)
    assert 2 < len([texts for texts in endpoint.requests if texts[0] not in NO_TEXTS]) < 20
    assert (ran.code, ran.json["error"]["code"]) == (1, "unreachable"), ran.out
    assert "answered 500" in ran.json["error"]["message"] and endpoint.url in ran.json["error"]["message"]
    assert_converges(project, endpoint, clean, before)


FAULTS: dict[str, Callable[[EmbeddingServer, Callable[[int], None]], Callable[[list[str]], Any]]] = {
    "error": lambda server, over: server.status(500),
    "hang": lambda server, over: lambda texts: hangs(server, over, texts),
}


def hangs(server: EmbeddingServer, over: Callable[[int], None], texts: list[str]) -> Reply:
    over(server.asker)
    server.released.wait(HANG_SECONDS)
    return server.good(texts)


@pytest.mark.case(6, served=True)
@pytest.mark.parametrize("name", FAULTS)
def test_an_endpoint_that_fails_for_one_document_fails_that_document(
    name: str,
    project: Project,
    clean_after: Callable[[Change], Clean],
    endpoint: EmbeddingServer,
    over: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clean, fault = clean_after(edit), FAULTS[name](endpoint, over)
    monkeypatch.setattr("resources.models.embedders.endpoint._RETRIES", 2)
    endpoint.released.clear()
    endpoint.forget()

    def fails(texts: list[str]) -> Reply:
        return fault(texts) if any("tamps" in text for text in texts) else endpoint.good(texts)  # type: ignore[no-any-return]

    try:
        with endpoint.answering(fails):
            with Reader(project) as reader:
                result = project.index(code=3)
                reader.assert_saw_whole_documents(reader.ask())
            calls = [texts for texts in endpoint.requests if texts[0] not in NO_TEXTS]
            again = len(endpoint.requests)
            project.index(code=3)
            asked_again = [text for texts in endpoint.requests[again:] for text in texts if text not in NO_TEXTS]
    finally:
        endpoint.released.set()
    assert result["published"] is True
    assert {(item["uri"], item["code"]) for item in result["documents"]["failed"]} == {("stamps.txt", "unreachable")}
    assert len(calls) < 60
    assert asked_again and {text for text in asked_again if "tamps" not in text} <= {"Text"}, "only what failed"
    assert project.hits("forty letters", "--strategy", "lexical")[0]["uri"] == "stamps.txt"
    assert_verified(project)
    assert project.index()["documents"]["failed"] == []
    assert contents(project) == clean.contents
    assert_verified(project)


@pytest.mark.case(6, served=True)
def test_embeddings_paid_for_before_an_outage_are_not_paid_for_again(
    empty: Project, server_url: str, tmp_path: Path, endpoint: EmbeddingServer
) -> None:
    """All texts of a bucket are asked for in turn, and none is committed before the last is there."""
    with changed(empty, server_url, tmp_path / "project", unchanged) as project:
        project.configure(embedder={**project.settings["embedder"], "batch_texts": 2})
        endpoint.forget()
        bought = list[str]()

        def goes_away(texts: list[str]) -> Any:
            if len(bought) >= 7:
                return endpoint.status(500)(texts)
            bought.extend(text for text in texts if text not in NO_TEXTS)
            return endpoint.good(texts)

        with endpoint.answering(goes_away):
            ran = project.run("index")
        assert (ran.code, ran.json["error"]["code"]) == (1, "unreachable"), ran.out
        assert "wait for their vectors: docs/" in ran.json["error"]["message"]
        endpoint.forget()
        assert project.index()["published"] is True
        assert len(bought) >= 7 and not set(bought) & set(endpoint.texts)
        assert_verified(project)


@pytest.mark.case(6, served=True)
def test_a_text_that_an_endpoint_refuses_is_named_and_the_others_go_on(
    project: Project, clean_after: Callable[[Change], Clean], endpoint: EmbeddingServer
) -> None:
    clean, no_answer = clean_after(edit), endpoint.status(400)

    def refuses(texts: list[str]) -> Reply:
        return no_answer(texts) if any("forty letters" in text for text in texts) else endpoint.good(texts)

    with endpoint.answering(refuses):
        with Reader(project) as reader:
            result = project.index(code=3)
        found = [(item["uri"], item["stage"], item["code"]) for item in result["documents"]["failed"]]
        assert result["published"] is True
        assert found == [("stamps.txt", stage, "refused_text") for stage in ("chunk_embeddings", "sentence_embeddings")]
        assert all("1 of its texts" in item["message"] and "400" in item["message"]
                   for item in result["documents"]["failed"])  # fmt: skip
        reader.assert_saw_whole_documents(reader.ask())
        stood, calls = row_versions(project), len(endpoint.requests)
        assert project.run("plan").json["documents"]["failed"] == result["documents"]["failed"]
        assert project.index(code=3)["chunks"]["written"] == 0
        assert row_versions(project) == stood and len(endpoint.requests) == calls
    assert_verified(project)
    for question in ("forty letters", "Stamps"):
        assert project.hits(question, "--strategy", "lexical")[0]["uri"] == "stamps.txt"
    assert project.hits("Stamps", "--strategy", "dense")[0]["uri"] == "stamps.txt"
    (chunk,) = {hit["chunk_id"] for hit in project.hits("forty letters", "--strategy", "lexical")}
    explained = project.run("explain", chunk)
    assert "problems" in explained.json, explained.out
    assert [item["code"] for item in explained.json["problems"]] == ["refused_text"]
    assert project.index("--retry-failed")["documents"]["failed"] == []
    assert contents(project) == clean.contents
    assert_verified(project)


@pytest.mark.case(6, served=True)
def test_sentences_that_are_refused_are_related_to_nothing(project: Project, endpoint: EmbeddingServer) -> None:
    """Their headings stand in for them, which are the same here."""
    for name, colour in (("one", "red"), ("two", "blue")):
        project.write(
            f"{name}.md", f"# Ladders\n\nForbidden ladders {name} are {colour}. They hang in cellar {name}.\n"
        )
    no_answer = endpoint.status(400)

    def refuses(texts: list[str]) -> Reply:
        return no_answer(texts) if any("Forbidden" in text for text in texts) else endpoint.good(texts)

    with endpoint.answering(refuses):
        failed = project.index(code=3)["documents"]["failed"]
    assert {(item["uri"], item["code"]) for item in failed} == {("one.md", "refused_text"), ("two.md", "refused_text")}
    assert_verified(project)
    linked = """SELECT s.text FROM g0001.sentence_links l JOIN g0001.sentences s
        ON s.sentence_id IN (l.source_id, l.target_id)"""
    texts = [text for (text,) in project.rows(linked)]
    assert texts and not [text for text in texts if "Forbidden" in text]
    assert {hit["uri"] for hit in project.hits("Ladders", "--strategy", "dense")[:2]} == {"one.md", "two.md"}
    project.index("--retry-failed")
    assert [text for (text,) in project.rows(linked) if "Forbidden" in text], "they are alike when they can be had"
    assert_verified(project)


@pytest.mark.case(6)
def test_an_endpoint_that_refuses_most_texts_of_several_documents_ends_the_run(
    full: tuple[Project, Clean], server_url: str, tmp_path: Path, endpoint: EmbeddingServer
) -> None:
    """Also where it gives bad vectors of others."""
    no_answer = endpoint.status(400)

    def refuses(texts: list[str]) -> Reply:
        return no_answer(texts) if any("pond north" in text for text in texts) else clouded(endpoint, texts)

    with changed(full[0], server_url, tmp_path / "project", murky) as project:
        before = contents(project)
        for uri, text in MURKY.items():
            project.write(f"more/{uri}", text.replace("murky", "green"))
        with endpoint.answering(refuses):
            ran = project.run("index")
        assert (ran.code, ran.json["error"]["code"]) == (1, "refused_text"), ran.out
        assert re.search(r"answered 400.*north\.md, and \d\d others", ran.json["error"]["message"])
        assert contents(project) == before


@pytest.mark.case(6)
def test_an_endpoint_that_refuses_every_text_ends_the_run(project: Project, endpoint: EmbeddingServer) -> None:
    before = contents(project)
    with endpoint.answering(endpoint.status(400)):
        ran = project.run("index")
    assert (ran.code, ran.json["error"]["code"]) == (1, "refused_text"), ran.out
    assert re.search(r"answered 400.* nor its headings", ran.json["error"]["message"])
    assert contents(project) == before


# ---------------------------------------------------------------- replies that are none

BAD: dict[str, Answer] = {
    "handbook": refusal(),
    "boiler": empty(),
    "badge": cut_short(),
    "Northern": junk(),
    "Personnel": junk(b'{"choices": 5}'),
    "vault": says(None),
}
ODD = ("I'm sorry", "cannot help", "in the middle of a", "It works", "choices")


@pytest.fixture
def writer() -> Iterator[LlmServer]:
    with llm_server() as server:
        yield server


@pytest.mark.case(7, served=True)
def test_an_invalid_reply_is_replaced_and_marked_and_its_text_appears_nowhere(
    empty: Project, server_url: str, writer: LlmServer, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("injected", len(BAD))

    def reply(prompt: str) -> str | Answer:
        return next((answer for word, answer in BAD.items() if word in prompt), words_about(prompt))

    writer.reply = reply
    with changed(empty, server_url, tmp_path / "project", unchanged) as project:
        project.configure(
            enrichment={"summary": "llm", "context": "extractive"},
            llm={"base_url": writer.url, "model": "writer", "longest_wait_seconds": 0.01},
        )
        result = project.index()
        assert result["documents"]["failed"] == []
        methods = project.run("status").json["enrichment"]["document_summaries"]
        assert methods["fallback"] == len(BAD), methods
        assert len(writer.calls) > len(BAD) * 2, "each was asked for again"
        for table in ("documents", "chunks"):
            for (row,) in project.rows(f"SELECT t::text FROM g0001.{table} AS t"):
                assert not [odd for odd in ODD if odd in row]
        assert project.hits("who holds the vault key")[0]["uri"] == "archive/keys.md"
        assert_verified(project)
        writer.forget()
        assert project.index()["llm"]["calls"] == 0
        assert not writer.calls
