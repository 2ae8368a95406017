"""Parts that were never made are named, with the remedy."""

from __future__ import annotations

import pytest

from pipelines.errors import IndexStateError
from pipelines.stages import UNPARTITIONED
from resources.engine.committed import committed


@pytest.mark.parametrize(
    ("table", "shard", "told"),
    [
        ("parsed_documents", 3, "shard 03 of parsed_documents has not been made .* materialise parsed_elements first"),
        ("sentence_links", UNPARTITIONED, "^sentence_links has not been made .* materialise sentence_links first"),
    ],
)
def test_an_input_that_was_never_made_is_named_with_the_remedy(table: str, shard: int, told: str) -> None:
    with pytest.raises(IndexStateError, match=told) as caught:
        committed(table, shard, {})
    assert caught.value.code == "missing_input"
