"""Hits and answers judged against gold."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.evaluation.document_map import DocumentMap
from pipelines.evaluation.golden import Gold, GoldenQuestion, MappedQuestion, map_questions
from pipelines.evaluation.judging import ANSWER_METRICS, Corpus, judge, judge_answer, matches_by_header_alone
from pipelines.records import Box, Place
from tests.support.judged import BODY, CHUNKS, CORPUS, chunk, mapped
from tests.support.query_fakes import hit


def test_a_question_about_a_page() -> None:
    outcome = judge(mapped(Gold("d.pdf", page=2)), [chunk(1, "d", 0), chunk(2, "o", 0), chunk(3, "d", 1)], CORPUS, k=5)
    scores = outcome.scores
    assert scores["accuracy_doc"] == 1.0
    assert scores["accuracy_page"] == pytest.approx(2 / 3)
    assert [scores[f"recall@{k}"] for k in (1, 3, 20)] == [0.0, 1.0, 1.0]
    assert scores["precision@3"] == pytest.approx(1 / 3)
    assert scores["mrr"] == pytest.approx(1 / 3)
    assert scores["ndcg@10"] == pytest.approx(0.5)
    assert scores["span_recall"] is None and scores["span_precision_omega"] is None
    assert outcome.diagnosis == "found"


def test_a_hit_matches_a_page_that_any_of_its_own_text_lies_on() -> None:
    assert judge(mapped(Gold("d.pdf", page=1)), [chunk(1, "d", 1)], CORPUS, k=5).scores["recall@1"] == 1.0
    assert judge(mapped(Gold("d.pdf", page=3)), [chunk(1, "d", 1)], CORPUS, k=5).scores["recall@1"] == 0.0
    assert judge(mapped(Gold("d.pdf", page=2, page_end=3)), [chunk(1, "d", 2)], CORPUS, k=5).scores["recall@1"] == 1.0


def test_a_question_about_a_text() -> None:
    outcome = judge(mapped(Gold("d.pdf", quote="b" * 100)), [chunk(1, "d", 1), chunk(2, "d", 0)], CORPUS, k=1)
    scores = outcome.scores
    assert scores["recall@1"] == 1.0
    assert scores["accuracy_page"] == 1.0
    assert (scores["span_recall"], scores["span_precision"]) == (0.5, pytest.approx(50 / 60))
    assert scores["span_iou"] == pytest.approx(50 / (60 + 50))
    assert scores["span_precision_omega"] == pytest.approx(100 / 200)


def test_a_page_that_the_gold_names_decides_what_matches_and_its_quote_the_spans() -> None:
    scores = judge(mapped(Gold("d.pdf", page=2, quote="a" * 60)), [chunk(1, "d", 2)], CORPUS, k=5).scores
    assert (scores["recall@1"], scores["span_recall"]) == (1.0, 0.0)


def test_a_wrong_document_scores_no_page() -> None:
    scores = judge(mapped(Gold("d.pdf", page=1)), [chunk(1, "o", 0)], CORPUS, k=5).scores
    assert (scores["accuracy_doc"], scores["accuracy_page"]) == (0.0, 0.0)


def test_gold_that_names_a_document_alone_gives_no_page_metric() -> None:
    scores = judge(mapped(Gold("o.pdf")), [chunk(1, "o", 0)], CORPUS, k=5).scores
    assert (scores["accuracy_doc"], scores["recall@1"], scores["accuracy_page"]) == (1.0, 1.0, None)


def test_gold_that_cannot_be_mapped_counts_as_missed() -> None:
    outcome = judge(mapped(Gold("d.pdf", quote="nowhere to be found")), [chunk(1, "d", 0)], CORPUS, k=5)
    assert (outcome.scores["recall@20"], outcome.scores["span_recall"]) == (0.0, 0.0)
    assert outcome.scores["accuracy_doc"] == 1.0
    assert outcome.diagnosis == "parsing"
    assert judge(mapped(Gold("gone.pdf", page=1)), [chunk(1, "d", 0)], CORPUS, k=5).scores["accuracy_doc"] == 0.0


def test_no_hits_score_nothing() -> None:
    scores = judge(mapped(Gold("d.pdf", page=1)), [], CORPUS, k=5).scores
    assert {name for name, value in scores.items() if value is not None} >= {"accuracy_doc", "accuracy_page", "mrr"}
    assert not any(scores.values())


def test_the_diagnosis_says_what_to_mend() -> None:
    wrong = [chunk(rank, "o", 0) for rank in range(1, 6)]
    page = mapped(Gold("d.pdf", page=2))
    assert judge(page, [*wrong, chunk(6, "d", 1)], CORPUS, k=5).diagnosis == "ranking"
    assert judge(page, wrong, CORPUS, k=5).diagnosis == "retrieval"
    assert judge(page, wrong, Corpus(CORPUS.documents, {"d": [[(0, 90)]]}), k=5).diagnosis == "parsing"
    text = mapped(Gold("d.pdf", quote="c" * 100))
    assert judge(text, wrong, CORPUS, k=5).diagnosis == "retrieval"
    assert judge(text, wrong, Corpus(CORPUS.documents, {"d": [[(0, 90)]]}), k=5).diagnosis == "parsing"


# ---------------------------------------------------------------- the measures of chunking

TABLED = DocumentMap("d", "s", "d.pdf", BODY, None, [Place(0, 300)], tables=[(100, 200)])
IN_TABLE = Corpus({"d": TABLED}, CHUNKS)


def asked_of(*gold: Gold) -> MappedQuestion:
    return map_questions([GoldenQuestion("1", "What?", gold)], [TABLED])[0][0]


def test_precision_on_questions_answered_in_tables_is_of_those_alone() -> None:
    hits = [chunk(1, "d", 1), chunk(2, "o", 0), chunk(3, "d", 2)]
    in_table = judge(asked_of(Gold("d.pdf", quote="b" * 100)), hits, IN_TABLE, k=5).scores
    assert in_table["table_precision@3"] == in_table["precision@3"] == pytest.approx(2 / 3)
    assert judge(asked_of(Gold("d.pdf", quote="a" * 100)), hits, IN_TABLE, k=5).scores["table_precision@3"] is None
    assert judge(asked_of(Gold("d.pdf")), hits, IN_TABLE, k=5).scores["table_precision@3"] is None


def test_most_of_the_gold_stands_in_the_table_or_it_is_no_question_of_a_table() -> None:
    hits = [chunk(1, "d", 1)]
    most = judge(asked_of(Gold("d.pdf", quote="a" * 40 + "b" * 60)), hits, IN_TABLE, k=5).scores
    half = judge(asked_of(Gold("d.pdf", quote="a" * 50 + "b" * 50)), hits, IN_TABLE, k=5).scores
    assert (most["table_precision@3"], half["table_precision@3"]) == (pytest.approx(1 / 3), None)


@pytest.mark.parametrize(
    ("chain", "text", "expected"),
    [
        (("Handbook", "Parental leave"), "Up to twelve weeks, by agreement.", 1.0),
        (("Handbook", "Parental leave"), "Parental leave\nUp to twelve weeks, by agreement.", 1.0),
        (("Handbook", "Parental leave"), "Leave lasts twelve weeks.", 0.0),
        (("Handbook", "Lockers"), "Up to twelve weeks, by agreement.", 0.0),
    ],
)
def test_a_match_by_header_alone_has_no_word_of_the_question_in_its_own_text(
    chain: tuple[str, ...], text: str, expected: float
) -> None:
    first = hit(1, "c", header_chain=chain, text=text)
    assert matches_by_header_alone("How long is the parental leave?", first) == expected
    assert matches_by_header_alone("What is it?", first) is None


def test_the_share_of_header_matches_is_of_the_first_hit() -> None:
    by_text = hit(1, "x", doc_id="d", text="What holds for lockers.", header_chain=("Keys",), spans=((0, 9),))
    by_header = hit(2, "y", doc_id="d", text="Nothing.", header_chain=("Lockers",), spans=((9, 20),))
    question = MappedQuestion(GoldenQuestion("1", "Lockers?", ()), mapped(Gold("d.pdf", page=1)).places)
    assert judge(question, [by_text, by_header], CORPUS, k=5).scores["header_only@1"] == 0.0
    assert judge(question, [by_header, by_text], CORPUS, k=5).scores["header_only@1"] == 1.0
    assert judge(question, [], CORPUS, k=5).scores["header_only@1"] is None


# ---------------------------------------------------------------- several places of one quote


def test_a_quote_that_occurs_twice_is_found_at_either_place_and_scored_where_shown() -> None:
    body = "Records are kept seven years.  Other text between. Records are kept seven years."
    places = [Place(0, 50, Box(1, 0, 0, 9, 9)), Place(51, len(body), Box(2, 0, 0, 9, 9))]
    twice = DocumentMap("d", "s", "d.pdf", body, 2, places)
    corpus = Corpus({"d": twice}, {"d": [[(0, 29)], [(51, 80)]]})
    gold = Gold("d.pdf", quote="Records are kept seven years.")
    question = map_questions([GoldenQuestion("1", "How long?", (gold,))], [twice])[0][0]
    for spans in ((0, 29), (51, 80)):
        scores = judge(question, [hit(1, "c", doc_id="d", spans=(spans,))], corpus, k=5).scores
        assert [scores[name] for name in ("recall@1", "accuracy_page", "span_recall", "span_iou")] == [1.0] * 4


# ---------------------------------------------------------------- answers


def answer(option: str | None = None, declined: bool = False, **citation: Any) -> dict[str, Any]:
    place = {"source": "s", "uri": "d.pdf", "page": None, "quote": "b" * 60, "chunk_id": "d1", **citation}
    return {"declined": declined, "option": option, "citations": [] if declined else [place]}


def scored(question: MappedQuestion, said: dict[str, Any]) -> dict[str, float | None]:
    hits = [chunk(1, "d", 0), chunk(2, "d", 1)]
    return judge_answer(question, said, hits, CORPUS, judge(question, hits, CORPUS, k=5).scores)


CHOICE = {"options": {"A": "one", "B": "two"}, "answer": "B"}


def test_the_task_score_is_half_the_option_and_a_quarter_each_the_document_and_the_page() -> None:
    question = mapped(Gold("d.pdf", page=2), **CHOICE)
    right = scored(question, answer("B"))
    assert (right["answer_accuracy"], right["kept_answerable"], right["declined_unanswerable"]) == (1.0, 1.0, None)
    assert right["task_score"] == pytest.approx(0.5 + 0.25 + 0.25 * 2 / 3)
    assert scored(question, answer("A"))["task_score"] == pytest.approx(0.25 + 0.25 * 2 / 3)


def test_a_choice_that_is_declined_is_wrong_and_not_pinned() -> None:
    scores = scored(mapped(Gold("d.pdf", page=2), **CHOICE), answer(declined=True))
    assert (scores["answer_accuracy"], scores["kept_answerable"], scores["answer_pinned"]) == (0.0, 0.0, None)


def test_a_question_without_gold_is_one_to_decline() -> None:
    names = {"declined_unanswerable"}
    for declined in (True, False):
        scores = scored(mapped(), answer(declined=declined))
        assert scores == {**dict.fromkeys(ANSWER_METRICS), **dict.fromkeys(names, float(declined))}


def test_an_answer_without_options_has_no_accuracy() -> None:
    scores = scored(mapped(Gold("d.pdf", page=2), answer="two"), answer())
    assert (scores["answer_accuracy"], scores["task_score"], scores["kept_answerable"]) == (None, None, 1.0)


def test_an_answer_is_pinned_where_a_citation_is_of_the_gold_place() -> None:
    text = mapped(Gold("d.pdf", quote="b" * 100))
    assert scored(text, answer())["answer_pinned"] == 1.0
    assert scored(text, answer(quote="a" * 60))["answer_pinned"] == 0.0
    assert scored(text, answer(uri="o.pdf"))["answer_pinned"] == 0.0
    page = mapped(Gold("d.pdf", page=2))
    assert scored(page, answer(page=2, quote="in other words"))["answer_pinned"] == 1.0
    assert scored(page, answer(page=1, quote="in other words"))["answer_pinned"] == 0.0


def test_a_row_that_the_body_has_in_other_words_is_cited_where_its_passage_stands() -> None:
    text = mapped(Gold("d.pdf", quote="b" * 100))
    assert scored(text, answer(quote="Head: value | Head: value"))["answer_pinned"] == 1.0
    assert scored(text, answer(quote="Head: value | Head: value", chunk_id="d0"))["answer_pinned"] == 0.0
    assert scored(text, answer(quote="Head: value | Head: value", chunk_id="unknown"))["answer_pinned"] == 0.0


def test_the_first_quotation_must_hold_the_gold_text() -> None:
    text = mapped(Gold("d.pdf", quote="c" * 20))
    names = ("first_quotation", "all_quotations")

    def of(*quotes: str, declined: bool = False) -> tuple[float | None, ...]:
        said = {**answer(declined=declined), "citations": [answer(quote=each)["citations"][0] for each in quotes]}
        scores = scored(text, said)
        return tuple(scores[name] for name in names)

    gold = text.places[0].spans[0]
    held = CORPUS.documents["d"].body[gold[0] : gold[1]]
    assert of(held) == of(f"Before. {held} And after.") == (1.0, 1.0)
    assert of(held, "other words") == (1.0, 0.0)
    assert of("other words", held) == (0.0, 0.0)
    assert of(declined=True) == (0.0, 0.0)
    assert scored(mapped(), answer())["first_quotation"] is None
    page = mapped(Gold("d.pdf", page=2))
    assert scored(page, answer(page=2, quote="other words"))["first_quotation"] == 1.0
    assert scored(page, answer(page=1, quote="other words"))["first_quotation"] == 0.0
