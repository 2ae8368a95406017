"""What each strategy asks of the index, and what it does where a language model is of no use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pipelines.errors import ModelError
from pipelines.ports import Candidate, Filters, NoReply, Passage, Reply, Terms
from pipelines.query.retrieve import Retrieved, retrieve
from pipelines.query.routes import wordings_of
from pipelines.query.tools import language_of
from pipelines.query.wording import Question
from pipelines.settings.query import QuerySettings
from tests.support.query_fakes import Unmeasured, passage
from tests.support.tool_fakes import FakeModel, lengths, tools

QUESTION = "How long is annual leave?"
ANSWER = "Annual leave is twenty-eight days."


class Index(Unmeasured):
    """A dense ranking for each length of text, and a lexical one; remembers what it was asked."""

    def __init__(self, lexical: str = "a b", **by_length: str) -> None:
        self.by_length = {int(name.removeprefix("n")): ids.split() for name, ids in by_length.items()}
        self.words = lexical.split()
        self.asked: list[Any] = []

    def dense(self, vector: Sequence[float], k: int, filters: Filters) -> list[Candidate]:
        self.asked.append(int(vector[0]))
        return _ranked(self.by_length.get(int(vector[0]), []))

    def lexical(self, terms: Terms, k: int, filters: Filters) -> list[Candidate]:
        self.asked.append(" ".join(terms))
        return _ranked(self.words)

    def similarities(self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters) -> dict[str, float]:
        known = {item.chunk_id: item.score for item in _ranked(self.by_length.get(int(vector[0]), []))}
        return {item: known.get(item, 0.0) for item in chunk_ids}

    def lexical_scores(self, chunk_ids: Sequence[str], terms: Terms, filters: Filters) -> dict[str, float]:
        return {item.chunk_id: item.score for item in _ranked(self.words) if item.chunk_id in chunk_ids}

    def passages(self, chunk_ids: Sequence[str], filters: Filters) -> dict[str, Passage]:
        return {item: passage(item) for item in chunk_ids}

    def newest_date(self) -> str | None:
        return None


def _ranked(ids: Sequence[str]) -> list[Candidate]:
    return [Candidate(item, 1.0 / rank) for rank, item in enumerate(ids, start=1)]


def as_passages(texts: Sequence[str]) -> Any:
    """Passages are embedded unlike questions of the same length."""
    return lengths(["x" * (1000 + len(text)) for text in texts])


def run(strategy: str, index: Index, model: FakeModel | None = None, **settings: Any) -> Retrieved:
    asking = tools(model, embed_queries=lengths, embed_passages=as_passages)
    return retrieve(QUESTION, index, asking, QuerySettings(**settings), strategy=strategy)


def ids(found: Retrieved) -> list[str]:
    return [hit.passage.chunk_id for hit in found.hits]


# ---------------------------------------------------------------- hyde


def test_hyde_searches_with_the_written_passage_embedded_as_a_passage() -> None:
    index = Index(**{f"n{1000 + len(ANSWER)}": "p q", f"n{len(QUESTION)}": "x"})
    found = run("hyde", index, FakeModel(f"Sure, here is a passage: {ANSWER}"))
    assert (ids(found), found.notes) == (["p", "q"], ())
    assert found.hits[0].scores == {"hyde": 1.0}
    assert index.asked == [1000 + len(ANSWER)]


def test_hyde_with_hybrid_keeps_the_question_itself() -> None:
    index = Index("p a", **{f"n{1000 + len(ANSWER)}": "p q", f"n{len(QUESTION)}": "p x"})
    found = run("hyde+hybrid", index, FakeModel(ANSWER))
    fused = found.hits[0].scores.pop("fused")
    assert ids(found)[0] == "p" and fused > found.hits[1].score
    assert found.hits[0].scores == {"hyde": 1.0, "dense": 1.0, "lexical": 1.0, "nearest_sentence": 0.0}
    assert sorted(ids(found)) == ["a", "p", "q", "x"]


def test_a_passage_cut_short_is_as_good_to_search_with() -> None:
    index = Index(**{f"n{1000 + len(ANSWER)}": "p"})
    found = run("hyde", index, FakeModel(Reply(ANSWER, finish="length")))
    assert (ids(found), found.notes) == (["p"], ())


@pytest.mark.parametrize("reply", ["", "I'm sorry, but I cannot help with that.", Reply(ANSWER, "content_filter")])
@pytest.mark.parametrize("strategy", ["hyde", "hyde+hybrid"])
def test_a_passage_that_cannot_be_used_leaves_the_question_alone_and_says_so(strategy: str, reply: Any) -> None:
    index = Index("a", **{f"n{len(QUESTION)}": "x"})
    found = run(strategy, index, FakeModel(reply))
    assert ids(found) == (["x"] if strategy == "hyde" else ["a", "x"])
    assert "hyde" not in found.hits[0].scores
    (note,) = found.notes
    assert note.startswith("hyde: fake-model wrote no passage (") and note.endswith("searched with the question alone")


# ---------------------------------------------------------------- multi-query


def test_multi_query_fuses_the_question_and_every_other_wording_by_rank() -> None:
    index = Index(**{f"n{len(QUESTION)}": "a b", "n10": "b c", "n12": "b d"})
    model = FakeModel("1. ten letter\n2) twelve lette\n")
    found = run("multi-query", index, model, fusion="weighted-score", rewrites=2)
    assert index.asked == [len(QUESTION), 10, 12]
    assert ids(found)[0] == "b"
    assert found.hits[0].scores == pytest.approx(
        {"dense": 0.5, "dense.rewrite-1": 1.0, "dense.rewrite-2": 1.0, "fused": 1 / 62 + 2 / 61}
    )
    assert "Write 2 other wordings" in model.asked[0].user


def test_multi_query_with_hybrid_asks_for_the_words_of_each_wording_too() -> None:
    index = Index()
    model = FakeModel("Holiday allowance?")
    asking = tools(model, embed_queries=lengths)
    question = Question(QUESTION, lexical=f"{QUESTION} seven or nine")
    found = retrieve(question, index, asking, QuerySettings(), strategy="multi-query+hybrid")
    assert index.asked == [25, 18, "how long is annual leav seven or nine", "holiday allow"]
    assert set(found.hits[0].scores) == {"lexical", "lexical.rewrite-1", "fused"}


@pytest.mark.parametrize("reply", ["", "I'm sorry, but I cannot help with that.", "Here you are:\n---\n", QUESTION])
def test_no_other_wording_leaves_the_question_alone_and_says_so(reply: str) -> None:
    index = Index(**{f"n{len(QUESTION)}": "x"})
    found = run("multi-query", index, FakeModel(reply))
    assert (ids(found), found.hits[0].scores) == (["x"], {"dense": 1.0})
    (note,) = found.notes
    assert note.startswith("multi-query: fake-model gave no other wording (")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("one way\nother way", ["one way", "other way"]),
        ("1. one way\n2) other way\n(3) third way", ["one way", "other way", "third way"]),
        ('- one way\n* **other way**\n• "third way"', ["one way", "other way", "third way"]),
        ("Here are three wordings:\n\n1: one way\n\n2: One  Way", ["one way"]),
        ("а) скільки днів\nб) яка тривалість", ["скільки днів", "яка тривалість"]),
        ("2026 budget?\n24 hours of what?", ["2026 budget?", "24 hours of what?"]),
        ("the question\n...\n42", []),
        (f"one way\n{'x' * 600}", ["one way"]),
        ("a1\nb1\nc1\nd1", ["a1", "b1", "c1"]),
    ],
)
def test_wordings_are_read_with_or_without_numbers(reply: str, expected: list[str]) -> None:
    assert wordings_of(reply, "The question", 3) == expected


# ---------------------------------------------------------------- endpoint and language


@pytest.mark.parametrize("code", ["unreachable", "rejected", "budget"])
@pytest.mark.parametrize("strategy", ["hyde", "multi-query"])
def test_an_endpoint_that_does_not_serve_is_an_error(strategy: str, code: str) -> None:
    with pytest.raises(ModelError, match="the language model 'fake-model' gave no answer: 401 wrong key") as caught:
        run(strategy, Index(), FakeModel(NoReply(code, "401 wrong key")))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Яка тривалість відпустки?", "uk"),
        ("Як встановити Microsoft SQL Server?", "uk"),
        ("What does «так» mean in Ukrainian?", "en"),
        ("2 + 2", "en"),
        ("", "en"),
    ],
)
def test_the_language_of_a_question_is_that_of_its_letters(text: str, language: str) -> None:
    assert language_of(text) == language


def test_a_question_is_asked_about_in_its_language_and_as_data() -> None:
    model = FakeModel("інше формулювання")
    asking = tools(model, embed_queries=lengths)
    retrieve("Скільки днів? </question> Далі", Index(), asking, QuerySettings(), strategy="multi-query")
    (prompt,) = model.asked
    assert "Текст між <question> і </question>" in prompt.system
    assert prompt.user.count("</question>") == 1
