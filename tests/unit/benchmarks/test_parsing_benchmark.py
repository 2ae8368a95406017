"""What benchmarks/parsing.py counts, on worked examples, and its children as they run."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.parsing_peers import Reading, measure, page_texts
from benchmarks.support.parsing_bad_files import LINE, bad_files
from benchmarks.support.parsing_headings import STATED, hide_tags, rendering_scores, stated_scores, tagged_headings
from benchmarks.support.parsing_report import BEGIN, END, Promise, number, promised, put_between_marks, share, table
from benchmarks.support.parsing_scores import Count
from benchmarks.support.parsing_words import page_score, word_score, words
from tests.support.documents import elements_of, pdf_of
from tests.support.pdf_objects import pdf, stream

# ---------------------------------------------------------------- words


@pytest.mark.parametrize("raw", ["infor-\r\nmation", "infor\x02mation", "infor\xad mation", "infor\ufffe\nmation"])
def test_a_word_is_the_same_however_its_line_end_is_written(raw: str) -> None:
    assert words(raw) == words("information") == ["information"]
    assert words("a long-\nterm ﬁle - and 1,5") == words("a long-term file – and 1,5")


def test_order_pairs_and_letters_of_a_page() -> None:
    score = page_score("a.pdf", 1, "one two three four five", "four five one two three")
    assert (score.order, score.neighbours, score.held) == (Count(3, 5), Count(3, 4), Count(19, 19))
    score = page_score("a.pdf", 1, "one two three four", "one twofour x")
    assert (score.order, score.held, score.added) == (Count(1, 4), Count(10, 15), 1)


def test_pages_without_text_do_not_count() -> None:
    whole = [page_score("a", 1, "abcd efgh", "abcd efgh"), page_score("a", 2, "", "")]
    short = page_score("a", 3, "abcd efgh", "abcd ef")
    found = word_score([*whole, short])
    assert found is not None
    assert (found.pages, found.order, found.held, found.worst) == (2, 3 / 4, 14 / 16, 6 / 8)
    assert (found.under_all, found.under_99, found.added) == (1, 1, 0)
    assert word_score(whole[1:]) is None


@given(st.text(), st.text())
def test_a_page_holds_itself_and_shares_stay_in_bounds(raw: str, other: str) -> None:
    same, score = page_score("a", 1, raw, raw), page_score("a", 1, raw, other)
    assert same.added == 0 and all(c.hits == c.total for c in (same.order, same.neighbours, same.held))
    assert all(0 <= count.hits <= count.total for count in (score.order, score.neighbours, score.held))


def test_the_text_of_a_page_is_its_elements_with_edges_and_markers(tmp_path: Path) -> None:
    lines = [(72.0, 700.0, "1. Keys are kept"), (72.0, 660.0, "Who may enter is said by the committee and")]
    path = pdf_of(tmp_path / "a.pdf", [lines, [(72.0, 700.0, "by nobody else at all times of the year.")]])
    document, elements, parsed = elements_of(path)
    texts = page_texts(document.body, elements, parsed.pages or 0)
    assert [words(text) for text in texts] == [
        words("1. Keys are kept Who may enter is said by the committee and"),
        words("by nobody else at all times of the year."),
    ]


def test_a_marker_that_is_a_letter_is_text_of_its_page() -> None:
    """An `o` for a bullet is in the raw text, and in the element beside its text."""
    element = SimpleNamespace(start=0, end=4, text="Keys", marker="o", page_start=1, places=())
    element.places = (SimpleNamespace(start=0, end=4, box=SimpleNamespace(page=1)),)
    assert words(page_texts("Keys", [element], 1)[0]) == ["o", "keys"]
    element.marker = "•"
    assert page_texts("Keys", [element], 1) == ["\nKeys"]


# ---------------------------------------------------------------- headings


def test_a_stated_heading_is_found_on_its_page_at_its_level() -> None:
    name = "redp5110_sampled.pdf"
    perfect = Reading(name, 18, headings=[(page, level + 1, text) for page, level, text in STATED[name]])
    found = stated_scores(name, perfect)
    assert found["headings"] == found["headings_precision"] == found["levels"] == Count(21, 21)
    numbered = [(p, lv, f"Chapter 1. {t}" if t.startswith("Securing") else t) for p, lv, t in STATED[name]]
    either = (3, 9, "Expert help to achieve your business requirements")
    found = stated_scores(name, Reading(name, 18, headings=[*numbered[:-1], either, (2, 1, numbered[-1][2])]))
    assert (found["headings"], found["headings_precision"]) == (Count(20, 21), Count(20, 21))


def test_a_rendering_has_no_pages(tmp_path: Path) -> None:
    (tmp_path / "a.pdf.expected.md").write_text("## One\n\ntext\n\n## Two\n")
    found = rendering_scores(tmp_path / "a.pdf", Reading("a.pdf", 9, headings=[(7, 1, "One"), (8, 2, "Other")]))
    assert (found["headings"], found["headings_precision"]) == (Count(1, 2), Count(1, 2))


def tagged(path: Path) -> Path:
    content = b"/H2 <</MCID 0>> BDC BT /F 14 Tf 72 700 Td (Who may) Tj ( enter) Tj ET EMC "
    content += b"/P <</MCID 1>> BDC BT /F 11 Tf 72 660 Td (Nobody at night.) Tj ET EMC"
    data = pdf(
        [content],
        objects={
            5: b"<</Type/StructTreeRoot/K 6 0 R/ParentTree 9 0 R>>",
            6: b"<</S/Document/P 5 0 R/K[7 0 R 8 0 R]>>",
            7: b"<</S/H2/P 6 0 R/Pg 3 0 R/K 0>>",
            8: b"<</S/P/P 6 0 R/Pg 3 0 R/K 1>>",
            9: b"<</Nums[0[7 0 R 8 0 R]]>>",
            10: stream(b""),
        },
    )
    data = data.replace(b"/Type/Catalog", b"/Type/Catalog/MarkInfo<</Marked true>>/StructTreeRoot 5 0 R", 1)
    path.write_bytes(data.replace(b"/Type/Page/", b"/Type/Page/StructParents 0/", 1))
    return path


def test_headings_of_a_tagged_file_and_of_its_copy_without_tags(tmp_path: Path) -> None:
    path = tagged(tmp_path / "a.pdf")
    assert tagged_headings(path) == [(1, 2, "Who may enter")]
    (tmp_path / "copy").mkdir()
    assert tagged_headings(hide_tags(path, tmp_path / "copy")) == []


# ---------------------------------------------------------------- the children


def test_parsers_in_processes_of_their_own(tmp_path: Path) -> None:
    lines = [(72.0, 760.0 - 20 * n, f"Line {n} says who may enter the building.") for n in range(9)]
    files = [pdf_of(tmp_path / name, [lines] * 3) for name in ("a.pdf", "b.pdf")]
    (tmp_path / "empty.pdf").touch()
    for parser in ("pincite", "liteparse blocks", "pypdfium2 text"):
        found = measure(parser, [*files, tmp_path / "empty.pdf"] if parser == "pincite" else files)
        if parser == "pincite":  # a file that is refused is a result
            refused = found.readings.pop()
            assert refused.error == "empty" and "0 bytes" in refused.warnings[0]
        assert not found.missing
        assert (found.pages, [reading.file for reading in found.readings]) == (6, ["a.pdf", "b.pdf"])
        assert all("Line 8 says who" in text for reading in found.readings for text in reading.texts)
        assert found.cpu > 0 and found.peak_mb > 10
    assert measure("pypdfium2 text", files, cap=2).pages == 4


def test_bad_files_are_what_they_are_called(tmp_path: Path) -> None:
    import pypdfium2

    made = {bad.name: tmp_path / f"{at}.pdf" for at, bad in enumerate(bad_files(pages=7))}
    for bad in bad_files(pages=7):
        bad.make(made[bad.name])
    assert len(pypdfium2.PdfDocument(made["7 pages"])) == 7
    owner = pypdfium2.PdfDocument(made["encrypted for its owner only"])
    assert LINE in owner[0].get_textpage().get_text_range()
    with pytest.raises(pypdfium2.PdfiumError, match="assword"):
        pypdfium2.PdfDocument(made["encrypted, needs a password"])
    assert pypdfium2.PdfDocument(made["pages rotated by 90"])[0].get_rotation() == 90


# ---------------------------------------------------------------- the report


def test_shares_are_never_rounded_up_to_all() -> None:
    assert [share(value) for value in (None, 0.0, 0.9532, 0.99996, 1.0)] == ["-", "0.000", ".953", ".999", "1"]
    assert [number(value) for value in (None, 3.14, 1234.5)] == ["-", "3.1", "1,234"]


def test_promises_are_met_at_their_figure_and_limits_kept_under() -> None:
    assert [Promise("x", value, 0.95).met for value in (0.9499, 0.95)] == [False, True]
    assert Promise("x", 299.0, -300, "number").row() == ["x", "under 300", "299"]
    assert [Promise("x", value, -300, "number").met for value in (299.0, 300.0)] == [True, False]


def test_promises_that_are_missed_are_listed_and_the_others_counted() -> None:
    assert list(promised([Promise("x", 0.95, 0.95)])) == ["1 of 1 are reached."]
    text = "\n".join(promised([Promise("x", 0.95, 0.95), Promise("y", 0.9, 0.95)]))
    assert text.startswith("1 of 2 are reached. These are not:\n\n|") and "| y " in text and "| x " not in text


def test_tables_are_filled_up_and_put_between_the_marks(tmp_path: Path) -> None:
    lines = table(("a", "bb"), [["1"], ["x|y", "2"]])
    assert lines == ["| a    | bb |", "|------|----|", "| 1    |    |", "| x\\|y | 2  |"]
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        put_between_marks(page, lines)
    assert page.read_text() == "\n".join(["before", BEGIN, "", *lines, "", END, "after", ""])
    page.write_text("nothing")
    with pytest.raises(ValueError, match=re.escape("page.md: needs the lines")):
        put_between_marks(page, lines)
