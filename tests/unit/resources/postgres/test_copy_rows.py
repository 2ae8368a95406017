"""Binary COPY as bytes; that Postgres reads them is for integration/test_generation_tables.py."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from resources.postgres.index_rows import packed_rows


def test_blocks_join_to_one_copy_of_all_rows() -> None:
    rows = [(number, "x" * 1000) for number in range(400)]
    blocks = list(packed_rows(("int4", "text"), rows))
    assert len(blocks) > 2 and max(map(len, blocks)) < 1 << 17
    row = b"".join(struct.pack(">hiii", 2, 4, number, 1000) + text.encode() for number, text in rows)
    assert b"".join(blocks) == b"PGCOPY\n\xff\r\n\0" + bytes(8) + row + b"\xff\xff"


@pytest.mark.parametrize("row", [(1,), (1, "a", "b")])
def test_a_row_of_another_width_is_refused(row: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="zip"):
        list(packed_rows(("int4", "text"), [row]))
