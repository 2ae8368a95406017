"""Parses compared with another parser's rendering, on worked examples."""

from __future__ import annotations

from difflib import SequenceMatcher

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.support.parsing_scores import Count, Outline, asked, expected, found, in_order, scores, total
from pipelines.records import Block, BlockCell, ParsedFile, TextRun

RENDERING = """\
# The *Guide*

<!-- image -->

Text with a [link (old)](http://x/y_(z)) &amp; to\\_escape `code` .

## Terms

1. One
    - nested **item**
            - deeper, as nothing
- [ ] open  
  to the end

| A | B & C | B & C |
| - | :- | - |
| x | 1 |  |
| alone |  |  |

```
def f(): return 1
```

$$\\frac{1}{n}$$
"""


def cell(row: int, column: int, text: str, wide: int = 1, tall: int = 1) -> BlockCell:
    return BlockCell(row, column, (TextRun(text),), tall, wide)


def test_an_outline_is_read_from_a_rendering() -> None:
    outline = expected(RENDERING)
    assert outline.headings == [(1, "theguide"), (2, "terms")]
    assert outline.list_items == ["one", "nesteditem", "deeper,asnothing", "opentotheend"]
    assert outline.table_rows == [("a", "b&c", "b&c"), ("x", "1")]
    assert " ".join(outline.words) == (
        "the guide text with a link old to escape code terms one nested item deeper as nothing open to the end "
        "a b c b c x 1 alone def f return 1 frac 1 n"
    )


def test_a_chart_is_its_title() -> None:
    outline = expected("Ducks by year\n\n<!-- image -->\n\nBar chart\n\n|   | n |\n|---|---|\n| 1 | 2 |\n\nThe end")
    assert (" ".join(outline.words), outline.table_rows) == ("ducks by year the end", [])


def test_an_outline_is_read_from_a_parse() -> None:
    blocks = (
        Block("page_header", (TextRun("Running"),)),
        Block("heading", (TextRun("The "), TextRun("Guide", joined=True)), 1),
        Block("list_item", (TextRun("1."), TextRun(" One")), 1, "1."),
        Block("list_item", (TextRun("nested"),), 2, "•"),
        Block("table", cells=(cell(0, 0, "A", tall=2), cell(0, 1, "B", wide=2), cell(1, 1, "x"), cell(2, 0, "z"))),
        Block("break"),
        Block("code", (TextRun("a"), TextRun("b"))),
    )
    outline = found(ParsedFile(blocks))
    assert outline.headings == [(1, "theguide")]
    assert outline.list_items == ["one", "nested"]
    assert outline.table_rows == [("a", "b", "b"), ("a", "x")]
    assert " ".join(outline.words) == "the guide one nested a b b a x z a b"
    assert outline.edges == ["Running"]


def test_text_kept_outside_the_body_need_not_be_found() -> None:
    ours = Outline([(1, "home")], ["tea"], [], ["home", "tea"], edges=["Home", "2 Top", "stories"])
    theirs = Outline([(1, "home"), (1, "home")], ["topstories", "tea", "gone"], [], ["home", "home", "top", "gone"])
    assert asked(theirs, ours) == Outline([(1, "home")], ["tea", "gone"], [], ["home", "gone"])


def test_scores_by_hand() -> None:
    theirs = Outline(
        [(1, "title"), (2, "a"), (2, "b"), (3, "c"), (2, "gone")],
        ["x", "x", "y"],
        [("1", "2"), ("3", "4")],
        ["one", "two", "three", "four"],
    )
    ours = Outline(
        [(1, "title"), (1, "a"), (1, "b"), (2, "c"), (1, "more"), (None, "b")],
        ["y", "x"],
        [("3", "4"), ("2", "1")],
        ["two", "one", "three", "five"],
    )
    assert scores(ours, theirs) == {
        "headings": Count(4, 5),
        "headings_precision": Count(4, 6),
        "levels": Count(3, 4),
        "list_items": Count(2, 3),
        "table_rows": Count(1, 2),
        "words": Count(3, 4),
        "word_order": Count(2, 4),
    }


def test_counts_add_up_over_files() -> None:
    own = expected(RENDERING)
    both = total([scores(own, own), scores(Outline(), own)])
    assert both["words"] == Count(len(own.words), 2 * len(own.words))
    assert (both["headings"].share, both["headings_precision"].share) == (0.5, 1.0)
    assert scores(Outline(), Outline())["table_rows"].share is None


@given(st.lists(st.sampled_from("abcd"), max_size=12), st.lists(st.sampled_from("abcd"), max_size=12))
def test_words_in_order_are_the_longest_common_subsequence(ours: list[str], theirs: list[str]) -> None:
    table = [[0] * (len(theirs) + 1) for _ in range(len(ours) + 1)]
    for i, a in enumerate(ours):
        for j, b in enumerate(theirs):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    assert (
        in_order(ours, theirs)
        == table[-1][-1]
        >= sum(block.size for block in SequenceMatcher(None, theirs, ours, autojunk=False).get_matching_blocks())
    )
