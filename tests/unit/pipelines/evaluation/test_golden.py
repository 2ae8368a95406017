"""Golden questions are checked, and their gold is found in the body."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.errors import UsageError
from pipelines.evaluation.document_map import DocumentMap, merge_spans
from pipelines.evaluation.golden import Gold, GoldenQuestion, golden_questions, map_questions
from pipelines.records import Box, Place

BODY = "Leave policy\nEmployees have twenty-five days of “paid leave” a year.\nUnused days lapse in March."
FIRST, SECOND, THIRD = (0, 12), (13, 68), (69, 96)


def question(**values: Any) -> dict[str, Any]:
    return {"id": "1", "question": "How long?", "gold": [{"uri": "a.pdf"}], **values}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "line 7: expected an object"),
        (question(id=None), "line 7: key 'id' is missing"),
        (question(question=" "), "line 7: key 'question' is empty"),
        (question(question=3), "line 7: key 'question' must be text, not int"),
        ({"id": "1", "question": "?"}, "line 7: key 'gold' is missing"),
        (question(gold={}), "line 7: key 'gold' must be a list"),
        (question(gold=[3]), r"line 7: key 'gold\[0\]' must be an object"),
        (question(gold=[{"uri": "a"}, {}]), r"line 7: key 'gold\[1\].uri' is missing"),
        (question(gold=[{"uri": "a", "pag": 1}]), r"unknown key 'gold\[0\].pag'; did you mean 'page'"),
        (question(gold=[{"uri": "a", "page": "1"}]), r"'gold\[0\].page' must be a whole number, not str"),
        (question(gold=[{"uri": "a", "page": True}]), r"'gold\[0\].page' must be a whole number"),
        (question(gold=[{"uri": "a", "page": 0}]), r"'gold\[0\].page' must be 1 or more"),
        (question(gold=[{"uri": "a", "page": 3, "page_end": 2}]), r"'gold\[0\].page_end'"),
        (question(gold=[{"uri": "a", "start": 3}]), "go together"),
        (question(gold=[{"uri": "a", "start": 3, "end": 3}]), r"'gold\[0\].end' must be after"),
        (question(gold=[{"uri": "a", "quote": " "}]), r"'gold\[0\].quote' is empty"),
        (question(options={"A": 1}), "'options.A' must be text"),
        (question(wrong=[{"uri": "a", "pag": 1}]), r"unknown key 'wrong\[0\].pag'; did you mean 'page'"),
        ({"id": "1", "question": "?", "wrong": []}, "line 7: key 'gold' is missing"),
        (question(groups=[]), "line 7: key 'groups': groups is blank"),
        (question(groups=3), "line 7: key 'groups': groups must be a list of names"),
        (question(filter="uri=a.pdf"), r'line 7: key \'filter\' must be an object such as \{"uri": "a.pdf"\}'),
        (question(filter=[3]), "line 7: key 'filter' must be an object"),
        (question(filter={"uri": None}), "line 7: key 'filter.uri' must be text or a list of texts, not NoneType"),
        (question(filter={"uri": []}), "line 7: key 'filter.uri' has no value"),
        (question(filter={"date>": "2024"}), r"line 7: key 'filter.date>' compares; write a list such as \[\"date>="),
        (question(filter={"uri": ["a", True]}), "line 7: key 'filter.uri' must be text or a list of texts, not bool"),
    ],
)
def test_errors_name_line_and_key(value: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        golden_questions([(7, value)], "golden.jsonl")


def test_a_question_too_long_is_an_error_that_names_the_line() -> None:
    for long in ({"question": "a" * 100_000}, {"options": {"A": "a" * 100_000}}):
        with pytest.raises(UsageError, match=r"golden.jsonl line 7: .*at most 10,000"):
            golden_questions([(7, question(**long))], "golden.jsonl")


def test_a_repeated_id_is_an_error_that_names_both_lines() -> None:
    with pytest.raises(UsageError, match="line 2: key 'id' repeats '1' of line 1"):
        golden_questions([(1, question()), (2, question())])
    with pytest.raises(UsageError, match="no questions"):
        golden_questions([])


def test_a_whole_question_is_read() -> None:
    value = question(id=5, options={"A": "ten"}, answer="A", gold=[{"uri": "a", "page": 2, "page_end": 3}], domain="x")
    assert golden_questions([(1, value)]) == [
        GoldenQuestion("5", "How long?", (Gold("a", page=2, page_end=3),), {"A": "ten"}, "A")
    ]


def test_a_question_may_say_who_asks_and_what_does_not_answer_it() -> None:
    wrong = {"id": "1", "question": "How long?", "groups": "hr, board", "wrong": [{"uri": "a.pdf", "quote": "leave"}]}
    (read,) = golden_questions([(1, wrong)])
    assert (read.groups, read.gold, read.wrong, read.known) == (
        ("hr", "board"),
        (),
        (Gold("a.pdf", quote="leave"),),
        False,
    )
    assert golden_questions([(1, {**wrong, "gold": []})])[0].known


def test_a_filter_is_read_in_either_form_and_checked() -> None:
    checked: list[list[str]] = []

    def check(filters: Any, groups: Any) -> None:
        checked.append(list(filters))
        if "date>=x" in filters:
            raise UsageError("--filter 'date>=x': write a date such as 2026-01-31")

    lines = [
        (1, question(filter={"uri": ["a.pdf", "b.pdf"], "year": 2024})),
        (2, question(id="2", filter=["date>=2024-05"])),
        (3, question(id="3")),
    ]
    read = [each.filters for each in golden_questions(lines, check_filters=check)]
    assert read == [("uri=a.pdf", "uri=b.pdf", "year=2024"), ("date>=2024-05",), ()]
    assert checked == [["uri=a.pdf", "uri=b.pdf", "year=2024"], ["date>=2024-05"]]
    with pytest.raises(UsageError, match=r"golden.jsonl line 4: key 'filter': 'date>=x': write a date such as"):
        golden_questions([(4, question(filter=["date>=x"]))], "golden.jsonl", check)


# ---------------------------------------------------------------- maps


def paged(doc_id: str = "d", source: str = "s") -> DocumentMap:
    places = [
        Place(*FIRST, Box(1, 0, 0, 9, 9)),
        Place(*SECOND, Box(2, 0, 0, 9, 9)),
        Place(*THIRD, Box(3, 0, 0, 9, 9)),
    ]
    return DocumentMap(doc_id, source, "a.pdf", BODY, 4, places)


def plain() -> DocumentMap:
    """A text file whose second block was shortened from 110 to 55 characters by cleaning."""
    places = [
        Place(*FIRST, source_start=2, source_end=14),
        Place(*SECOND, source_start=20, source_end=130),
        Place(*THIRD, source_start=140, source_end=167),
    ]
    return DocumentMap("t", "s", "a.md", BODY, None, places)


def test_characters_by_page() -> None:
    assert paged().characters_by_page([(8, 20)]) == {1: 4, 2: 7}
    assert paged().characters_by_page([(0, 96)]) == {1: 12, 2: 55, 3: 27}
    assert plain().characters_by_page([(0, 96)]) == {}


@pytest.mark.parametrize(
    "quote",
    [
        "twenty-five days of “paid leave”",
        'twenty-five days of "paid leave"',
        "twenty-\nfive  days of “paid leave”",
        "twenty\u00adfive days of “paid\u00a0leave”",
        "**twenty-five** days of _paid leave_”",
    ],
)
def test_a_quote_is_found_whatever_its_spaces_hyphens_and_marks(quote: str) -> None:
    (((start, end),),) = paged().occurrences(quote)
    assert BODY[start:end].rstrip("”") == "twenty-five days of “paid leave"


def test_hyphens_do_not_count_in_a_short_quote_either() -> None:
    assert paged().occurrences("twentyfive") == paged().occurrences("twenty-five") == [((28, 39),)]


def test_a_quote_that_is_not_there_is_not_found() -> None:
    assert paged().occurrences("thirty days of paid leave") == []
    assert paged().occurrences("-- ") == []
    assert paged().occurrences("(days)") == []


def test_a_quote_is_not_found_within_a_number_where_it_stands_by_itself() -> None:
    text = "Staff get 25 days. Managers get 5 days. A bag of 3.12 kg and a box of 12 kg, in 2020.1"
    document = DocumentMap("t", "s", "a.md", text, None, [])
    for quote in ("5 days", "12 kg"):
        (((start, end),),) = document.occurrences(quote)
        assert text[start - 1 : end] == f" {quote}"
    assert document.occurrences("in 2020"), "what follows may be the mark of a note"


def test_offsets_of_the_source_map_exactly_and_in_proportion() -> None:
    assert plain().source_spans(8, 14) == [(6, 12)]
    assert BODY[6:12] == "policy"
    assert plain().source_spans(20, 76) == [(13, 41)]
    assert plain().source_spans(76, 130) == [(41, 68)]
    assert plain().source_spans(15, 19) == []


def test_stretches_with_only_space_between_them_are_one() -> None:
    assert plain().source_spans(0, 200) == [(0, 96)]


def test_merged_spans_are_disjoint() -> None:
    assert merge_spans([(5, 9), (0, 3), (3, 4), (8, 12), (2, 2)]) == [(0, 4), (5, 12)]


# ---------------------------------------------------------------- mapping


def mapped(gold: dict[str, Any], *documents: DocumentMap) -> Any:
    questions, unmapped = map_questions(golden_questions([(1, question(gold=[gold]))]), documents or (paged(), plain()))
    return questions[0].places[0], unmapped


def test_a_page_is_kept_as_it_stands() -> None:
    place, unmapped = mapped({"uri": "a.pdf", "page": 2, "page_end": 3})
    assert (place.doc_id, place.pages, place.spans, place.named_page) == ("d", (2, 3), (), True)
    assert unmapped == []


def test_a_quote_gets_its_page_from_the_map() -> None:
    place, unmapped = mapped({"uri": "a.pdf", "quote": "Unused days lapse"})
    assert (place.pages, place.spans, place.named_page, place.lost) == ((3, 3), ((69, 86),), False, 0)
    assert unmapped == []


def test_a_quote_that_stands_twice_is_taken_where_the_page_or_the_offsets_say() -> None:
    assert mapped({"uri": "a.pdf", "quote": "days"})[0].occurrences == (((40, 44),), ((76, 80),))
    assert mapped({"uri": "a.pdf", "quote": "days", "page": 3})[0].spans == ((76, 80),)
    assert mapped({"uri": "a.md", "quote": "days", "start": 147, "end": 151})[0].spans == ((76, 80),)


def test_a_quote_on_another_page_than_the_one_named_is_told() -> None:
    place, unmapped = mapped({"uri": "a.pdf", "page": 1, "quote": "Unused days lapse"})
    assert (place.pages, place.spans) == ((1, 1), ((69, 86),))
    assert [item["problem"] for item in unmapped] == ["the text stands on page 3, not on page 1"]
    assert mapped({"uri": "a.pdf", "page": 2, "page_end": 3, "quote": "Unused days lapse"})[1] == []


def test_unmapped_gold_is_listed_and_stays_as_lost() -> None:
    place, unmapped = mapped({"uri": "a.pdf", "quote": "not there at all"})
    assert (place.spans, place.lost) == ((), 16)
    assert unmapped == [{"id": "1", "gold": 0, "uri": "a.pdf", "problem": "the text is not in the document's body"}]
    assert mapped({"uri": "b.pdf", "page": 1})[1][0]["problem"] == "no such document in the index"
    assert mapped({"uri": "a.pdf", "source": "x"})[1][0]["problem"] == "no such document in the index in source x"
    assert mapped({"uri": "a.pdf", "page": 9})[1][0]["problem"] == "the document has 4 pages"
    assert mapped({"uri": "a.md", "page": 1})[1][0]["problem"] == "the document has no pages"


def test_a_source_is_respected_when_named() -> None:
    one, two = paged("d1", "one"), paged("d2", "two")
    assert mapped({"uri": "a.pdf", "source": "two", "page": 1}, one, two)[0].doc_id == "d2"
    assert mapped({"uri": "a.pdf", "source": "three", "page": 1}, one, two)[0].doc_id is None
    assert mapped({"uri": "./a.pdf"}, one, two)[0].doc_id == "d1"
