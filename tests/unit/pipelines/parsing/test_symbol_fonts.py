"""Signs of symbol fonts: names of fonts, bytes and private use characters, and what stays."""

from __future__ import annotations

import unicodedata

import pytest

from pipelines.parsing.symbol_fonts import _TABLES, is_symbol_font, symbol_text


@pytest.mark.parametrize(
    ("font", "given", "right"),
    [
        ("Wingdings", "\uf0fe \uf0fd \uf0a8 \uf0fc \uf0fb \uf06f \uf06e \uf0d8", "☑ ☒ ☐ ✓ ✗ □ ■ ➢"),
        ("Wingdings", "þýüûo", "☑☒✓✗□"),
        ("Wingdings 2", "R£PTO", "☑☐✓☒✗"),
        ("Wingdings2", "\uf052\uf0a3", "☑☐"),
        ("Wingdings 3", "}", "▶"),
        ("Webdings", "a\uf0c9", "✔🖀"),
        ("Symbol", "abgDS \uf061\uf0a3\uf0b1\uf0ce", "αβγΔΣ α≤±∈"),
        ("SymbolMT", "\uf0b7", "•"),
        ("Symbol,Bold", "W", "Ω"),
        ("ABCDEF+Wingdings-Regular", "\uf0fc", "✓"),
        ("QWERTY+SymbolMT", "m", "μ"),
        ("ZapfDingbats", "4l\xac", "✔●①"),
        ("ITC Zapf Dingbats", "n", "■"),
        ("Monotype Sorts", "8", "✘"),
    ],
)
def test_signs(font: str, given: str, right: str) -> None:
    assert symbol_text(given, font) == right
    assert is_symbol_font(font)


@pytest.mark.parametrize(
    "font", ["Arial", "", "Segoe UI Symbol", "OpenSymbol", "Apple Symbols", "Wingding Sans", "+" * 999]
)
def test_letters_of_other_fonts_stay(font: str) -> None:
    assert symbol_text("abc Ω £ þ", font) == "abc Ω £ þ"
    assert symbol_text("\uf0b7\uf0a7\uf0d8\uf0fc\uf0a8\ue001\uf001", font) == "•▪➢✓☐\ue001\uf001"
    assert not is_symbol_font(font)


def test_characters_without_a_sign_stay() -> None:
    assert symbol_text("Ж☑\x7f\uf07f\uf0ff", "Symbol") == "Ж☑\x7f\uf07f\uf0ff"


def test_every_table_has_public_characters_only() -> None:
    for name, table in _TABLES.items():
        assert len(table) >= 2 * 188, name
        assert all(len(sign) == 1 and unicodedata.category(sign) not in ("Co", "Cn", "Cc") for sign in table.values())
