"""What must hold of the sentence skeleton, as it stands in Parquet.

A problem is (code, message), as of resources/checks/audit.py. NEXT, PREVIOUS and PART_OF are columns of a sentence,
so that there are at most three for each; RELATED_TO has its own table and checks (links.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from resources.state.built import Problems

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

SENTENCES = (
    "doc_id", "index", "sentence_id", "text", "chunk_id", "start", "length", "paragraph_start", "paragraph_length",
    "previous_id", "next_id",
)  # fmt: skip
CHUNKS = ("doc_id", "index", "chunk_id", "text")


def skeleton_problems(sentences: pa.Table, chunks: pa.Table) -> Problems:
    """Of the sentences (columns SENTENCES) and chunks (columns CHUNKS) of the same documents: exactly one NEXT and
    one PREVIOUS except at a document's ends, in reading order; each in a chunk of its document, with the text
    that stands at its place there."""
    return [*_chain_problems(sentences), *_place_problems(sentences, chunks)]


def _chain_problems(sentences: pa.Table) -> Iterator[tuple[str, str]]:
    import numpy as np

    documents, ids, index = (_values(sentences, name) for name in ("doc_id", "sentence_id", "index"))
    if not len(ids):
        return
    together = documents[1:] == documents[:-1]
    begins = np.flatnonzero(np.concatenate([[True], ~together]))
    numbers = np.arange(len(ids)) - np.repeat(begins, np.diff(begins, append=len(ids)))
    yield from _told("sentence_order", "are not numbered in reading order", sentences, index != numbers)
    first = np.zeros(len(ids), dtype=bool)
    first[np.unique(ids.astype(str), return_index=True)[1]] = True
    yield from _told("repeated_sentence", "have the id of another", sentences, ~first)
    after, before = (np.full(len(ids), None, dtype=object) for _ in range(2))
    after[:-1][together], before[1:][together] = ids[1:][together], ids[:-1][together]
    wrong = _values(sentences, "next_id") != after
    yield from _told("sentence_next", "do not have the one after them, and no other, as NEXT", sentences, wrong)
    wrong = _values(sentences, "previous_id") != before
    yield from _told("sentence_next", "do not have the one before them, and no other, as PREVIOUS", sentences, wrong)


def _place_problems(sentences: pa.Table, chunks: pa.Table) -> Iterator[tuple[str, str]]:
    import numpy as np

    held = {row[2]: row for row in zip(*(chunks[name].to_pylist() for name in CHUNKS), strict=True)}
    orphans, others, outside, unordered = (np.zeros(sentences.num_rows, dtype=bool) for _ in range(4))
    last: tuple[str, int, int] = ("", 0, 0)
    columns = [sentences[name].to_pylist() for name in SENTENCES]
    for row, (doc_id, _, _, text, chunk_id, start, length, first, size, _, _) in enumerate(zip(*columns, strict=True)):
        owner, number, _, whole = held.get(chunk_id, (None, 0, "", ""))
        orphans[row] = owner != doc_id
        others[row] = not orphans[row] and whole[start : start + length] != text
        outside[row] = not first <= start <= start + length <= first + size <= max(len(whole), first)
        unordered[row] = last[0] == doc_id and (number, start) < last[1:]
        last = doc_id, number, start + length
    yield from _told("orphan_sentence", "lie in no chunk of their document", sentences, orphans)
    yield from _told("sentence_text", "differ from the text at their place in their chunk", sentences, others)
    yield from _told("sentence_paragraph", "lie outside their paragraph", sentences, outside & ~orphans)
    yield from _told("sentence_order", "begin before the one before them ends", sentences, unordered & ~orphans)


def _values(table: pa.Table, name: str) -> NDArray[Any]:
    values: NDArray[Any] = table[name].to_numpy()
    return values


def _told(code: str, what: str, sentences: pa.Table, wrong: NDArray[np.bool_]) -> Problems:
    """One problem that counts the sentences that are wrong, and names the first."""
    if not wrong.any():
        return []
    return [(code, f"{int(wrong.sum())} sentences {what}, such as {sentences['sentence_id'][int(wrong.argmax())]}")]
