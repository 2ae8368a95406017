"""Rows of tables as texts: what heads say of them, and what is said once."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.indexing.packed_chunks import packed_chunks
from pipelines.indexing.structural_chunks import structural_chunks
from pipelines.indexing.table_rows import Row, table_rows
from pipelines.records import Block, BlockCell, PackedChunk, TextRun
from pipelines.tokens import count_tokens
from tests.support.builders import CLAUSE_TOKENS, heading, units
from tests.support.builders import document as document_of
from tests.support.documents import elements_of
from tests.support.places import DATA, needs_data


def test_headers_of_two_rows_and_spans_are_joined() -> None:
    cells = (
        BlockCell(0, 0, (TextRun("Series"),), row_span=2, header=True),
        BlockCell(0, 1, (TextRun("Boxes"),), column_span=2, header=True),
        BlockCell(1, 1, (TextRun("Offered"),), header=True),
        BlockCell(1, 2, (TextRun("Destroyed"),), header=True),
        BlockCell(2, 0, (TextRun("Finance"),), row_span=2),
        BlockCell(2, 1, (TextRun("4"),)),
        BlockCell(2, 2, (TextRun("2"),)),
        BlockCell(3, 1, (TextRun("7"),)),
        BlockCell(3, 2, (TextRun("1"),)),
    )
    _, _, made = units(Block("table", cells=cells))
    assert [unit.text for unit in made] == [
        "Series: Finance | Boxes / Offered: 4 | Destroyed: 2",
        "Series: Finance | Boxes / Offered: 7 | Destroyed: 1",
    ]


def _rows(
    *rows: str, headers: tuple[int, ...], spans: dict[tuple[int, int], tuple[int, int]] | None = None
) -> list[str]:
    """Texts of the units of a table. Rows are written `a|b`, an empty cell is left out; `spans` are (rows, columns)
    of a cell."""
    cells = tuple(
        BlockCell(row, column, (TextRun(text),), *(spans or {}).get((row, column), (1, 1)), header=row in headers)
        for row, line in enumerate(rows)
        for column, text in enumerate(line.split("|"))
        if text
    )
    document, elements = document_of(Block("table", cells=cells))
    made = list(table_rows(elements[0]))
    assert "\n".join(document.body[unit.span.start : unit.span.end] for unit in made).split() == document.body.split()
    return [unit.text for unit in made]


def test_header_rows_further_down_hold_for_the_rows_below() -> None:
    made = _rows("City|Limit", "London|195", "Country|Rate", "France|12", headers=(0, 2))
    assert made == ["City: London | Limit: 195", "Country: France | Rate: 12"]


def test_a_label_across_a_table_joins_the_headers_of_the_rows_below() -> None:
    spans = {(1, 0): (1, 2), (3, 0): (1, 2)}
    made = _rows("City|Limit", "2023", "London|195", "2024", "London|200", headers=(0, 1, 3), spans=spans)
    assert made == ["2023 / City: London | Limit: 195", "2024 / City: London | Limit: 200"]


def test_a_header_row_of_one_text_between_rows_is_a_label() -> None:
    made = _rows("City|Limit", "London|195", "2024", "London|200", headers=(0, 2))
    assert made == ["City: London | Limit: 195", "2024 / City: London | Limit: 200"]


def test_a_header_row_of_one_text_belongs_to_its_column() -> None:
    assert _rows("City|Limit", "|(£)", "London|195", headers=(0, 1)) == ["City: London | Limit / (£): 195"]


def test_header_rows_at_the_end_of_a_table_are_kept() -> None:
    assert _rows("City|Limit", "London|195", "Total|All", headers=(0, 2)) == [
        "City: London | Limit: 195",
        "Total | All",
    ]


def test_a_cell_over_more_rows_than_there_are() -> None:
    made = _rows("City|Limit", "UK|1", "|2", headers=(0,), spans={(1, 0): (1_000_000_000, 1)})
    assert made == ["City: UK | Limit: 1", "City: UK | Limit: 2"]
    assert _rows("All|B", "x|1", headers=(0,), spans={(0, 0): (1, 1_000_000_000)})[0].endswith("1")


def chunks(*rows: str, headers: tuple[int, ...], target: int) -> list[PackedChunk]:
    cells = tuple(
        BlockCell(row, column, (TextRun(text),), header=row in headers)
        for row, line in enumerate(rows)
        for column, text in enumerate(line.split("|"))
        if text
    )
    _, elements, made = units(heading("Notes"), Block("table", cells=cells))
    return packed_chunks(made, elements, target, 2 * target)


CORNER = ("(in millions)|2019|2018", "Cash|4|5", "Debt|6|7")


def test_text_over_the_labels_is_stated_once_per_chunk() -> None:
    made = ["(in millions): Cash | 2019: 4 | 2018: 5", "Debt | 2019: 6 | 2018: 7"]
    assert _rows(*CORNER, headers=(0,)) == made
    (whole,) = chunks(*CORNER, headers=(0,), target=100)
    assert whole.text.endswith("\n".join(made)) and whole.text.count("(in millions)") == 1
    first, second = chunks(*CORNER, headers=(0,), target=10)
    assert first.text.endswith(made[0]) and second.text == f"(in millions)\n{made[1]}"
    assert second.text[second.offsets[0] :] == made[1] and not second.metadata


@pytest.mark.parametrize(
    "rows",
    [
        ("Cost centre|2019|2018", "Lviv|4|5", "Kyiv|6|7"),
        ("Share price (closing)|2019|2018", "44|4|5", "45|6|7"),
        ("Held by the state, %", "Lviv", "Kyiv"),
        ("Countries that are NOT covered|2019", "Lviv|4", "Kyiv|5"),
        ("employee_id (HR)|2019", "AB1|4", "AB2|5"),
    ],
    ids=["the name of the labels", "figures", "one column", "what the labels are", "a code"],
)
def test_the_name_of_the_labels_is_stated_for_each(rows: tuple[str, ...]) -> None:
    name = rows[0].split("|")[0]
    assert all(text.startswith(f"{name}: ") for text in _rows(*rows, headers=(0,)))
    assert all(chunk.text.count(name) == len(chunk.units) for chunk in chunks(*rows, headers=(0,), target=10))


def test_heads_of_which_one_stands_under_nothing_are_said_in_full() -> None:
    """`2019 / May: 4 | June: 5 | All: 9` would read as the whole of 2019."""
    spans = {(0, 1): (1, 2)}
    made = _rows("|2019||", "|May|June|All", "Cash|4|5|9", headers=(0, 1), spans=spans)
    assert made == ["Cash | 2019 / May: 4 | 2019 / June: 5 | All: 9"]


def test_a_head_that_was_only_wrapped_reads_on() -> None:
    spans = {(0, 1): (1, 2)}
    made = _rows("|Year ended May 31,|", "|2019|2018", "Cash|4|5", headers=(0, 1), spans=spans)
    assert made == ["Cash | Year ended May 31, 2019: 4 | 2018: 5"]
    assert _rows("|Useful|Net", "|life|worth", "Cars|4|5", headers=(0, 1)) == ["Cars | Useful life: 4 | Net worth: 5"]


def test_a_later_label_is_said_of_the_rows_below_it() -> None:
    made = _rows(*CORNER, "Restated|", "Cash|8|9", "Debt|1|2", headers=(0, 3))
    assert made[2:] == [
        "Restated: Cash | Restated / 2019: 8 | 2018: 9",
        "Restated: Debt | Restated / 2019: 1 | 2018: 2",
    ]


def test_a_first_row_without_a_label_says_what_stands_over_the_others() -> None:
    made = _rows("(in millions)|2019|2018", "|4|5", "Cash|6|7", "Debt|8|9", headers=(0,))
    assert made == ["(in millions) | 2019: 4 | 2018: 5", "Cash | 2019: 6 | 2018: 7", "Debt | 2019: 8 | 2018: 9"]


def test_a_unit_over_further_labels_is_said_there() -> None:
    rows = (*CORNER, "(in thousands)|2019|2018", "Wages|3|4", "Rent|5|6", "(in thousands)|2019|2018", "Tax|1|2")
    made = _rows(*rows, headers=(0, 3, 6))
    assert made[2:] == [
        "(in thousands): Wages | 2019: 3 | 2018: 4",
        "Rent | 2019: 5 | 2018: 6",
        "Tax | 2019: 1 | 2018: 2",
    ]
    begun = [chunk.text.split("\n")[0] for chunk in chunks(*rows, headers=(0, 3, 6), target=10)]
    assert begun == [made[0], "(in millions)", made[2], "(in thousands)", "(in thousands)"]


def test_a_heading_within_a_table_comes_before_what_the_first_row_says() -> None:
    made = _rows("(in millions)|2019", "Assets", "Cash|4", "Debt|5", headers=(0,), spans={(1, 0): (1, 2)})
    assert made == ["Assets", "(in millions): Cash | 2019: 4", "Debt | 2019: 5"]


def test_heads_of_several_levels_are_said_once_where_all_have_as_many() -> None:
    spans = {(0, 1): (1, 4), (1, 1): (1, 2), (1, 3): (1, 2)}
    rows = ("|2019||||", "|Q1||Q2|", "|Jan|Feb|Apr|May", "Cash|1|2|3|4")
    made = _rows(*rows, headers=(0, 1, 2), spans=spans)
    assert made == ["Cash | 2019 / Q1 / Jan: 1 | Feb: 2 | Q2 / Apr: 3 | May: 4"]
    spans |= {(0, 1): (1, 5), (1, 5): (2, 1)}
    made = _rows("|2019|||||", "|Q1||Q2||Total", *rows[2:-1], "Cash|1|2|3|4|10", headers=(0, 1, 2), spans=spans)
    assert made[0].endswith("2019 / Q2 / May: 4 | 2019 / Total: 10")


def test_the_heads_of_columns_without_a_value_are_said_by_the_first_row() -> None:
    made = _rows("Item|Done|Signature", "Wages||", "Rent||", headers=(0,))
    assert made == ["Item: Wages | Done: | Signature:", "Item: Rent"]
    made = _rows("Item|Done|Signature:", "Wages|yes|", "Item|Done|Signature", "Rent||x", headers=(0, 2))
    assert made == ["Item: Wages | Done: yes | Signature:", "Item: Rent | Signature: x | Done:"]


def test_many_heads_of_columns_without_a_value_are_a_row_of_their_own() -> None:
    made = _rows("|".join(["Item", *(f"Check number {at}" for at in range(100))]), "Wages" + "|" * 100, headers=(0,))
    assert [text.count(" | ") for text in made] == [99, 0]
    assert made[1] == "Item: Wages"


def test_a_value_under_several_heads_says_them_all() -> None:
    spans = {(1, 1): (1, 2), (2, 0): (1, 2)}
    made = _rows("Name|Monday|Tuesday", "Ivan|Leave|", "Olga||Late", headers=(0,), spans=spans)
    assert made == ["Name: Ivan | Monday, Tuesday: Leave", "Name: Olga | Tuesday: Late"]


def test_heads_over_nothing_but_a_line_across_are_said() -> None:
    rows = ("Room|Reason|Contact", "No rooms are closed||")
    made = _rows(*rows, headers=(0,), spans={(1, 0): (1, 3)})
    assert made == ["Room: No rooms are closed | Reason: | Contact:"]


@pytest.mark.parametrize(
    "label", ["Period of employment", "% discount code", "Treated as part of", "Thousands served", "Name", "At work"]
)
def test_every_row_says_the_name_of_its_labels(label: str) -> None:
    made = _rows(f"{label}|Shop", "ABC|Lidl", "DEF|Aldi", headers=(0,))
    assert made == [f"{label}: ABC | Shop: Lidl", f"{label}: DEF | Shop: Aldi"]


@pytest.mark.parametrize(
    "corner", ["(in millions)", "Dollars in thousands", "$", "Year ended", "As of May 31", "May 31,", "(unaudited, $)",
               "US dollars", "млн грн", "Станом на 31 грудня"]
)  # fmt: skip
def test_a_unit_or_a_time_over_the_labels_is_said_once(corner: str) -> None:
    made = _rows(f"{corner}|2019", "Cash|4", "Debt|6", headers=(0,))
    assert made == [f"{corner}: Cash | 2019: 4", "Debt | 2019: 6"]


def test_further_heads_take_the_place_of_those_before_but_of_a_unit() -> None:
    assert _rows("Name|Pay|Bonus", "Bob|1|2", "Firm|Amount|", "ACME|60|late", headers=(0, 2))[1] == (
        "Firm: ACME | Amount: 60 | late"
    )
    assert _rows("Region|2019|2018", "East|1|2", "|2019|2018", "Cash|3|4", headers=(0, 2))[1] == (
        "Cash | 2019: 3 | 2018: 4"
    )
    assert _rows("(in millions)|2019|2018", "East|1|2", "|2017|2016", "Cash|3|4", headers=(0, 2))[1] == (
        "Cash | 2017: 3 | 2016: 4"
    )


def test_text_repeated_in_each_row_is_bounded_by_row() -> None:
    heads = "|".join(f"Question {at} {'of many words ' * 20}" for at in range(250))
    first, *others = _rows(heads, *["|".join(["yes"] * 250)] * 4, headers=(0,))
    assert len(first) > 60_000
    assert max(map(len, others)) < 15_000
    merged = "|".join("word " * 600 for _ in range(50))
    spans = {(0, at): (5, 1) for at in range(50)}
    first, *others = _rows(f"{merged}|x", *[f"{'|' * 50}y"] * 4, headers=(), spans=spans)
    assert len(first) > 100_000
    assert max(map(len, others)) < 5_000


WORDS = st.sampled_from(["(in millions)", "2019", "May 31,", "Name of the owner", "Total", "a", ""])


@example([["(in millions)"] * 4, ["2019", *["(in millions)"] * 3], ["", *["(in millions)"] * 3]], {0, 1}, 1)
@given(
    st.lists(st.lists(WORDS, min_size=4, max_size=4), min_size=2, max_size=7),
    st.sets(st.integers(0, 6)),
    st.integers(1, 40),
)
def test_every_cell_and_every_head_is_said(grid: list[list[str]], heads: set[int], target: int) -> None:
    grid[0][0] = grid[0][0] or "(in millions)"
    made = chunks(*map("|".join, grid), headers=tuple(heads), target=target)
    text = " ".join("\n".join(chunk.text for chunk in made).split())
    assert all(cell in text for row in grid for cell in row)


# ---------------------------------------------------------------- rows over the ceiling


def _parts(*rows: str, headers: tuple[int, ...] = (0,), ceiling: int = 60, **spans: tuple[int, int]) -> list[Row]:
    """Parts of the rows of a table, after a check that their spans part its text and that none is over the ceiling."""
    cells = tuple(
        BlockCell(row, column, (TextRun(text),), *spans.get(f"at_{row}_{column}", (1, 1)), header=row in headers)
        for row, line in enumerate(rows)
        for column, text in enumerate(line.split("|"))
        if text
    )
    document, elements = document_of(Block("table", cells=cells))
    made = list(table_rows(elements[0], ceiling))
    assert all(before.span.end <= after.span.start for before, after in pairwise(made))
    within = "".join(document.body[row.span.start : row.span.end] for row in made)
    assert "".join(within.split()) == "".join(document.body.split())
    assert all(count_tokens(row.text) + count_tokens(row.corner or "") <= ceiling for row in made)
    return made


SENTENCES = " ".join(f"Clerk number {at} keeps a record of it." for at in range(30))


def test_a_huge_cell_is_divided_at_sentences_and_each_part_says_the_key_and_the_heads() -> None:
    made = [row.text for row in _parts("Key|Text", f"one|{SENTENCES}", "two|short")]
    assert len(made) > 5 and made[-1] == "Key: two | Text: short"
    assert all(text.startswith("Key: one | Text: Clerk number ") and text.endswith(" of it.") for text in made[:-1])
    assert " ".join(text.removeprefix("Key: one | Text: ") for text in made[:-1]) == SENTENCES


def test_a_row_of_many_columns_is_divided_between_cells() -> None:
    heads = "|".join(["Month", *(f"Station {at}" for at in range(60))])
    made = [row.text for row in _parts(heads, "|".join(["May", *(str(100 + at) for at in range(60))]), "June|7")]
    assert len(made) > 3 and made[-1] == "Month: June | Station 0: 7"
    assert all(text.startswith("Month: May | Station ") for text in made[:-1])
    assert " | ".join(text.removeprefix("Month: May | ") for text in made[:-1]) == " | ".join(
        f"Station {at}: {100 + at}" for at in range(60)
    )


def test_an_ordinary_row_is_never_divided() -> None:
    row = "one|" + "word " * 40
    assert [each.text for each in _parts("Key|Text", row)] == [f"Key: one | Text: {('word ' * 40).strip()}"]


def test_cells_after_and_before_a_huge_one_are_in_a_part_each_once() -> None:
    made = [row.text for row in _parts("Key|Town|Text|Sum", f"one|Kyiv|{SENTENCES}|17")]
    assert made[0].startswith("Key: one | Town: Kyiv | Text: Clerk number 0") and made[-1].endswith(" | Sum: 17")
    assert sum("Town: Kyiv" in text for text in made) == sum("Sum: 17" in text for text in made) == 1


def test_a_huge_first_cell_is_repeated_by_its_beginning_alone() -> None:
    made = [row.text for row in _parts("Question|Answer", f"{SENTENCES}|Yes, if the head of the office signs it.")]
    assert made[0].startswith("Question: Clerk number 0 keeps")
    assert made[-1].endswith("Answer: Yes, if the head of the office signs it.")
    assert "Answer" not in "".join(made[:-1])


def test_a_huge_cell_alone_in_its_row_or_across_the_table_is_divided() -> None:
    assert all(row.text.startswith("Text: Clerk") for row in _parts("Text", SENTENCES))
    assert all(row.text.startswith("Clerk") for row in _parts("A|B", SENTENCES, "1|2", at_1_0=(1, 2))[:-1])


def test_cyrillic_and_text_without_spaces_are_divided_too() -> None:
    uk = " ".join(f"Працівник номер {at} веде журнал обліку." for at in range(30))
    assert all(row.text.startswith("Ключ: один | Опис: Працівник") for row in _parts("Ключ|Опис", f"один|{uk}"))
    assert len(_parts("キー|本文", "一|" + "職員は記録を保管する。" * 40)) > 5
    assert len(_parts("Key|Text", "one|" + "x" * 5000)) > 5


def test_the_corner_of_a_table_stays_above_the_parts() -> None:
    first, *others = _parts("(in millions)|2019|2018", f"Cash|{SENTENCES}|5", "Debt|6|7")
    assert first.text.startswith("(in millions): Cash | 2019: Clerk") and first.corner is None
    assert {row.corner for row in others} == {"(in millions)"}
    assert others[-1].text == "Debt | 2019: 6 | 2018: 7"


def test_heads_too_long_for_each_part_are_rows_of_their_own() -> None:
    question = (
        "Does the clerk keep a record of each of the visits that are made to the office in the month of May? " * 3
    )
    made = [row.text for row in _parts(f"Name|{question}|Sum", f"Ann|{SENTENCES}|3", "Bob|no|4")]
    heads = [text for text in made if not text.startswith("Name: ")]
    assert question.strip() in " ".join(heads)
    assert made[-1].startswith("Name: Bob | Does the clerk keep a record")


def test_a_merged_cell_is_repeated_by_its_beginning_in_the_parts_of_the_rows_below() -> None:
    made = [row.text for row in _parts("Area|Text", "North|a", f"|{SENTENCES}", at_1_0=(2, 1))]
    assert made[0] == "Area: North | Text: a"
    assert all(text.startswith("Area: North | Text: Clerk") for text in made[1:])


LONG = st.sampled_from(["", "a", "(in millions)", "2019", "Name of it", "word " * 30, SENTENCES, "x" * 400, "職" * 90])


@given(
    st.lists(st.lists(LONG, min_size=3, max_size=3), min_size=1, max_size=5),
    st.sets(st.integers(0, 4)),
    st.integers(60, 200),
)
def test_no_table_has_a_part_over_the_ceiling(rows: list[list[str]], headers: set[int], ceiling: int) -> None:
    if any(any(row) for row in rows):
        _parts(*("|".join(row) for row in rows), headers=tuple(headers), ceiling=ceiling)


def test_chunks_of_a_table_of_huge_rows_stay_under_the_ceiling() -> None:
    cells = [BlockCell(0, at, (TextRun(f"Measured at station {at}"),), header=True) for at in range(60)]
    cells += [BlockCell(row, at, (TextRun(f"{row}{at}.5 m of snow"),)) for row in (1, 2) for at in range(60)]
    _, elements, made = units(heading("Snow"), Block("table", cells=tuple(cells)))
    chunks = packed_chunks(made, elements, 320, 512)
    assert len(chunks) == 4 and all(count_tokens(chunk.text) <= 512 for chunk in chunks)
    assert all("Measured at station 0: " in line for chunk in chunks for line in chunk.text.splitlines())


@needs_data("field-cases/z1-huge-cell.md")
def test_the_row_of_a_huge_cell_of_a_file_is_many_hits_with_its_key() -> None:
    document, elements, _ = elements_of(DATA / "field-cases" / "z1-huge-cell.md")
    chunks = packed_chunks(structural_chunks(document, elements, CLAUSE_TOKENS), elements, 320, 512)
    assert len(chunks) > 20 and all(count_tokens(chunk.text) <= 512 for chunk in chunks)
    assert all(chunk.text.startswith("Key: one | Text: Policy number") for chunk in chunks)
    assert "Key: two | Text: short" in chunks[-1].text
    assert "".join(
        "".join(document.body[span.start : span.end].split()) for chunk in chunks for span in chunk.spans
    ) == ("".join(document.body.removeprefix("Wide").split()))
