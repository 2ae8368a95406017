"""Parts of a long text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pincite.serve.mcp_tools import parts_of


@given(st.text("ab \n", max_size=300), st.integers(2, 40))
def test_parts_are_bounded_and_make_the_text(text: str, most: int) -> None:
    parts = parts_of(text, most)
    assert "".join(parts) == text
    assert all(len(part) <= most for part in parts) and (all(parts) or not text)


def test_a_text_is_parted_between_paragraphs() -> None:
    assert parts_of("one two\n\nthree four\nfive", 15) == ["one two\n\n", "three four\nfive"]
