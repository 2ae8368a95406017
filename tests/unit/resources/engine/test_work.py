"""How large a document's rows are taken to be."""

from __future__ import annotations

import pyarrow as pa

from resources.engine.work import row_sizes


def test_all_that_is_in_a_row_counts() -> None:
    mapped = pa.map_(pa.string(), pa.string())
    struct = pa.struct([("words", pa.list_(pa.string())), ("number", pa.int64())])
    rows = pa.table(
        {
            "text": pa.array(["é" * 50, None, ""]),
            "map": pa.array([[("k", "v" * 300)], [], None], mapped),
            "list": pa.array([[], ["w" * 1000, "x" * 1000], None]),
            "structs": pa.array([None, [{"words": ["y" * 5000], "number": 1}], []], pa.list_(struct)),
        }
    )
    first, second, third = row_sizes(rows).tolist()
    assert 400 < first < 500 and 7000 < second < 7200 and third < 50
    assert row_sizes(rows.slice(1, 1)).tolist() == [second]
    assert row_sizes(pa.concat_tables([rows, rows])).tolist() == [first, second, third] * 2
    assert row_sizes(rows.slice(0, 0)).tolist() == []
