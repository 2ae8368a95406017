from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipelines.tokens import TokenIndex, count_tokens


def test_counts_by_script() -> None:
    assert count_tokens("Retention is seven years.") == 5
    assert count_tokens("internationalisation") == 3
    assert count_tokens("зберігання") == 3
    assert count_tokens("1234567") == 3
    assert count_tokens("文書保存") == 4
    assert count_tokens("   ") == 0


@given(st.text(max_size=300), st.integers(0, 300), st.integers(0, 300))
def test_index_counts_slices_that_add_up(text: str, left: int, right: int) -> None:
    left, right = sorted((min(left, len(text)), min(right, len(text))))
    index = TokenIndex(text)
    parts = index.count(0, left) + index.count(left, right) + index.count(right, len(text))
    assert parts == count_tokens(text) == index.count(0, len(text))
