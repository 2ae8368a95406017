"""Labels with values in the forms of HTML pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from resources.parsers.source_text import read_text
from tests.support.documents import elements_of

Found = list[tuple[str, str, dict[str, str]]]


def found(folder: Path, body: str) -> Found:
    path = folder / "form.html"
    path.write_text(f"<html><body>{body}</body></html>", encoding="utf-8")
    _, elements, _ = elements_of(path)
    return [(element.kind, element.text, element.metadata) for element in elements]


def pair(label: str, value: str) -> tuple[str, str, dict[str, str]]:
    return "key_value", f"{label}: {value}", {f"kv.{label}": value}


@pytest.mark.parametrize(
    "form",
    [
        '<span class="field-label">Order</span> <span class="field-value">17 b</span>',
        '<span class="label">Order:</span><span class="value">17 b</span>',
        '<div class="wide form__key">Order</div><div class="form__value bold">17 <b>b</b></div>',
        '<p><em class="Key">Order</em> : <em class="Value"> 17\n b </em></p>',
        '<ul><li><i class="order_label">Order</i><i class="order_value">17 b</i></li></ul>',
    ],
)
def test_neighbours_whose_classes_say_so_are_a_pair(tmp_path: Path, form: str) -> None:
    assert found(tmp_path, f"<p>before</p>{form} after") == [
        ("paragraph", "before", {}), pair("Order", "17 b"), ("paragraph", "after", {}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "form",
    [
        '<span class="label">Order</span> is <span class="value">17</span>',
        '<span class="order-label">Order</span><span class="price-value">17</span>',
        '<span class="label">Order</span><span>17</span>',
        '<span class="labelled">Order</span><span class="value">17</span>',
        '<span class="label">Order</span><span class="value"> </span>',
        f'<span class="label">Order</span><span class="value">{"many words " * 30}</span>',
    ],
)
def test_text_that_is_no_pair_stays_text(tmp_path: Path, form: str) -> None:
    elements = found(tmp_path, f"<p>{form}</p>")
    assert [(kind, metadata) for kind, _, metadata in elements] == [("paragraph", {})]
    assert elements[0][1].startswith("Order")


def test_a_value_with_blocks_in_it_keeps_them(tmp_path: Path) -> None:
    form = '<div class="label">Items</div><div class="value"><ul><li>Tea</li><li>Cake</li></ul></div>'
    assert [kind for kind, *_ in found(tmp_path, form)] == ["paragraph", "list_item", "list_item"]


def test_a_label_whose_value_is_hidden_is_not_lost(tmp_path: Path) -> None:
    form = '<p><span class="label">Order</span><span class="value" hidden>17</span></p>'
    assert found(tmp_path, form) == [("paragraph", "Order", {})]


def test_the_header_of_the_page_is_no_form(tmp_path: Path) -> None:
    form = '<header><span class="label">Call</span><span class="value">112</span></header><p>Text.</p>'
    assert [kind for kind, *_ in found(tmp_path, form)] == ["page_header", "paragraph"]


def test_label_and_value_point_at_their_words(tmp_path: Path) -> None:
    path = tmp_path / "form.html"
    path.write_text('<p>17</p><b class="label">Order</b><b class="value">17</b>', encoding="utf-8")
    _, elements, _ = elements_of(path)
    source = read_text(path)[0]
    words = [source[place.source_start : place.source_end] for place in elements[1].places if place.source_start]
    assert words == ["Order", "17"] and elements[1].places[-1].source_start == source.rindex("17")
