"""Rerankers behind an endpoint that answers to `/rerank`: what is sent, and what is made of what comes back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.errors import ModelError, SettingsError
from pipelines.settings.base import settings_from
from pipelines.settings.query import CrossEncoderSettings
from resources.models.rerankers import EndpointCrossEncoder, make_cross_encoder
from resources.search.passages import QueryModels
from resources.settings_file import with_absolute_places
from tests.support.rerank_server import FORMS, RerankServer, rerank_server, scored, shared_words

QUESTION = "when is the boiler inspected"
PASSAGES = ["visitors sign", "the boiler is inspected in October", "the boiler", "inspected", "when"]


@pytest.fixture
def server() -> Iterator[RerankServer]:
    with rerank_server() as made:
        yield made


def reranker(server: RerankServer, **values: Any) -> EndpointCrossEncoder:
    made = make_cross_encoder(CrossEncoderSettings(endpoint=server.url, model="judge", **values))
    assert isinstance(made, EndpointCrossEncoder)
    return made


@pytest.mark.parametrize("form", FORMS)
def test_scores_come_back_in_the_order_of_the_passages(server: RerankServer, form: str) -> None:
    server.answer = FORMS[form]
    wanted = [shared_words(QUESTION, passage) for passage in PASSAGES]
    assert wanted != sorted(wanted, reverse=True), "the endpoint sends the best first"
    assert reranker(server).scores(QUESTION, PASSAGES) == pytest.approx(wanted)
    assert server.paths == ["/v1/rerank"]
    assert server.bodies == [{"model": "judge", "query": QUESTION, "documents": PASSAGES}]


def test_passages_go_in_batches_under_the_name_the_endpoint_takes(server: RerankServer) -> None:
    server.answer = FORMS["list"]
    made = reranker(server, batch_size=2, texts_field="texts", fields={"truncate": True})
    assert made.scores(QUESTION, PASSAGES) == pytest.approx([shared_words(QUESTION, text) for text in PASSAGES])
    assert [body["texts"] for body in server.bodies] == [PASSAGES[:2], PASSAGES[2:4], PASSAGES[4:]]
    assert all(body["truncate"] is True and "documents" not in body for body in server.bodies)
    assert made.scores(QUESTION, []) == [] and len(server.bodies) == 3


def test_scores_outside_0_to_1_are_read_as_logits_all_of_them(server: RerankServer) -> None:
    logits = [0.5, -8.0, -800.0, 0.25, 3.0]
    server.answer = lambda body: (200, {"results": [
        {"index": number, "relevance_score": logits[PASSAGES.index(text)]} for number, text in
        enumerate(body["documents"])
    ]})  # fmt: skip
    found = reranker(server, batch_size=2).scores(QUESTION, PASSAGES)
    assert found == pytest.approx([1 / (1 + math.exp(-logit)) if logit > -700 else 0.0 for logit in logits])


def of(results: Any) -> Any:
    return lambda body: (200, {"results": results})


WRONG = {
    "no JSON of the kind": (lambda body: (200, "no"), "gave no scores .* query.cross_encoder.endpoint"),
    "no results": (lambda body: (200, {"error": "no"}), "gave no scores .* query.cross_encoder.endpoint"),
    "no index": (of([{"relevance_score": 0.5}]), "gave no scores .KeyError"),
    "no score": (of([{"index": 0}, {"index": 1}]), "gave no scores .KeyError"),
    "no number": (of([{"index": 0, "relevance_score": None}]), "gave no scores .TypeError"),
    "no such index": (of([{"index": [], "relevance_score": 1}]), "gave no scores .TypeError"),
    "one short": (lambda body: (200, {"results": scored(body)[1:]}), "1 scores for 2 passages.*cross_encoder.fields"),
    "one twice": (of([{"index": 0, "relevance_score": 1}] * 2), "2 scores for 2 passages, where each"),
    "another index": (of([{"index": number, "relevance_score": 1} for number in (1, 2)]), "where each should have one"),
    "not finite": (of([{"index": number, "score": math.nan} for number in (0, 1)]), "query.cross_encoder.model"),
}


@pytest.mark.case(8)
@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_reply_is_one_clear_error(server: RerankServer, fault: str) -> None:
    answer, told = WRONG[fault]
    server.answer = answer
    with pytest.raises(ModelError, match=told) as caught:
        reranker(server).scores(QUESTION, PASSAGES[:2])
    assert server.url in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.case(6)
def test_an_endpoint_that_is_busy_is_asked_again(server: RerankServer) -> None:
    server.faults = [lambda body: (429, {}), lambda body: (503, {})]
    assert len(reranker(server).scores(QUESTION, PASSAGES)) == len(PASSAGES)
    assert len(server.bodies) == 3


@pytest.mark.case(28)
@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, r"answered 401; .*query\.cross_encoder\.api_key_env"),
        (404, r"answered 404; .*query\.cross_encoder\.endpoint"),
        (422, r"answered 422; check query\.cross_encoder\.model, \.texts_field and \.fields"),
    ],
)
def test_a_refusal_names_the_setting_and_not_the_key(
    server: RerankServer, monkeypatch: pytest.MonkeyPatch, status: int, told: str
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "s3cret-key-of-the-judge")
    server.answer = lambda body: (status, {"error": {"message": "s3cret-key-of-the-judge"}})
    with pytest.raises(ModelError, match=told) as caught:
        reranker(server, api_key_env="JUDGE_KEY").scores(QUESTION, PASSAGES)
    assert server.keys == ["Bearer s3cret-key-of-the-judge"]
    assert "s3cret" not in str(caught.value)


def test_a_query_asks_the_endpoint_for_the_model_by_its_name_there(server: RerankServer, tmp_path: Path) -> None:
    """A folder of that name beside the settings file is another model."""
    (tmp_path / "judge").mkdir()
    chosen = {"rerank": ["cross-encoder"], "cross_encoder": {"endpoint": server.url, "model": "judge"}}
    state: Any = SimpleNamespace(settings=with_absolute_places(settings_from({"query": chosen}), tmp_path))
    assert len(QueryModels(state).cross_encoder().scores(QUESTION, PASSAGES)) == len(PASSAGES)
    assert server.bodies[0]["model"] == "judge"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"endpoint": "http://localhost:1"}, "endpoint needs model"),
        ({"model": "m", "fields": {"top_n": 3}}, "set query.cross_encoder.endpoint"),
        ({"model": "m", "endpoint": "http://localhost:1", "fields": {"query": "x"}}, "'query' is a field of every"),
        ({"model": "m", "endpoint": "http://far.example", "api_key_env": "K"}, "over plain HTTP to far.example"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        settings_from({"query": {"cross_encoder": values}})
