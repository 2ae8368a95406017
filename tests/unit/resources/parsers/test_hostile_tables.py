"""The cost of tables and pages of a hostile author: in proportion to the text, whatever spans and rules it claims."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.records import Block, TextRun
from resources.parsers.html_shown import _rules
from resources.parsers.registry import media_type_of, parse_file
from resources.parsers.text import pages
from tests.support.growth import Parts, assert_linear


def _parsed(path: Path, text: str) -> tuple[Block, ...]:
    path.write_text(text, encoding="utf-8")
    return parse_file(path, media_type_of(path) or "").blocks


def _row_of_html(**spans: int) -> str:
    said = "".join(f" {name}={value}" for name, value in spans.items())
    return f"<tr><td{said}>a</td><td>b</td></tr>"


MADE: dict[str, tuple[str, Callable[[int], str]]] = {
    "tall cells": (".html", lambda rows: f"<table>{_row_of_html(rowspan=1000000) * rows}</table>"),
    "wide cells": (".html", lambda rows: f"<table>{_row_of_html(colspan=1000000) * rows}</table>"),
    "both": (".html", lambda rows: f"<table>{_row_of_html(rowspan=30, colspan=30) * rows}</table>"),
    "tall cells in Markdown": (".md", lambda rows: f"<table>{_row_of_html(rowspan=1000000) * rows}</table>\n"),
    "rows of LaTeX": (
        ".md",
        lambda rows: "\\begin{tabular}{ll}\n" + "\\multirow{999999}{*}{a} & b \\\\\n" * rows + "\\end{tabular}\n",
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_places_that_spans_claim_take_no_memory(tmp_path: Path, name: str) -> None:
    ending, make = MADE[name]
    path = tmp_path / f"page{ending}"
    _parsed(path, make(2))
    tracemalloc.start()
    blocks = _parsed(path, make(400))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(blocks[0].cells) == 800
    assert most < 5 << 20


@pytest.mark.parametrize("unit", ["---  ---\n", "---  ---\n----  --\n", "---  ---\n---\n"])
def test_rules_without_rows_are_not_searched_from_each(tmp_path: Path, unit: str) -> None:
    def counted(length: int) -> dict[str, int]:
        parts = Parts()
        parts.counted("parse", lambda: _parsed(tmp_path / "rules.txt", unit * (length // len(unit))))
        return parts.steps

    assert_linear(counted, 4000)


def test_a_wide_rule_makes_no_cells_that_no_line_fills(tmp_path: Path) -> None:
    rule = "--- " * 500
    blocks = _parsed(tmp_path / "wide.txt", f"{rule}\n" + "a   b\n" * 500)
    assert sum(len(block.cells) for block in blocks) == 1000


def test_a_table_below_a_rule_keeps_its_columns(tmp_path: Path) -> None:
    (block,) = _parsed(tmp_path / "table.txt", "Name   Days  Note\n-----  ----  ----\nAda    28\nBob    30    late\n")
    cells = [(cell.row, cell.column, "".join(run.text for run in cell.runs), cell.header) for cell in block.cells]
    assert cells == [
        (0, 0, "Name", True),
        (0, 1, "Days", True),
        (0, 2, "Note", True),
        (1, 0, "Ada", False),
        (1, 1, "28", False),
        (2, 0, "Bob", False),
        (2, 1, "30", False),
        (2, 2, "late", False),
    ]


def test_cells_that_reach_down_keep_the_places_of_others(tmp_path: Path) -> None:
    page = (
        "<table><tr><td rowspan=9 colspan=2>a<td>b</tr><tr><td>c</tr><tr><td>d</tr></table>"
        "<table><tr><td>e<td rowspan=2>f</tr><tr><td>g<td>h</tr></table>"
    )
    first, second = _parsed(tmp_path / "page.html", page)
    assert [(cell.row, cell.column) for cell in first.cells] == [(0, 0), (0, 2), (1, 2), (2, 2)]
    assert [(cell.row, cell.column) for cell in second.cells] == [(0, 0), (0, 1), (1, 0), (1, 2)]


def test_a_paragraph_over_many_pages_is_put_together_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handed = 0
    plain = dataclasses.replace

    def counted(thing: Any, **changes: Any) -> Any:
        nonlocal handed
        handed += len(changes.get("runs", ()))
        return plain(thing, **changes)

    monkeypatch.setattr(pages, "replace", counted)
    blocks = _parsed(tmp_path / "pages.txt", "word\f" * 400)
    assert [run.text for block in blocks for run in block.runs] == ["word"] * 400
    assert len(blocks) == 1 and isinstance(blocks[0].runs[0], TextRun)
    assert handed < 5 * 400


def _cells(block: Block) -> list[tuple[int, int, str]]:
    return [(cell.row, cell.column, "".join(run.text for run in cell.runs).strip()) for cell in block.cells]


def test_a_row_with_more_cells_than_its_header_keeps_them(tmp_path: Path) -> None:
    text = "> | Name | Days |\n> |---|---|\n> | Ada | 28 | late | x \\| y |\n> | Bob | 30 |\n> | Cy | | | z\n"
    (block,) = _parsed(tmp_path / "rows.md", text)
    assert _cells(block) == [
        (0, 0, "Name"),
        (0, 1, "Days"),
        (1, 0, "Ada"),
        (1, 1, "28"),
        (1, 2, "late"),
        (1, 3, "x | y"),
        (2, 0, "Bob"),
        (2, 1, "30"),
        (3, 0, "Cy"),
        (3, 1, ""),
        (3, 3, "z"),
    ]
    run = next(cell for cell in block.cells if (cell.row, cell.column) == (1, 2)).runs[0]
    assert run.source_start is not None and text[run.source_start : run.source_end] == "late"


@pytest.mark.parametrize(
    "page",
    [
        "<table><tr><form><td>a<td>b</form></tr><tr><td>c<td>d</tr></table>",
        "<table><a href=x><tr><td>a<td>b</tr></a><tr><td>c<td>d</table>",
        "<table><form><tbody><tr><td>a<td>b</tr></tbody></form><tr><td>c<td>d</table>",
        "<table><tr><x-row><td>a<td>b</x-row></tr><tr><td>c<td>d</table>",
        "<table><tbody><form><tr><td>a<td>b</tr><tr><td>c<td>d</tr></form></tbody></table>",
    ],
)
def test_rows_and_cells_within_other_elements_are_read(tmp_path: Path, page: str) -> None:
    (block,) = _parsed(tmp_path / "page.html", page)
    assert _cells(block) == [(0, 0, "a"), (0, 1, "b"), (1, 0, "c"), (1, 1, "d")]


@pytest.mark.parametrize(
    ("page", "beside"),
    [
        ("<table>one<tr>two<td>a<td>b</tr>three</table>", "one two three"),
        ("<table><tr><td>a<td>b</tr><p>one</p><tr><td>c<td>d</tr></table>", "one"),
        ("<table><tr><custom>one <b>two</b></custom><td>a<td>b</tr></table>", "one two"),
        ("<table><tr><p hidden>x</p><td>a<td>b</tr></table>", None),
        ("<table><script>x</script><tr><td>a<td>b</tr></table>", None),
    ],
)
def test_text_of_a_table_in_no_cell_is_read(tmp_path: Path, page: str, beside: str | None) -> None:
    table, *rest = _parsed(tmp_path / "page.html", page)
    assert [text for _, _, text in _cells(table)][:2] == ["a", "b"]
    assert ["".join(run.text for run in block.runs) for block in rest] == ([beside] if beside else [])


# ---------------------------------------------------------------- commands, captions, rules


def test_commands_without_end_in_a_formula_are_kept_as_they_are(tmp_path: Path) -> None:
    (block,) = _parsed(tmp_path / "a.md", f"So ${chr(92)}mathbf{(chr(92) + 'mathbf') * 3000}x$ holds.")
    assert "holds." in block.runs[-1].text


def test_captions_that_nothing_closes_are_none(tmp_path: Path) -> None:
    table = "\\begin{tabular}{l}a\\\\ b\\end{tabular}"
    page = "\\begin{table}" + table + "\\caption{Open " * 500 + "\\end{table}"
    blocks = _parsed(tmp_path / "a.md", page)
    assert sum(len(run.text) for block in blocks for run in block.runs) < 3 * len(page)


def test_declarations_of_one_rule_are_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counted(str):
        copied = 0

        def __getitem__(self, key: Any) -> str:
            part = str.__getitem__(self, key)
            Counted.copied += len(part)
            return part

    text = Counted("a{" + "b:c;" * 2000 + "}")
    assert [selectors for selectors, _, _ in _rules(text)] == ["a"]
    assert Counted.copied < 2 * len(text)
