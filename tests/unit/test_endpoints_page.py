"""Every block of settings of docs/guide/endpoints.md, loaded and asked of a recording server: what it sends, and what
is made of the answer. No service is asked."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from pipelines.errors import ModelError, RefusedText, SettingsError
from pipelines.fingerprint import fingerprint
from pipelines.ports import CountingEmbedder
from pipelines.settings.base import Settings, settings_from
from pipelines.settings.models import EmbedderSettings
from resources.models.embedders.loaded import make_embedder
from resources.models.embedders.specs import named_spec, require_weights
from resources.models.rerankers import make_cross_encoder
from tests.support.embedding_server import EmbeddingServer, embedding_server, hashed_vector
from tests.support.rerank_server import FORMS, rerank_server, shared_words
from tests.support.settings_blocks import PAGE, blocks, embedders, language_models, rerankers

QUESTION = "when is the boiler inspected"
INSTRUCTION = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
PACKED = {"encoding_format": "base64"}

SENT: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "text-embedding-3-large": ("", {**PACKED, "dimensions": 1024}, {**PACKED, "dimensions": 1024}),
    "text-embedding-3-small": ("", PACKED, PACKED),
    "Qwen/Qwen3-Embedding-0.6B": (INSTRUCTION, PACKED, PACKED),
    "Qwen/Qwen3-Embedding-4B": (INSTRUCTION, PACKED, PACKED),
    "Qwen/Qwen3-Embedding-8B": (INSTRUCTION, {**PACKED, "dimensions": 2048}, {**PACKED, "dimensions": 2048}),
    "BAAI/bge-m3": ("", PACKED, PACKED),
    "bge-m3": ("", PACKED, PACKED),
    "intfloat/multilingual-e5-large-instruct": (f"{INSTRUCTION} ", PACKED, PACKED),
    "voyage-4-large": (
        "",
        {**PACKED, "input_type": "query", "output_dimension": 1024},
        {**PACKED, "input_type": "document", "output_dimension": 1024},
    ),
    "jina-embeddings-v3": (
        "",
        {"dimensions": 1024, "task": "retrieval.query"},
        {"dimensions": 1024, "task": "retrieval.passage"},
    ),
}
"""By model: what stands before a question, and what a request for questions and one for passages hold besides the model
and the texts."""


def names(found: list[Settings]) -> list[str]:
    return [str(block.embedder.model or block.query.cross_encoder.model) for block in found]


def table(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading of the page, without marks of code."""
    text = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2]
    rows = re.search(r"^\|.*?(?=^$)", text, re.MULTILINE | re.DOTALL)
    assert rows
    return [[cell.strip().replace("`", "") for cell in row.split("|")[1:-1]] for row in rows[0].splitlines()[2:]]


def asking(server: EmbeddingServer, chosen: EmbedderSettings, **values: Any) -> CountingEmbedder:
    made = chosen.model_copy(update={"endpoint": server.url, **values})
    return make_embedder(named_spec(made), made)


def test_every_block_is_of_an_embedder_a_reranker_or_a_language_model() -> None:
    assert len(blocks()) == len(embedders()) + len(rerankers()) + len(language_models()) > 15
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("```yaml\n") == len(blocks())


@pytest.mark.parametrize("block", embedders(), ids=names(embedders()))
def test_an_embedder_gets_the_right_requests_and_its_replies_are_read(
    block: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = block.embedder
    assert chosen.model is not None
    before, of_questions, of_passages = SENT[chosen.model]
    texts = [f"passage {number}" for number in range(chosen.batch_texts + 1)]
    if chosen.api_key_env:
        monkeypatch.setenv(chosen.api_key_env, "s3cret")
    with embedding_server(of_questions.get("dimensions", 8)) as server:
        made = asking(server, chosen)
        server.next(server.shuffled, server.shuffled)
        passages, questions = made.passages(texts), made.queries([QUESTION])
        wanted = [hashed_vector(text, server.dimension, chosen.model) for text in (*texts, before + QUESTION)]
    assert server.bodies == [
        {"model": chosen.model, "input": texts[:-1], **of_passages},
        {"model": chosen.model, "input": texts[-1:], **of_passages},
        {"model": chosen.model, "input": [before + QUESTION], **of_questions},
    ]
    assert set(server.keys) == {"Bearer s3cret" if chosen.api_key_env else "Bearer none"}
    units = np.array(wanted) / np.linalg.norm(wanted, axis=1, keepdims=True)
    assert np.allclose(np.concatenate([passages, questions]), units, atol=1e-5), "in order, and of length 1"


def test_every_embedder_of_the_table_has_a_block_within_its_lengths() -> None:
    rows = {row[0]: row for row in table("Embedders")}
    assert sorted(rows) == sorted(names(embedders())) == sorted(SENT)
    for block in embedders():
        chosen, (_, dimensions, tokens, question, passage) = block.embedder, rows[str(block.embedder.model)]
        lengths = [int(number) for number in re.findall(r"\d+", dimensions)]
        assert chosen.max_tokens < int(tokens)
        assert question == ("an instruction" if chosen.query_prefix else passage)
        asked = chosen.dimensions or chosen.passage_fields.get("output_dimension")
        assert (chosen.dimensions or lengths[0]) <= 4000, "an index takes no more"
        assert not asked or asked in lengths or ("or fewer" in dimensions and int(asked) < lengths[0])
        assert not chosen.api_key_env or str(chosen.endpoint).startswith("https://")


@pytest.mark.parametrize("block", rerankers(), ids=names(rerankers()))
def test_a_reranker_gets_the_right_request_and_its_reply_is_read(
    block: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = block.query.cross_encoder
    by_texts = chosen.texts_field == "texts"
    fields = {"rerank-2.5": {}, "jina-reranker-v2-base-multilingual": {"return_documents": False}}
    passages = [f"passage {number} {QUESTION[: number % 20]}" for number in range(block.query.candidates)]
    if chosen.api_key_env:
        monkeypatch.setenv(chosen.api_key_env, "s3cret")
    with rerank_server() as server:
        server.answer = FORMS["list" if by_texts else "data" if "voyage" in str(chosen.endpoint) else "results"]
        made = make_cross_encoder(chosen.model_copy(update={"endpoint": server.url}))
        found = made.scores(QUESTION, passages)
    more = {"truncate": True} if by_texts else fields.get(str(chosen.model), {})
    sent = {"model": chosen.model, "query": QUESTION, "texts" if by_texts else "documents": passages, **more}
    assert server.bodies == [sent], "all candidates in one request"
    assert server.keys == ["Bearer s3cret" if chosen.api_key_env else "Bearer none"]
    assert found == pytest.approx([shared_words(QUESTION, passage) for passage in passages])
    assert block.query.rerank == ("cross-encoder",)


def test_every_reranker_with_a_block_is_in_the_table() -> None:
    listed = " ".join(row[0] for row in table("Rerankers"))
    assert [name for name in names(rerankers()) if name not in listed] == []
    assert len(table("Rerankers")) == len(set(names(rerankers())))


# ---------------------------------------------------------------- wrong answers


@pytest.mark.case(8)
@pytest.mark.parametrize("length", [1023, 1025])
def test_a_length_that_was_not_asked_for_names_its_setting(length: int) -> None:
    (block,) = [block for block in embedders() if block.embedder.model == "text-embedding-3-large"]
    with embedding_server(length) as server, pytest.raises(ModelError, match=f"{length} dimensions, not the 1024 of"):
        asking(server, block.embedder).passages(["one", "two"])
    with (
        embedding_server(length) as server,
        pytest.raises(ModelError, match=r"embedder\.dimensions; set that length, or "),
    ):
        asking(server, block.embedder).queries(["one"])


@pytest.mark.case(8)
@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"dimensions": 4}, r"answered 400; check the model and embedder\.dimensions$"),
        ({"passage_fields": {"task": "x"}}, r"answered 400; check the model and embedder\.passage_fields$"),
        ({"query_fields": {"task": "x"}}, r"answered 400; check the model$"),
    ],
)
def test_a_request_that_is_refused_names_what_it_may_be_for(values: dict[str, Any], told: str) -> None:
    with embedding_server() as server, pytest.raises(RefusedText, match=told):
        server.next(*[server.status(400)] * 9)
        asking(server, EmbedderSettings(endpoint=server.url, model="m"), **values).passages(["one"])


@pytest.mark.case(8)
def test_an_invalid_reply_names_the_address_setting() -> None:
    with embedding_server() as server, pytest.raises(ModelError, match=r"no embeddings .*that embedder\.endpoint is"):
        server.next(lambda texts: (200, {"embeddings": [[0.1]]}))
        asking(server, EmbedderSettings(endpoint=server.url, model="m")).passages(["one"])


# ---------------------------------------------------------------- settings and identity


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"model": "m", "dimensions": 8}, "dimensions is for an endpoint; set embedder.endpoint"),
        ({"query_fields": {"task": "x"}}, "query_fields is for an endpoint"),
        (
            {"endpoint": "http://localhost:1", "model": "m", "query_fields": {"input": "x"}},
            "'input' is a field of every",
        ),
        ({"endpoint": "http://localhost:1", "model": "m", "dimensions": 4001}, "a whole number from 1 to 4000"),
        ({"model": "m", "api_key_env": "K"}, "api_key_env is for an endpoint"),
        ({"model": "m", "batch_texts": 8}, "batch_texts is for an endpoint"),
        (
            {"endpoint": "http://localhost:1", "model": "m", "query_fields": {"api-Key": "sk-1"}},
            "'api-Key' would be kept",
        ),
        ({"endpoint": "http://localhost:1", "model": "m", "query_fields": {"t": math.nan}}, "query_fields"),
    ],
)
def test_settings_of_an_embedder_that_cannot_be_meant_are_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=told) as raised:
        settings_from({"embedder": values})
    assert "sk-1" not in str(raised.value)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"model": "m", "texts_field": "texts"}, "texts_field is for an endpoint; set query.cross_encoder.endpoint"),
        ({"model": "m", "api_key_env": "K"}, "api_key_env is for an endpoint"),
        ({"endpoint": "http://localhost:1"}, "endpoint needs model"),
        ({"endpoint": "http://localhost:1", "model": "m", "revision": "main"}, "revision is for a model on a hub"),
        ({"endpoint": "http://localhost:1", "model": "m", "texts_field": "texts", "fields": {"documents": 1}},
         "'documents' is a field of every"),
        ({"endpoint": "http://localhost:1", "model": "m", "fields": {"t": math.inf}}, "fields"),
    ],
)  # fmt: skip
def test_settings_of_a_reranker_that_cannot_be_meant_are_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        settings_from({"query": {"cross_encoder": values}})


def test_only_settings_that_change_a_vector_change_the_identity() -> None:
    base: dict[str, Any] = {"endpoint": "http://localhost:1/v1", "model": "m"}
    same: list[dict[str, Any]] = [{}, {"batch_texts": 8}, {"encoding_format": "none"}, {"api_key_env": "K"}]
    other: list[dict[str, Any]] = [
        {"dimensions": 8},
        {"dimensions": 9},
        {"passage_fields": {"t": 1}},
        {"query_fields": {"t": 1}},
    ]
    identities = [named_spec(EmbedderSettings(**{**base, **values})).identity for values in (*same, *other)]
    before = fingerprint("embedder", "m", base["endpoint"], None, None, 512)
    assert set(identities[: len(same)]) == {before}, "an index that was made before these settings stays what it is"
    assert len(set(identities)) == 1 + len(other)
    for values in other:
        require_weights(named_spec(EmbedderSettings(**{**base, **values})))
