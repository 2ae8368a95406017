from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.indexing.indexed_documents import chunk_terms, document_facts, row_hash
from pipelines.terms import terms_of
from tests.support.builders import document, heading, paragraph, raw
from tests.unit.pipelines.indexing.test_sentences import skeleton

PARSED = replace(
    document(paragraph("Some text."))[0],
    effective_date="2020-01-01",
    version="1",
    groups=("file",),
    metadata={"owner": "File", "author": "A"},
)


def test_the_side_car_wins_over_the_file() -> None:
    listed = raw(effective_date="3 March 2026", version="9", groups=("hr",), metadata={"owner": "Side-car"})
    facts = document_facts(listed, PARSED)
    assert (facts.effective_date, facts.version, facts.groups) == (date(2026, 3, 3), "9", ("hr",))
    assert facts.metadata == {"owner": "Side-car", "author": "A"}


@pytest.mark.parametrize(
    ("side_car", "own", "source", "expected"),
    [
        (None, None, (), ()),
        (None, None, ("staff",), ("staff",)),
        (None, ("hr",), ("staff",), ("hr",)),
        (("legal",), ("hr",), ("staff",), ("legal",)),
        ((), ("hr",), ("staff",), ("staff",)),
    ],
)
def test_groups_of_side_car_file_and_source_in_this_order(
    side_car: tuple[str, ...] | None, own: tuple[str, ...] | None, source: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    facts = document_facts(raw(groups=side_car, source_groups=source), replace(PARSED, groups=own))
    assert facts.groups == expected


def test_families_by_metadata_by_title_and_never_by_file_name() -> None:
    assert document_facts(raw(metadata={"family": "travel"}), PARSED).family == "travel"
    assert document_facts(raw(uri="a.pdf"), PARSED).family == document_facts(raw(uri="b.pdf"), PARSED).family
    named = replace(PARSED, title_is_file_name=True)
    assert document_facts(raw(uri="x/a.pdf"), named).family != document_facts(raw(uri="y/a.pdf"), named).family


def test_the_file_name_in_a_title_parts_no_versions_but_parts_documents_of_one_kind() -> None:
    def family(title: str, uri: str) -> str:
        return document_facts(raw(uri=uri), replace(PARSED, title=title)).family

    first, second = (
        ("Rules of the house (rules-2023)", "rules-2023.pdf"),
        ("Rules of the house (rules-2024)", "rules-2024.pdf"),
    )
    assert family(*first) == family(*second) == family("Rules of the house", "rules.pdf")
    assert family("Invoice (ann)", "ann.pdf") != family("Invoice (bob)", "bob.pdf")


def test_a_heading_that_is_the_title_but_for_the_file_name_counts_once() -> None:
    chunks, _, _ = skeleton(
        heading("Rules of the house"), paragraph("Guests pay."), paragraph("Guests leave the keys.")
    )
    terms = Counter(chunk_terms(chunks[0], "Rules of the house (rules-2024)"))
    assert terms["hous"] == 1 and terms["2024"] == 1


def test_row_hash_moves_with_every_fact() -> None:
    facts = document_facts(raw(), PARSED)
    changed: list[dict[str, Any]] = [
        {"title": "x"},
        {"groups": ("x",)},
        {"metadata": {"x": "y"}},
        {"version": "x"},
        {"effective_date": None},
        {"family": "x"},
    ]
    hashes = {row_hash(replace(facts, **each), "a") for each in [{}, *changed]} | {row_hash(facts, "b")}
    assert len(hashes) == 8


def test_terms_are_of_title_headings_and_own_text_and_say_the_title_once() -> None:
    (made,), _, _ = skeleton(heading("Leave rules"), heading("Sickness", 2), paragraph("Call before nine."))
    chunk = replace(made, header_chain=("Leave rules", "Sickness"), overlap="Ask the chairman.")
    assert Counter(chunk_terms(chunk, "Leave rules")) == Counter(terms_of("Leave rules Sickness " + chunk.text))
    assert set(terms_of("Handbook")) < set(chunk_terms(chunk, "Handbook"))
    assert not set(terms_of("chairman")) & set(chunk_terms(chunk, "Leave rules"))


def test_each_head_of_a_table_counts_once() -> None:
    (made,), _, _ = skeleton(heading("Sales"), paragraph("Sales by year: all regions."))
    rows = ["Sales by year: all", "Region: North | 2023: 17 | 2022: 12", "Region: South | 2023: 9 | Note: open: 9",
            "Region: West | 2024: 5", "Total | 2023: 26"]  # fmt: skip
    chunk = replace(made, text="\n".join(rows), block_types=("table-row",), header_chain=("Sales",))
    counts = Counter(chunk_terms(chunk, "Sales"))
    assert {term: counts[term] for term in ("region", "2023", "2022", "2024", "note", "9", "26", "north", "total")} == {
        "region": 1, "2023": 1, "2022": 1, "2024": 1, "note": 1, "9": 2, "26": 1, "north": 1, "total": 1
    }  # fmt: skip
    assert set(counts) == set(terms_of("Sales " + chunk.text))
    plain = replace(chunk, block_types=("paragraph",))
    assert Counter(chunk_terms(plain, "Sales"))["region"] == 3


@given(st.text(alphabet="ab:| \n", max_size=60))
def test_no_word_of_a_table_is_lost(text: str) -> None:
    (made,), _, _ = skeleton(heading("Sales"), paragraph("Sales."))
    chunk = replace(made, text=text, block_types=("table-row",), header_chain=("Sales",))
    assert set(chunk_terms(chunk, "Sales")) == set(terms_of("Sales " + text))
