"""Superscripts and subscripts keep their meaning as plain characters."""

from __future__ import annotations

import pytest

from pipelines.parsing.raised import lower_text, raise_text


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("6", "⁶"),
        (" 2 ", " ² "),
        ("-3", "⁻³"),
        ("−1", "⁻¹"),
        ("n", "ⁿ"),
        ("x", "^x"),
        ("a+b", "^(a+b)"),
        ("(a+b)", "^(a+b)"),
        ("st", "st"),
        ("†", "†"),
        ("  ", "  "),
    ],
)
def test_a_raised_text_is_a_power_or_stays_a_word(text: str, made: str) -> None:
    assert raise_text(text) == made


@pytest.mark.parametrize(("text", "made"), [("2", "₂"), ("i", "_i"), ("min", "_min"), ("i+1", "_(i+1)")])
def test_a_lowered_text_is_an_index(text: str, made: str) -> None:
    assert lower_text(text) == made
