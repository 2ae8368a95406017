"""Enrichment, search and answers with a real model behind a real endpoint: what must hold however little
the model understands."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pipelines.llm.prompts import TAGS
from pipelines.llm.reply_text import clean
from pipelines.settings.query import QuerySettings
from resources.prompts import read_prompts
from tests.llm.conftest import DOCUMENTS, MODEL, PRICES, Made

QUESTION = "Where is the key to the electrical panel?"
LONGEST = 250
METHODS = frozenset({"llm", "fallback"})
_TAG = re.compile(rf"</?(?:{'|'.join(TAGS)})\b|<\||\[/?INST\]|\[pages? \d", re.IGNORECASE)
RUN = 8
"""Words in a row that no summary has in common with a prompt by chance."""


def live(made: Made, columns: str, table: str) -> list[tuple[Any, ...]]:
    ((number,),) = made.project.rows("SELECT generation FROM pincite.live")
    return made.project.rows(f"SELECT {columns} FROM g{number:04}.{table}")


def generated(made: Made, *methods: str) -> dict[str, list[str]]:
    """The live summaries and contexts that came about in one of these ways."""
    found = {
        "summary": live(made, "summary, summary_method", "documents"),
        "context": live(made, "context, context_method", "chunks"),
    }
    return {role: [text for text, method in rows if method in methods] for role, rows in found.items()}


def asked(made: Made, command: str, *arguments: str) -> dict[str, Any]:
    """A command with QUESTION, and all candidates among its hits."""
    ran = made.project.run(command, QUESTION, "-k", str(QuerySettings().candidates), *arguments)
    assert ran.code == 0, ran.out + ran.err
    return ran.json


def hits(found: dict[str, Any]) -> list[str]:
    return [hit["chunk_id"] for hit in found["hits"]]


def runs(text: str) -> set[str]:
    """All runs of words, without tags; an instruction is recognised by one."""
    words = re.findall(r"\w+", re.sub(r"</?\w+>", " ", text).casefold())
    return {" ".join(words[at : at + RUN]) for at in range(len(words) - RUN + 1)}


# ---------------------------------------------------------------- enrichment


def test_every_document_and_chunk_is_written_about_by_the_model_or_extractively(made: Made) -> None:
    assert made.result["documents"]["failed"] == []
    assert made.result["documents"]["added"] == len(DOCUMENTS)
    counted = made.project.run("status").json["enrichment"]
    for stage, count in (("document_summaries", len(DOCUMENTS)), ("chunk_contexts", made.result["chunks"]["total"])):
        assert counted[stage].keys() <= METHODS
        assert sum(counted[stage].values()) == count
    assert counted["document_summaries"].get("llm", 0) > 0
    assert all(0 < len(text.strip()) <= LONGEST for texts in generated(made, *METHODS).values() for text in texts)


def test_texts_the_model_generates_are_clean(made: Made) -> None:
    for texts in generated(made, "llm").values():
        for text in texts:
            assert clean(text, LONGEST) == text
            assert not _TAG.search(text)


def test_no_words_of_a_prompt_come_back_in_what_it_says(made: Made) -> None:
    prompts = read_prompts(made.project.folder / "prompts")
    for role, texts in generated(made, "llm").items():
        instructions = runs(prompts[role]["en"].replace("{characters}", str(LONGEST)))
        assert instructions
        assert [text for text in texts if runs(text) & instructions] == []


def test_costs_are_those_of_the_tokens_that_the_endpoint_told(made: Made) -> None:
    bought = made.result["llm"]
    assert bought["calls"] == len(DOCUMENTS) + made.result["chunks"]["total"]
    assert bought["prompt_tokens"] > 100 * bought["calls"]
    assert bought["completion_tokens"] >= bought["calls"]
    price = bought["prompt_tokens"] * PRICES["prompt"] + bought["completion_tokens"] * PRICES["completion"]
    assert bought["cost"] == pytest.approx(price / 1e6)
    kept = [item for item in made.project.run("status").json["costs"] if item.get("calls")]
    assert {item["model"] for item in kept} == {MODEL}
    assert sum(item["prompt_tokens"] for item in kept) >= bought["prompt_tokens"]
    assert {item["estimated_tokens"] for item in kept} == {0}


def test_the_plan_is_no_lower_than_what_the_endpoint_told(made: Made) -> None:
    planned, bought = made.planned, made.result["llm"]
    assert planned["calls"] == bought["calls"]
    for name in ("prompt_tokens", "completion_tokens", "cost"):
        assert planned[name] >= bought[name] > 0


def test_a_second_run_asks_nothing(made: Made) -> None:
    assert made.project.run("plan").json["calls"] == 0
    again = made.project.index()
    assert again["llm"]["calls"] == 0
    assert again["documents"]["unchanged"] == len(DOCUMENTS)
    assert again["embedded"] == {"chunks": 0, "sentences": 0}


# ---------------------------------------------------------------- queries


@pytest.mark.parametrize("strategy", ["hyde", "multi-query+hybrid"])
def test_a_strategy_searches_with_what_the_model_wrote_or_says_that_it_could_not(made: Made, strategy: str) -> None:
    found = asked(made, "query", "--strategy", strategy)
    assert hits(found)
    written = [text for name, text in found["searched"].items() if name.startswith(("hyde", "rewrite"))]
    assert written or any(strategy.partition("+")[0] in note for note in found["notes"])
    assert all(text.strip() and not _TAG.search(text) for text in written)


def test_listwise_loses_no_passage(made: Made) -> None:
    before, found = asked(made, "query"), asked(made, "query", "--rerank", "listwise")
    assert sorted(hits(found)) == sorted(hits(before))
    ordered = all("listwise" in hit["scores"] for hit in found["hits"])
    assert ordered or (hits(found) == hits(before) and any("listwise" in note for note in found["notes"]))


def test_logprob_scores_by_the_probabilities_that_the_endpoint_tells(made: Made) -> None:
    before, found = asked(made, "query"), asked(made, "query", "--rerank", "logprob")
    assert sorted(hits(found)) == sorted(hits(before))
    scores = [hit["scores"]["logprob"] for hit in found["hits"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert len(set(scores)) > 1


def test_an_answer_cites_what_the_documents_say_or_is_declined(made: Made) -> None:
    told = asked(made, "ask")
    assert told["declined"] is (told["citations"] == [])
    assert told["generated"] is (told["model"] == MODEL)
    texts = {chunk: " ".join(text.split()) for chunk, text in live(made, "chunk_id, text", "chunks")}
    for citation in told["citations"]:
        assert citation["uri"] in DOCUMENTS
        assert " ".join(citation["quote"].split()) in texts[citation["chunk_id"]]
    assert not _TAG.search(told["answer"])


def test_a_choice_is_one_of_the_options_or_none(made: Made) -> None:
    options = {"A": "in the red cabinet", "B": "in the kitchen", "C": "in the garden"}
    told = asked(made, "ask", *(part for item in options.items() for part in ("--option", "=".join(item))))
    assert told["option"] in (*options, None)
    assert told["declined"] is (told["option"] is None)
