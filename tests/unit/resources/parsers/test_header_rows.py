"""Header rows of tables that mark none, on the shapes of tables in financial reports and in forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.indexing.table_rows import table_rows
from resources.parsers.labels import header_rows
from tests.support.documents import elements_of


@pytest.mark.parametrize(
    ("table", "count"),
    [
        ("|Fiscal|;|2019|2018;||(in millions);Sales|$ 5,686|(71)", 3),
        ("|2019|2018;Assets||;Cash|$130|91%", 1),
        ("($ in millions)||;For the year ended:|2019|2018;Cost|$100|—", 2),
        ("€ million|2019|2018|Change (%);Orders|532.0|470.0|13.2", 1),
        ("€ million|2017/2018|2018/2019;Result|−136|−119", 1),
        ("City|Fee;Lviv|12", 1),
        ("Name|Oleh;Born|May 1980;Height|183 cm", 0),
        ("Name|Oleh;Born|May 1980;Height|183;Weight|80", 0),
        ("|Yes|No;Dogs|here|there;Fee|12|none", 0),
        ("Lviv|12;Kyiv|13", 0),
        ("|2019|2018", 0),
        ("", 0),
    ],
    ids=[
        "three rows",
        "a label below",
        "a unit above",
        "years among names",
        "minus signs",
        "names over numbers",
        "a form",
        "a form of figures",
        "more words than figures",
        "figures alone",
        "no row below",
        "no cell",
    ],
)
def test_header_rows(table: str, count: int) -> None:
    assert header_rows([row.split("|") for row in table.split(";")]) == count


def rows_of(folder: Path, rows: str) -> list[str]:
    path = folder / "a.html"
    path.write_text(f"<table>{rows}</table>")
    (table,) = elements_of(path)[1]
    return [row.text for row in table_rows(table)]


def test_every_row_has_the_headers_of_all_rows_above_it(tmp_path: Path) -> None:
    rows = (
        "<tr><td></td><td colspan=2>Fiscal</td></tr><tr><td></td><td>2019</td><td>2018</td></tr>"
        "<tr><td>Assets</td><td></td><td></td></tr><tr><td>Cash</td><td>$130</td><td>—</td></tr>"
    )
    assert rows_of(tmp_path, rows) == ["Assets", "Cash | Fiscal / 2019: $130 | 2018: —"]


def test_a_corner_over_several_rows_counts_for_each(tmp_path: Path) -> None:
    rows = (
        "<tr><td rowspan=2></td><td colspan=2>Fiscal</td></tr><tr><td>May</td><td>June</td></tr>"
        "<tr><td>Cash</td><td>$130</td><td>91</td></tr>"
    )
    assert rows_of(tmp_path, rows) == ["Cash | Fiscal / May: $130 | June: 91"]


def test_no_header_where_one_of_its_cells_reaches_into_the_figures(tmp_path: Path) -> None:
    rows = (
        "<tr><td rowspan=2></td><td>May</td><td>June</td></tr><tr><td>$130</td><td>91</td></tr>"
        "<tr><td>Cash</td><td>$12</td><td>7</td></tr>"
    )
    assert rows_of(tmp_path, rows) == ["May | June", "$130 | 91", "Cash | $12 | 7"]
