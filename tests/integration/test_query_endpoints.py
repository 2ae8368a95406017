"""What hyde, multi-query, listwise and logprob ask of an endpoint, by the settings of docs/guide/endpoints.md, and what
they make of its replies. A recording server stands for every service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from pipelines.errors import ModelError
from pipelines.ports import Candidate, Filters, Passage, Prompt, Terms
from pipelines.query.retrieve import Retrieved, retrieve
from pipelines.query.tools import ModelFunctions
from pipelines.settings.base import Settings, settings_from
from pipelines.settings.models import EmbedderSettings
from resources.llm.factory import language_model
from resources.llm.replies import ReplyStore
from resources.models.embedders.loaded import make_embedder
from resources.models.embedders.specs import named_spec
from resources.postgres.database import Database
from tests.support.embedding_server import EmbeddingServer, embedding_server
from tests.support.llm_server import Answer, LlmServer, first_token, llm_server, says
from tests.support.query_fakes import Unmeasured, passage
from tests.support.settings_blocks import language_models
from tests.support.tool_fakes import shipped_prompt

pytestmark = pytest.mark.integration

QUESTION = "when is the boiler inspected"
WRITTEN = "The boiler of the east wing is inspected every October."
WORDINGS = ["month of the boiler inspection", "date of checks of the heating", "inspection of boilers", "boiler check"]


class Index(Unmeasured):
    """Three chunks, found by whatever is asked; remembers the vectors."""

    def __init__(self) -> None:
        self.vectors: list[Sequence[float]] = []

    def dense(self, vector: Sequence[float], k: int, filters: Filters) -> list[Candidate]:
        self.vectors.append(vector)
        return [Candidate(item, 1.0 / rank) for rank, item in enumerate("abc", start=1)]

    def lexical(self, terms: Terms, k: int, filters: Filters) -> list[Candidate]:
        return [Candidate(item, 1.0 / rank) for rank, item in enumerate("abc", start=1)]

    def passages(self, chunk_ids: Sequence[str], filters: Filters) -> dict[str, Passage]:
        return {item: passage(item) for item in chunk_ids}


@pytest.fixture
def judge() -> Iterator[LlmServer]:
    """The endpoint of roles that name one of their own."""
    with llm_server() as made:
        yield made


@pytest.fixture
def embedding() -> Iterator[EmbeddingServer]:
    with embedding_server() as made:
        yield made


@pytest.fixture
def store(module_database: Database) -> ReplyStore:
    """The replies of one test: the database is shared, so those of the test before are forgotten."""
    with module_database.connect() as connection:
        connection.execute("DELETE FROM pincite.llm_replies")
    return ReplyStore(module_database)


def at(block: Settings, server: LlmServer, judge: LlmServer) -> Settings:
    """A block of the page with recording servers in place of its addresses."""
    values = block.model_dump()
    values["llm"]["base_url"] = server.url
    for role in values["llm"]["roles"].values():
        if role and role["base_url"]:
            role["base_url"] = judge.url
    return settings_from(values)


def found_by(settings: Settings, store: ReplyStore, embedding: EmbeddingServer, index: Index) -> Retrieved:
    chosen = EmbedderSettings(endpoint=embedding.url, model="vectors", query_prefix="ask: ", passage_prefix="text: ")
    embedder = make_embedder(named_spec(chosen), chosen)

    def never() -> Any:
        raise AssertionError("no cross-encoder is to be asked")

    tools = ModelFunctions(
        embedder.queries,
        embedder.passages,
        lambda role: language_model(settings, role, store, sleep=lambda seconds: None),
        shipped_prompt,
        never,
    )
    return retrieve(QUESTION, index, tools, settings.query)


def block_of(**query: Any) -> Settings:
    """The block of the page with this strategy and reranker, each of which one has."""
    (block,) = [
        block
        for block in language_models()
        if all(getattr(block.query, name) == value for name, value in query.items())
    ]
    return block


def order(found: Retrieved) -> str:
    return "".join(hit.passage.chunk_id for hit in found.hits)


def roles(server: LlmServer) -> list[list[str]]:
    return [[message["role"] for message in call.body["messages"]] for call in server.calls]


def test_hyde_and_listwise(
    server: LlmServer,
    judge: LlmServer,
    embedding: EmbeddingServer,
    store: ReplyStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    server.reply = lambda prompt: "[3] > [1] > [2]" if "<passage>" in prompt else WRITTEN
    index = Index()
    settings = at(block_of(strategy="hyde+hybrid", rerank=("listwise",)), server, judge)
    found = found_by(settings, store, embedding, index)
    written, ranked = (call.body for call in server.calls)
    assert roles(server) == [["system", "user"]] * 2
    assert {"model": "gpt-4o-mini", "temperature": 0.0, "max_tokens": 400}.items() <= written.items()
    assert {"model": "gpt-4o-mini", "temperature": 0.0, "max_tokens": 3 * 8 + 64}.items() <= ranked.items()
    assert not {"logprobs", "top_logprobs", "max_completion_tokens"} & (written.keys() | ranked.keys())
    assert f"<question>\n{QUESTION}\n</question>" in server.prompts[0]
    assert "[1]\n<passage>" in server.prompts[1] and "[3]\n<passage>" in server.prompts[1]
    assert {call.key for call in server.calls} == {"s3cret"}
    assert embedding.texts == [f"text: {WRITTEN}", f"ask: {QUESTION}"]
    first, second = index.vectors
    assert not np.allclose(first, second)
    assert (order(found), found.notes, judge.calls) == ("cab", (), [])


def yes_of_b(prompt: str) -> Answer:
    likely, other = ("Yes", "No") if "own text of b" in prompt else ("No", "Yes")
    return says(likely, "length", logprobs=first_token(**{likely: -0.1, other: -2.5}))


def test_multi_query_and_logprob_of_an_endpoint_of_its_own(
    server: LlmServer, judge: LlmServer, embedding: EmbeddingServer, store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    server.reply = lambda prompt: "\n".join(f"{n}. {text}" for n, text in enumerate([*WORDINGS, "one too many"], 1))
    judge.reply = yes_of_b
    settings = at(block_of(strategy="multi-query+hybrid", rerank=("logprob",)), server, judge)
    found = found_by(settings, store, embedding, Index())
    (rewriting,) = server.calls
    assert {"model": "gpt-4o-mini", "max_tokens": 4 * 60}.items() <= rewriting.body.items()
    assert "Write 4 other wordings" in rewriting.user and rewriting.key == "s3cret"
    assert embedding.requests == [[f"ask: {QUESTION}"], [f"ask: {text}" for text in WORDINGS]]
    asked = {"model": "Qwen/Qwen3-4B-Instruct-2507", "max_tokens": 1, "logprobs": True, "top_logprobs": 20}
    assert len(judge.calls) == 3 and all(asked.items() <= call.body.items() for call in judge.calls)
    assert {call.key for call in judge.calls} == {"none"}, "the key belongs to the other endpoint"
    assert (order(found)[0], found.notes) == ("b", ())


def test_a_model_that_takes_no_temperature(
    server: LlmServer, judge: LlmServer, embedding: EmbeddingServer, store: ReplyStore
) -> None:
    server.reply = lambda prompt: "\n".join(WORDINGS)
    found_by(at(block_of(strategy="multi-query", rerank=("none",)), server, judge), store, embedding, Index())
    (call,) = server.calls
    assert call.body["max_completion_tokens"] == 3 * 60
    assert not {"temperature", "max_tokens"} & call.body.keys()


def test_prices_of_the_settings_are_what_a_reply_costs(server: LlmServer, judge: LlmServer, store: ReplyStore) -> None:
    (block,) = [block for block in language_models() if block.llm.prices]
    settings = at(block, server, judge)
    model = language_model(settings, "hyde", store, run_id="run")
    prompt = shipped_prompt("hyde", "en").render(question=QUESTION)
    list(model.replies([Prompt(*prompt, 40)], lambda reply: None))
    (cost,) = store.costs_of_run("run")
    price = block.llm.prices["gpt-4o-mini"]
    spent = cost["prompt_tokens"] * price.prompt + cost["completion_tokens"] * price.completion
    assert (cost["cost"], cost["currency"]) == (pytest.approx(spent / 1_000_000), "USD") and spent > 0


# ---------------------------------------------------------------- wrong replies

MALFORMED: dict[str, Any] = {
    "no choices": {"object": "chat.completion"},
    "empty choices": {"choices": []},
    "no message": {"choices": [{"index": 0, "finish_reason": "stop"}]},
    "no content": {"choices": [{"index": 0, "message": {"role": "assistant"}, "finish_reason": "stop"}]},
}
NOTED = {"hyde": "hyde: m wrote no passage", "multi-query": "multi-query: m gave no other wording",
         "listwise": "listwise: m gave no order"}  # fmt: skip


@pytest.mark.case(7)
@pytest.mark.parametrize("asking", NOTED)
@pytest.mark.parametrize("fault", MALFORMED)
def test_a_reply_with_missing_fields_is_asked_for_again_and_then_noted(
    server: LlmServer, embedding: EmbeddingServer, store: ReplyStore, asking: str, fault: str
) -> None:
    server.reply = lambda prompt: Answer(MALFORMED[fault])
    query = {"strategy": "dense", "rerank": ["listwise"]} if asking == "listwise" else {"strategy": asking}
    settings = settings_from({"llm": {"base_url": server.url, "model": "m", "attempts": 2}, "query": query})
    found = found_by(settings, store, embedding, Index())
    (note,) = found.notes
    assert note.startswith(NOTED[asking])
    assert (order(found), len(server.calls)) == ("abc", 2)
    assert embedding.texts == [f"ask: {QUESTION}"]


@pytest.mark.case(7)
@pytest.mark.parametrize(
    "logprobs", [None, {}, {"content": []}, {"content": [{"token": "Yes"}]}, {"content": [{"logprob": -0.1}]}]
)
def test_probabilities_with_missing_fields_name_the_role(
    server: LlmServer, embedding: EmbeddingServer, store: ReplyStore, logprobs: Any
) -> None:
    server.reply = lambda prompt: says("Yes", "length", logprobs=logprobs)
    query = {"strategy": "dense", "rerank": ["logprob"]}
    settings = settings_from({"llm": {"base_url": server.url, "model": "m"}, "query": query})
    with pytest.raises(ModelError, match=r"told no token probabilities; take another in llm\.roles\.rerank") as caught:
        found_by(settings, store, embedding, Index())
    assert caught.value.code == "no_logprobs"


@pytest.mark.case(7)
@pytest.mark.parametrize(("status", "setting"), [(401, "api_key_env"), (404, r"llm\.base_url and the model's name")])
def test_a_refusal_names_the_setting(
    server: LlmServer, embedding: EmbeddingServer, store: ReplyStore, status: int, setting: str
) -> None:
    server.reply = lambda prompt: Answer({"error": {"message": "no"}}, status)
    settings = settings_from({"llm": {"base_url": server.url, "model": "m"}, "query": {"strategy": "hyde"}})
    with pytest.raises(ModelError, match=setting) as caught:
        found_by(settings, store, embedding, Index())
    assert caught.value.code == "rejected" and "\n" not in str(caught.value)
