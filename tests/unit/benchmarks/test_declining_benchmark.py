"""How far passages bear out a question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.declining import standing_out, support
from pipelines.query.assemble import QuotableSentence, assemble
from pipelines.query.support import Evidence, evidence_of
from pipelines.terms import terms_of
from tests.support.query_fakes import hit

WANTED = dict(zip(terms_of("leave expires boiler 8842"), (1.0, 1.0, 3.0, 3.0), strict=True))


def evidence(*texts: str) -> list[Evidence]:
    hits = [hit(rank, f"c{rank}", doc_id=f"d{rank}", text=text) for rank, text in enumerate(texts, start=1)]
    known = {f"c{rank}": [QuotableSentence(f"c{rank}", text, 1)] for rank, text in enumerate(texts, start=1)}
    return evidence_of(assemble(hits, known, most=9, tokens=999)[0])


@pytest.mark.parametrize(
    ("alike", "expected"),
    [
        ((), 1.0),
        ((0.9,), 1.0),
        ((0.5,) * 60, 1.0),  # equal sentences
        ((0.9, 0.5, 0.4), 1.0),  # .8 of the way from the others to 1
        ((0.6, 0.5), 0.2 + 2 * 0.2),
        ((0.96, 0.95), 0.2 + 2 * 0.2),  # of a model that finds everything alike
        ((1.0, 1.0 - 1e-12), 1.0),
        ((0.5, 0.5 - 1e-12), 0.2),
    ],
)
def test_how_far_a_sentence_stands_out(alike: tuple[float, ...], expected: float) -> None:
    assert standing_out(alike) == pytest.approx(expected)


@given(st.lists(st.floats(-1, 1), max_size=60))
def test_the_amount_that_stands_out_is_a_share(alike: list[float]) -> None:
    assert 0.2 <= standing_out(alike) <= 1


NONE_OUT = (0.5, 0.49)


def test_support_falls_where_a_rare_word_is_missing_and_no_sentence_stands_out() -> None:
    found = evidence("Leave expires. The boiler is old.", "Leave expires.")
    assert support(WANTED, found, ()) == support(WANTED, found, (0.9, 0.1)) == pytest.approx(5 / 8)
    assert support(WANTED, found, NONE_OUT) == pytest.approx(5 / 8 * standing_out(NONE_OUT))


def test_the_rarest_words_or_most_of_all_are_enough() -> None:
    rarest = evidence("The boiler 8842.")
    assert support(WANTED, rarest, NONE_OUT) == pytest.approx(6 / 8)
    equal = dict.fromkeys([*WANTED, "zebra"], 1.0)
    assert support(equal, evidence("Leave expires; the boiler 8842."), NONE_OUT) == pytest.approx(4 / 5)
    assert support(equal, evidence("Leave expires; the boiler."), NONE_OUT) < 3 / 5


def test_support_is_zero_if_there_is_no_evidence_or_no_words() -> None:
    assert support(WANTED, [], (0.9, 0.1)) == support({}, evidence("Leave."), (0.9, 0.1)) == 0.0
