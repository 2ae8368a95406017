"""Markdown as pandoc and Obsidian write it: tables, definitions, notes, title blocks, links, comments, callouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.records import Block, ParsedFile
from resources.parsers.text import text_tables
from resources.parsers.text.markdown import parse


def read(folder: Path, text: str, hidden: bool = False) -> ParsedFile:
    path = folder / "a.md"
    path.write_text(text)
    found = parse(path, hidden=hidden)
    for block in found.blocks:
        for run in (*block.runs, *(run for cell in block.cells for run in cell.runs)):
            if run.source_start is not None and not set(run.text) & set("⁰¹²³⁴⁵⁶⁷⁸⁹"):
                assert text[run.source_start : run.source_end].split() == run.text.split()
    return found


def words(block: Block) -> str:
    return " ".join("".join(run.text if run.joined else f" {run.text}" for run in block.runs).split())


def lines(found: ParsedFile) -> list[tuple[str, str]]:
    return [(block.kind, words(block)) for block in found.blocks]


def rows(block: Block) -> list[list[str]]:
    assert block.kind == "table"
    count = max(cell.row for cell in block.cells) + 1
    return [[" ".join(run.text for run in cell.runs) for cell in block.cells if cell.row == at] for at in range(count)]


def heads(block: Block) -> int:
    return len({cell.row for cell in block.cells if cell.header})


# ---------------------------------------------------------------- tables


GRID = """\
+---------+-----------+
| Fruit   | Price     |
+=========+===========+
| Bananas | 1.34 a kg |
|         | or 2.10   |
+---------+-----------+
| Both    | 5.00      |
+---------+-----------+
"""
SIMPLE = """\
  Right     Left     Center
-------     ------ ----------
     12     12        12
            abc       23

Table: Of numbers.
"""
HEADLESS = """\
-------     ------ ----------
     12     12        12
    123     123      123
-------     ------ ----------
"""
MULTI = """\
---------------------------------------
 Centered   Default     Right Left
  Header    Aligned   Aligned Aligned
----------- ------- --------- ---------
   First    row          12.0 A row that
                              goes on.

  Second    row           5.0 Another.
---------------------------------------

: Long rows.
"""


@pytest.mark.parametrize(
    ("text", "cells", "headers"),
    [
        (GRID, [["Fruit", "Price"], ["Bananas", "1.34 a kg or 2.10"], ["Both", "5.00"]], 1),
        (SIMPLE, [["Right", "Left", "Center"], ["12", "12", "12"], ["", "abc", "23"]], 1),
        (HEADLESS, [["12", "12", "12"], ["123", "123", "123"]], 0),
        (
            MULTI,
            [
                ["Centered Header", "Default Aligned", "Right Aligned", "Left Aligned"],
                ["First", "row", "12.0", "A row that goes on."],
                ["Second", "row", "5.0", "Another."],
            ],
            1,
        ),
        (
            "+----+----+\n| 年 | 値 |\n+====+====+\n| 二 | 10 |\n+----+----+\n",
            [["年", "値"], ["二", "10"]],
            1,
        ),
        (
            "Ім'я    Сума\n------  ------\nОлена   1 200\nІван    30\n",
            [["Ім'я", "Сума"], ["Олена", "1 200"], ["Іван", "30"]],
            1,
        ),
    ],
)
def test_tables_of_pandoc(tmp_path: Path, text: str, cells: list[list[str]], headers: int) -> None:
    found = read(tmp_path, f"Before.\n\n{text}\nAfter.\n")
    before, table, *_, after = found.blocks
    assert (rows(table), heads(table)) == (cells, headers)
    assert (words(before), words(after)) == ("Before.", "After.")
    captions = [line for line in lines(found) if line[0] == "caption"]
    assert captions == [("caption", text.rsplit(": ", 1)[-1].strip())] * ("\n\n" in text and ": " in text)


def test_cells_of_a_grid_over_columns(tmp_path: Path) -> None:
    text = "+---+---+\n| Both  |\n+===+===+\n| a | b |\n+---+---+\n"
    (table,) = read(tmp_path, text).blocks
    assert [(cell.row, cell.column, cell.column_span, cell.header) for cell in table.cells] == [
        (0, 0, 2, True),
        (1, 0, 1, False),
        (1, 1, 1, False),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Text\n\n--- ---\n\nMore text\n",
        "Heading\n----------\n\nText.\n",
        "----------\n\nText.\n\n----------\n",
        "+ one\n+ two\n",
        "+---+\n",
        "a line\nof words --- ---\n",
    ],
)
def test_rules_and_lists_are_no_tables(tmp_path: Path, text: str) -> None:
    assert "table" not in [kind for kind, _ in lines(read(tmp_path, text))]


@pytest.mark.parametrize("text", ["+--+\n| a |\n", "-- --\na  b\n\n", "-----------\na\n", "a  b\n-- --\n"])
def test_the_search_for_a_tables_end_is_linear(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    looked = 0
    found = text_tables.end_of_table

    def counted(line: object, start: int, end: int) -> int:
        def own(at: int) -> str:
            nonlocal looked
            looked += 1
            return line(at)  # type: ignore[operator,no-any-return]

        return found(own, start, end)

    monkeypatch.setattr("resources.parsers.text.markdown_rules.end_of_table", counted)
    read(tmp_path, 500 * text)
    assert looked < 10 * 500 * text.count("\n")


# ---------------------------------------------------------------- blocks


def test_a_title_block_names_the_document(tmp_path: Path) -> None:
    found = read(tmp_path, "% Rules of\n  the house\n% Anna; Ben\n% 2024-03-05\n\nText.\n")
    assert found.properties == {"title": "Rules of the house", "author": "Anna, Ben", "effective_date": "2024-03-05"}
    assert lines(found) == [("paragraph", "Text.")]


@pytest.mark.parametrize("text", ["%% not a title %%\n", "100 % of it\n", "Text.\n\n% of the sum\n"])
def test_other_signs_of_percent_are_no_title_block(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).properties == {}


def test_definitions_stand_with_their_terms(tmp_path: Path) -> None:
    text = "Term A\n:   One.\n\nTerm *B*\n\n:   Two\n    lines.\n\n    More of it.\n\n:   Other.\n\nText: no term.\n"
    assert lines(read(tmp_path, text)) == [
        ("list_item", "Term A: One."),
        ("list_item", "Term B: Two lines."),
        ("list_item", "More of it."),
        ("list_item", "Other."),
        ("paragraph", "Text: no term."),
    ]


def test_terms_without_an_empty_line_between_them(tmp_path: Path) -> None:
    text = "Alpha\n: first\nBeta\n: second\n"
    assert lines(read(tmp_path, text)) == [("list_item", "Alpha: first"), ("list_item", "Beta: second")]


@pytest.mark.parametrize("text", ["Note:\n:::\n", "# Head\n: text\n", "One line\nof two\n: and more\n"])
def test_colons_elsewhere_begin_no_definition(tmp_path: Path, text: str) -> None:
    assert "list_item" not in [kind for kind, _ in lines(read(tmp_path, text))]


def test_notes_are_footnotes_and_their_marks_are_raised(tmp_path: Path) -> None:
    text = "Paid[^1] twice[^why].\n\n[^1]: Each month.\n[^why]: Since\n    2020.\n\n    Not before.\n"
    text += "\nAn unknown[^x] mark.\n"
    found = read(tmp_path, text)
    assert lines(found) == [
        ("paragraph", "Paid¹ twice²."),
        ("footnote", "Each month."),
        ("footnote", "Since 2020."),
        ("footnote", "Not before."),
        ("paragraph", "An unknown[^x] mark."),
    ]
    assert [block.marker for block in found.blocks[1:4]] == ["1", "2", "2"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("See [[Page One|the first page]].", "See the first page."),
        ("See [[Other Page]] and ![[plan.png]].", "See Other Page and plan.png."),
        ("| A |\n|---|\n| [[x\\|y z]] |\n", ""),
        ("Run [[ -f x ]] first.", "Run [[ -f x ]] first."),
        ("See [[1]](http://x.y) there.", "See [1] there."),
        ("A list [[1, 2], [3]] of lists.", "A list [[1, 2], [3]] of lists."),
        ("This is ==marked **text**== now.", "This is marked text now."),
        ("If a == b and c == d then.", "If a == b and c == d then."),
        ("a==b==c", "a==b==c"),
        ("> [!note] Take care\n> of it.", "Take care of it."),
        ("> [!WARNING]\n> Hot.", "WARNING: Hot."),
        ("A mark [!note] within.", "A mark [!note] within."),
    ],
)
def test_links_marks_and_callouts_of_obsidian(tmp_path: Path, text: str, shown: str) -> None:
    (block,) = read(tmp_path, text).blocks
    assert words(block) == shown
    if block.cells:
        assert rows(block)[1:] == [["y z"]]


@pytest.mark.parametrize(
    "text",
    [
        "Shown %%secret%%words.",
        "Shown words.\n\n%%\nsecret\n\nsecret\n%%\n",
        "Shown words.\n\n%% secret\n\nmore secret %%\n",
        "Shown words.\n%%\nsecret\n%%\n",
    ],
)
def test_comments_are_hidden_and_counted(tmp_path: Path, text: str) -> None:
    found = read(tmp_path, text)
    assert lines(found) == [("paragraph", "Shown words.")]
    assert found.warnings == ("hidden in the file, and left out: 1 comment; `parsing.hidden: read` takes them",)
    taken = read(tmp_path, text, hidden=True)
    assert "secret" in " ".join(map(words, taken.blocks))
    assert {"hidden": "true"} in [block.metadata for block in taken.blocks]


@pytest.mark.parametrize("text", ["It is 50%% of 20%% here.", "%% one\n%% two", "All %%%% of it.", "The end %%"])
def test_other_signs_of_percent_are_text(tmp_path: Path, text: str) -> None:
    found = read(tmp_path, text)
    assert lines(found) == [("paragraph", " ".join(text.split()))] and found.warnings == ()
