"""Lists of bars and dashes, as SAP and mainframes print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.records import Block
from resources.parsers.text import plain

RULE = "-" * 40


def rows(block: Block) -> list[tuple[bool, list[str]]]:
    found: dict[int, tuple[bool, list[str]]] = {}
    for cell in block.cells:
        found.setdefault(cell.row, (cell.header, []))[1].append(" ".join(run.text for run in cell.runs))
    return list(found.values())


def tables(tmp_path: Path, text: str) -> list[list[tuple[bool, list[str]]]]:
    path = tmp_path / "list.txt"
    path.write_text(text, encoding="utf-8")
    return [rows(block) for block in plain.parse(path).blocks if block.kind == "table"]


@pytest.mark.parametrize(
    ("head", "rules"),
    [
        ("01.11.2026     Dynamische Listenausgabe     1\n", (RULE, RULE, RULE)),
        ("", (RULE, RULE, RULE)),
        ("", (RULE, "=" * 40, RULE)),
        ("", ("", RULE, "")),
        ("Список клієнтів\n\n", (RULE, f"|{'-' * 38}|", RULE)),
    ],
)
def test_a_list_of_sap(tmp_path: Path, head: str, rules: tuple[str, str, str]) -> None:
    above, between, below = (f"{rule}\n" if rule else "" for rule in rules)
    body = "|4711  |Köln         | 1.234,50|EUR  |\n|4712  |Львів        |    99,00|UAH  |\n"
    text = f"{head}{above}|Kunde |Ort          |   Umsatz|Währg|\n{between}{body}{below}"
    assert tables(tmp_path, text) == [
        [
            (True, ["Kunde", "Ort", "Umsatz", "Währg"]),
            (False, ["4711", "Köln", "1.234,50", "EUR"]),
            (False, ["4712", "Львів", "99,00", "UAH"]),
        ]
    ]


def test_a_list_with_a_total_below_a_rule(tmp_path: Path) -> None:
    text = f"{RULE}\n|Konto |Betrag|\n{RULE}\n|1000  |  5,00|\n|2000  |  6,00|\n{RULE}\n|Summe | 11,00|\n{RULE}\n"
    assert tables(tmp_path, text) == [
        [
            (True, ["Konto", "Betrag"]),
            (False, ["1000", "5,00"]),
            (False, ["2000", "6,00"]),
            (False, ["Summe", "11,00"]),
        ]
    ]


def test_a_rule_beside_a_line_with_one_bar_is_no_table(tmp_path: Path) -> None:
    assert tables(tmp_path, f"Either a | b is meant here.\n{RULE}\nNext words.\n") == []
