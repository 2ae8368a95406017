"""Routes, fusion, rerankers and deduplication in sequence, over an index in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, get_args
from unittest.mock import Mock

import pytest

from pipelines.errors import SettingsError, UsageError
from pipelines.ports import Candidate, DocumentTerms, Filters, FoundAbbreviation, Passage, Reply, Terms
from pipelines.query.rerankers import RERANKERS
from pipelines.query.results import Hit, hit_json, query_json
from pipelines.query.retrieve import FUSED_DEPTH, LONGEST_QUESTION, MEASURED_DEPTH, SENTENCE, require_question, retrieve
from pipelines.query.routes import MEASURES, ROUTES, STRATEGIES, weighed_names
from pipelines.query.wording import Question
from pipelines.settings.models import LlmSettings
from pipelines.settings.query import FusionWeights, QuerySettings, RerankerName, StrategyName
from tests.support.query_fakes import Unasked, passage
from tests.support.tool_fakes import FakeModel, lengths, tools

SETTINGS = QuerySettings(candidates=2)
TOOLS = tools(embed_queries=lengths)


class MemoryIndex(Unasked):
    """Fixed rankings; remembers what it was asked. `hidden` ids are kept back by their groups; `measured` is what is
    told of chunks that were found, by what is asked and id, else 0."""

    def __init__(self, passages: Sequence[Passage], dense: str, lexical: str, hidden: str = "") -> None:
        self.known = {item.chunk_id: item for item in passages}
        self.measured: dict[str, dict[str, float]] = {}
        self.looked_at: dict[str, list[str]] = {}
        self.measured_ever: list[str] = []
        self.rankings = {"dense": dense.split(), "lexical": lexical.split()}
        self.hidden = set(hidden.split())
        self.asked: list[tuple[str, object, int]] = []
        self.names: dict[str, list[str]] = {}

    keeps_names = True

    def bearers(self, names: Collection[str], filters: Filters) -> tuple[dict[str, int], int]:
        return {name: len(self.names[name]) for name in names if name in self.names}, len(self.known)

    def abbreviations(self, keys: Collection[str], filters: Filters) -> list[FoundAbbreviation]:
        return []

    def named_documents(self, names: Mapping[str, float], k: int, filters: Filters) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, weight in names.items():
            for doc_id in self.names[name]:
                found[doc_id] = found.get(doc_id, 0.0) + weight
        return found

    def surrounding_scores(self, chunk_ids: Sequence[str], terms: Terms, filters: Filters) -> dict[str, float]:
        return self._scored("surroundings", chunk_ids)

    def documents_of(self, chunk_ids: Sequence[str], filters: Filters) -> dict[str, str]:
        return {chunk_id: self.known[chunk_id].doc_id for chunk_id in chunk_ids}

    def _is_within(self, chunk_id: str, filters: Filters) -> bool:
        return filters.documents is None or self.known[chunk_id].doc_id in filters.documents

    def _route(self, name: str, what: object, k: int, filters: Filters) -> list[Candidate]:
        self.asked.append((name, what, k))
        within = [item for item in self.rankings[name] if self._is_within(item, filters)]
        return [Candidate(item, 1.0 / rank) for rank, item in enumerate(within[:k], start=1)]

    def dense(self, vector: Sequence[float], k: int, filters: Filters) -> list[Candidate]:
        return self._route("dense", list(vector), k, filters)

    def lexical(self, terms: Terms, k: int, filters: Filters) -> list[Candidate]:
        return self._route("lexical", list(terms), k, filters)

    def _scored(self, name: str, chunk_ids: Sequence[str]) -> dict[str, float]:
        self.looked_at[name] = list(chunk_ids)
        self.measured_ever += chunk_ids if name == "nearest_sentence" else ()
        return {item: self.measured.get(name, {}).get(item, 0.0) for item in chunk_ids}

    def _score(self, name: str, chunk_ids: Sequence[str]) -> dict[str, float]:
        self.looked_at[name] = list(chunk_ids)
        places = {item: rank for rank, item in enumerate(self.rankings[name], start=1)}
        return {item: 1.0 / places[item] for item in chunk_ids if item in places}

    def similarities(self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters) -> dict[str, float]:
        return {**dict.fromkeys(chunk_ids, 0.0), **self._score("dense", chunk_ids)}

    def lexical_scores(self, chunk_ids: Sequence[str], terms: Terms, filters: Filters) -> dict[str, float]:
        return self._score("lexical", chunk_ids)

    def sentence_similarities(
        self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters
    ) -> dict[str, float]:
        return self._scored("nearest_sentence", chunk_ids)

    def document_terms(self, chunk_ids: Sequence[str], terms: Terms, filters: Filters) -> list[DocumentTerms]:
        weights = self._scored("document", chunk_ids)
        return [DocumentTerms(item, item, (item,), 1, dict.fromkeys(terms, weights[item])) for item in chunk_ids]

    def passages(self, chunk_ids: Sequence[str], filters: Filters) -> dict[str, Passage]:
        return {item: self.known[item] for item in chunk_ids if item not in self.hidden}

    def newest_date(self) -> str | None:
        return "2026-01-01"


class Encoder:
    """Likes short passages; remembers what it read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        self.read.extend(passages)
        return [1 / len(text) for text in passages]


def index(**values: str) -> MemoryIndex:
    letters = [passage(letter) for letter in "abcdef"]
    return MemoryIndex(letters, **{"dense": "a b c d e f", "lexical": "c a f", **values})


def found(asked: MemoryIndex, question: Question | str = "question", **values: Any) -> list[Hit]:
    return retrieve(question, asked, TOOLS, SETTINGS, **values).hits


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.passage.chunk_id for hit in hits]


def test_dense_asks_one_route_and_reports_its_score() -> None:
    hits = found(index(), k=2, strategy="dense")
    assert [(hit.rank, hit.passage.chunk_id, hit.score, hit.scores) for hit in hits] == [
        (1, "a", 1.0, {"dense": 1.0}),
        (2, "b", 0.5, {"dense": 0.5}),
    ]


def test_a_reranker_sees_twenty_candidates_by_default() -> None:
    many = [passage(f"{number:02d}") for number in range(30)]
    reader = Encoder()
    retrieve(
        "question", MemoryIndex(many, " ".join(item.chunk_id for item in many), ""),
        tools(embed_queries=lengths, cross_encoder=lambda: reader), QuerySettings(), k=3, strategy="dense",
        rerank=["cross-encoder"],
    )  # fmt: skip
    assert len(reader.read) == 20


def test_lexical_needs_no_embedder_and_gets_terms() -> None:
    asked = index()
    hits = retrieve("Two questions", asked, tools(), SETTINGS, k=2, strategy="lexical").hits
    assert ids(hits) == ["c", "a"]
    assert asked.asked == [("lexical", ["two", "question"], 2)]


def test_options_join_the_lexical_query_only() -> None:
    asked = index()
    found(asked, Question("how", lexical="how or why, or how not"), k=2)
    deep = 2 * FUSED_DEPTH
    assert asked.asked == [("dense", [3.0, 1.0], deep), ("lexical", ["how", "or", "whi", "not"], deep)]


def test_hybrid_fuses_and_reports_every_stage() -> None:
    by_rank = QuerySettings(candidates=2, fusion="reciprocal-rank")
    hits = retrieve("question", index(), TOOLS, by_rank, k=3).hits
    assert ids(hits) == ["a", "c", "f"]
    assert hits[0].scores == pytest.approx({"dense": 1.0, "lexical": 0.5, "fused": 1 / 61 + 1 / 62})
    last = retrieve("question", index(lexical="c"), TOOLS, by_rank, k=6).hits[-1]
    assert set(last.scores) == {"dense", "fused"}


def test_candidates_are_scored_by_all_routes_and_by_the_measures() -> None:
    asked = index(dense="a b", lexical="c")
    asked.measured = {"nearest_sentence": {"b": 0.7}}
    hits = {hit.passage.chunk_id: hit for hit in found(asked, k=3)}
    assert asked.looked_at == {name: ["a", "c", "b"] for name in ("dense", "lexical", "nearest_sentence", "document")}
    assert set(hits["c"].scores) == {"dense", "lexical", "nearest_sentence", "document", "fused"}
    assert (hits["c"].scores["dense"], hits["b"].scores["lexical"], hits["b"].scores["nearest_sentence"]) == (0, 0, 0.7)
    assert "dense" not in hits["c"].ranks and hits["b"].ranks["nearest_sentence"] == 1


def test_so_many_of_what_was_found_are_measured() -> None:
    many = [passage(str(number)) for number in range(100)]
    order = " ".join(item.chunk_id for item in many)
    asked = MemoryIndex(many, dense=order, lexical=order)
    found(asked, k=2)
    assert {len(seen) for seen in asked.looked_at.values()} == {2 * MEASURED_DEPTH}


def test_duplicates_make_more_candidates_measured_each_once() -> None:
    text = "the same text that is long enough to stand for itself whatever heading it has, in each of the documents"
    copies = [passage(f"{number:03}", text=text) for number in range(40)]
    order = " ".join(item.chunk_id for item in copies)
    asked = MemoryIndex([*copies, passage("x"), passage("y")], dense=f"{order} x y", lexical="")
    assert ids(found(asked, k=3)) == ["000", "x", "y"]
    assert sorted(asked.measured_ever) == sorted([*order.split(), "x", "y"])


def test_to_ask_for_more_puts_nothing_in_another_order() -> None:
    many = [passage(f"{number:03}") for number in range(60)]
    order = [item.chunk_id for item in many]
    asked = MemoryIndex(many, dense=" ".join(order), lexical=" ".join(reversed(order)))
    asked.measured = {"nearest_sentence": {name: (place * 37 % 60) / 60 for place, name in enumerate(order)}}
    some, more = (ids(found(asked, k=k)) for k in (3, 20))
    assert [name for name in more if name in some] == some


def test_a_measure_without_a_weight_is_not_asked() -> None:
    asked = index()
    light = QuerySettings(candidates=2, fusion_weights={"nearest_sentence": 0, "document": 0})
    retrieve("question", asked, TOOLS, light)
    assert set(asked.looked_at) == {"dense", "lexical"}


def test_weights_of_fusion_are_those_of_the_settings() -> None:
    heavy = QuerySettings(fusion_weights={"lexical": 100})
    assert retrieve("question", index(), TOOLS, heavy).hits[0].passage.chunk_id == "c"
    heavy = QuerySettings(fusion_weights={"dense": 100})
    assert ids(retrieve("question", index(), TOOLS, heavy).hits) == ["a", "b", "c", "d", "e", "f"]
    for name in MEASURES.keys() - {"names"}:
        asked = index()
        asked.measured = {name: {"e": 1.0, "d": 0.5}}
        heavy = QuerySettings(fusion_weights={name: 100})
        assert ids(retrieve("question", asked, TOOLS, heavy).hits)[:2] == ["e", "d"]


def test_a_document_that_the_question_names_adds_its_chunks() -> None:
    many = [passage(f"{number:03}", doc_id="other") for number in range(80)]
    own = [passage("x", doc_id="acme"), passage("y", doc_id="acme")]
    order = " ".join(item.chunk_id for item in [*many, *own])
    asked = MemoryIndex([*many, *own], dense=order, lexical=order)
    asked.names = {"acm": ["acme"]}
    best = retrieve("what did Acme pay in 2020", asked, TOOLS, QuerySettings(candidates=5)).hits
    assert {"x", "y"} <= set(ids(best)[:5]) and all(
        hit.scores["names"] > 0 for hit in best if hit.passage.doc_id == "acme"
    )
    without = QuerySettings(candidates=5, fusion_weights={"names": 0})
    plain = retrieve("what did Acme pay in 2020", asked, TOOLS, without).hits
    assert not {"x", "y"} & set(ids(plain)) and all("names" not in hit.scores for hit in plain)


def test_a_question_that_names_no_document_is_ranked_as_without_names() -> None:
    without = QuerySettings(candidates=2, fusion_weights={"names": 0})
    plain, same = (retrieve("question", index(), TOOLS, settings).hits for settings in (without, SETTINGS))
    assert [(hit.passage.chunk_id, hit.score, hit.scores) for hit in plain] == [
        (hit.passage.chunk_id, hit.score, hit.scores) for hit in same
    ]


def test_names_are_not_looked_for_where_nothing_is_measured() -> None:
    asked = index()
    asked.names = {"acm": ["acme"]}
    asked.bearers = Mock(side_effect=AssertionError("asked for names"))  # type: ignore[method-assign]
    assert retrieve("Acme", asked, TOOLS, QuerySettings(candidates=2, fusion="reciprocal-rank")).hits
    with pytest.raises(AssertionError, match="asked for names"):
        retrieve("Acme", asked, TOOLS, SETTINGS)


def test_a_name_that_many_documents_bear_tells_nothing_unless_it_has_a_digit() -> None:
    told = weighed_names({"guid": 21, "acm": 20, "2020": 90}, 100)
    assert told.keys() == {"acm", "2020"} and told["acm"] > told["2020"] > 0
    assert weighed_names({"acm": 1}, 3).keys() == {"acm"} and weighed_names({"acm": 2}, 3) == {}


def test_a_generation_without_names_is_asked_without_them_and_a_note_says_so() -> None:
    asked = index()
    asked.keeps_names = False
    found = retrieve("question", asked, TOOLS, SETTINGS)
    assert any("names of documents are not kept" in note for note in found.notes)
    assert ids(found.hits) == ids(retrieve("question", index(), TOOLS, SETTINGS).hits)


def test_instructions_in_a_question_count_little_and_are_not_embedded() -> None:
    text, asking = "What is owed? Answer in millions.", "What is owed?"
    asked = index()
    retrieve(text, asked, TOOLS, SETTINGS)
    assert ("dense", lengths([asking])[0].tolist(), 50) in asked.asked
    asked = index()
    retrieve(text, asked, TOOLS, QuerySettings(candidates=2, asking_part=False))
    assert ("dense", lengths([text])[0].tolist(), 50) in asked.asked


def test_a_fiscal_year_is_also_searched_for_as_a_year() -> None:
    for settings, terms in (
        (SETTINGS, ["sale", "fy2018", "2018"]),
        (SETTINGS.model_copy(update={"fiscal_years": False}), ["sale", "fy2018"]),
    ):
        asked = index()
        retrieve("sales FY2018", asked, TOOLS, settings)
        assert terms in [what for name, what, _ in asked.asked if name == "lexical"]


def test_duplicates_do_not_cost_places() -> None:
    text = "the same text that is long enough to stand for itself whatever heading it has, in each of the documents"
    copies = [passage(letter, text=text) for letter in "abcd"]
    asked = MemoryIndex([*copies, passage("e"), passage("f")], dense="a b c d e f", lexical="")
    hits = found(asked, k=2, strategy="dense")
    assert ids(hits) == ["a", "e"]
    assert [twin.chunk_id for twin in hits[0].duplicates] == ["b", "c", "d"]
    assert [k for _, _, k in asked.asked] == [2, 4, 8]


def test_a_passage_that_a_hit_continues_is_told_from_one_with_the_same_text() -> None:
    before, same = (
        "What the contract says of warranty, in words enough to stand alone under any heading.",
        "What follows.",
    )
    asked = MemoryIndex(
        [
            passage("b", text=same, overlap=before, previous_id="a"),
            passage("a", text=before, next_id="b"),
            passage("c", text=same),
            passage("d"),
        ],
        dense="b a c d",
        lexical="",
    )
    hit, _ = found(asked, k=2, strategy="dense")
    assert [(twin["chunk_id"], twin["precedes"]) for twin in hit_json(hit)["duplicates"]] == [("a", True), ("c", False)]


def test_an_overlapping_neighbour_takes_none_of_the_top_places_and_is_not_lost() -> None:
    end = "what both of them say"
    first = passage("a", text=f"The first has much to tell before, and then {end}", next_id="b")
    second = passage("b", text="the second goes on from there", overlap=end, previous_id="a")
    asked = MemoryIndex([first, second, passage("c"), passage("d")], dense="a b c d", lexical="")
    assert ids(found(asked, k=3, strategy="dense")) == ["a", "c", "d"]
    assert ids(found(asked, k=4, strategy="dense")) == ["a", "c", "d", "b"]


def test_a_reranker_sees_once_as_many_candidates_as_are_needed() -> None:
    text = "the same text that is long enough to stand for itself whatever heading it has, in each of the documents"
    copies = [passage(letter, text=text) for letter in "abcd"]
    asked = MemoryIndex([*copies, passage("e"), passage("f")], dense="a b c d e f", lexical="")
    model = FakeModel("[5] > [1]")
    asking = tools(model, embed_queries=lengths)
    hits = retrieve("question", asked, asking, SETTINGS, k=2, strategy="dense", rerank=("listwise",)).hits
    assert (ids(hits), len(model.asked)) == (["e", "a"], 1)


def test_fewer_than_k_only_where_no_more_exist() -> None:
    assert len(found(index(), k=50, strategy="dense")) == 6


def test_passages_hidden_by_groups_are_not_shown_even_if_a_route_found_them() -> None:
    assert "a" not in ids(found(index(hidden="a"), k=5))


@pytest.mark.parametrize("name", ["weighted", "evidence", "cross-encoder", "logprob", "listwise"])
def test_passages_hidden_by_groups_reach_no_reranker(name: str) -> None:
    secret = passage("a", text="the secret of group B")
    asked = MemoryIndex([secret, *map(passage, "bcdef")], dense="a b c d e f", lexical="a b", hidden="a")
    model = FakeModel(by=lambda prompt: Reply("[1] > [2]", logprobs=(("Yes", -0.1),)))
    encoder = Encoder()
    asking = tools(model, embed_queries=lengths, cross_encoder=lambda: encoder)
    hits = retrieve("secret", asked, asking, SETTINGS, k=5, rerank=(name,)).hits
    assert sorted(ids(hits)) == ["b", "c", "d", "e", "f"]
    assert "group B" not in "".join([*(prompt.user for prompt in model.asked), *encoder.read])


def test_rerankers_run_in_sequence() -> None:
    hits = found(index(), k=2, strategy="dense", rerank=("none", "evidence", "weighted"))
    assert all("evidence" in hit.scores and hit.score == hit.scores["weighted"] for hit in hits)


def test_nothing_found_asks_no_reranker() -> None:
    assert (
        retrieve("question", index(lexical=""), tools(), SETTINGS, strategy="lexical", rerank=("logprob",)).hits == []
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"strategy": "sparse"}, "unknown strategy 'sparse'; known: dense, lexical, hybrid, hyde"),
        ({"rerank": ("best",)}, "unknown reranker 'best'; known: none, weighted, evidence, cross-encoder"),
        ({"k": 0}, "k must be at least 1"),
        ({"k": 10**30}, "k must be at most 10,000"),
        ({"question": "  "}, "the question is empty"),
        ({"question": "ke\udcffys"}, "half of a surrogate pair"),
    ],
)
def test_invalid_arguments_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        found(index(), **values)


def test_a_strategy_without_a_language_model_is_refused_as_the_settings_say() -> None:
    asking = tools(model=LlmSettings().role)
    with pytest.raises(
        SettingsError, match=r"the role 'hyde' needs a language model, but base_url and model are not set"
    ):
        retrieve("question", index(), asking, SETTINGS, strategy="hyde")


def test_every_name_of_the_settings_is_known_and_no_other() -> None:
    assert (*STRATEGIES, SENTENCE) == get_args(StrategyName)
    assert (*RERANKERS,) == get_args(RerankerName)
    assert (*ROUTES, *MEASURES) == (*FusionWeights.model_fields,)
    assert {name for strategy in STRATEGIES.values() for name in strategy.measures} == set(MEASURES)


def test_json_of_a_query() -> None:
    hits = found(index(), k=1, strategy="dense")
    assert query_json("question", 7, hits, 0.5) == {
        "query": "question",
        "generation": 7,
        "hits": [hit_json(hits[0])],
        "seconds": 0.5,
    }
    assert set(hit_json(hits[0])) >= {
        *("rank", "score", "scores", "chunk_id", "doc_id", "source", "uri", "title", "page_start", "page_end"),
        *("header_chain", "block_types", "text", "overlap", "context", "boxes", "duplicates"),
    }


def test_a_question_has_a_greatest_length() -> None:
    require_question("a" * LONGEST_QUESTION, 1)
    with pytest.raises(UsageError, match="the question has 10,001 characters; at most 10,000"):
        require_question("a" * (LONGEST_QUESTION + 1), 1)
    with pytest.raises(UsageError, match="the question with its options has 100,000"):
        require_question("a", 1, "b" * 100_000)
