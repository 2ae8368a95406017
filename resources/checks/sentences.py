"""What must hold of the sentence skeleton and of the links between sentences, as they stand in Parquet.

A problem is (code, message), as of resources/checks/audit.py. NEXT, PREVIOUS and PART_OF are columns of a sentence,
so that there are at most three for each; RELATED_TO has its own table and budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from resources.checks.audit import EDGE_BUDGET, RELATED_BUDGET
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
ENDS = ("sentence_id", "chunk_id", "previous_id", "next_id")
_LINKED = ("source_id", "target_id")
_ROUNDING = 1e-9


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


def link_ends(links: pa.Table, sentences: Iterable[pa.Table]) -> pa.Table:
    """Of all sentences, some at a time, those that a link begins or ends at."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = pa.chunked_array([*links["source_id"].chunks, *links["target_id"].chunks], pa.string()).unique()
    return pa.concat_tables([read.filter(pc.is_in(read["sentence_id"], ends)) for read in sentences])


def neighbours(sentences: pa.Table) -> int:
    """How many NEXT and PREVIOUS there are of sentences (columns ENDS)."""
    return sum(sentences.num_rows - sentences[name].null_count for name in ("previous_id", "next_id"))


def related_problems(
    links: pa.Table, sentences: pa.Table, most: int, floor: float, counted: tuple[int, int] | None = None
) -> Problems:
    """Of RELATED_TO and of all sentences (columns ENDS), or of those at its ends, where all and their neighbours were
    `counted`: both ends exist and lie in different chunks, at most
    `most` from a sentence, none weaker than `floor`, none twice, and all within the budgets."""
    import numpy as np
    import pyarrow.compute as pc

    ids, count = sentences["sentence_id"], sentences.num_rows
    ends = [pc.fill_null(pc.index_in(links[name], ids), -1).to_numpy() for name in _LINKED]
    known = (ends[0] >= 0) & (ends[1] >= 0)
    chunks = sentences["chunk_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    chunks = np.concatenate([chunks, [-1]])
    from_each = np.bincount(ends[0][known], minlength=count)
    pairs = ends[0].astype(np.int64) * (count + 1) + ends[1]
    unique = np.zeros(links.num_rows, dtype=bool)
    unique[np.unique(pairs, return_index=True)[1]] = True
    weak = ~(_values(links, "similarity") >= floor - _ROUNDING)
    return [
        *_told("link_without_sentence", "have an end that is no sentence", links, ~known),
        *_told("link_within_chunk", "lie within a chunk", links, known & (chunks[ends[0]] == chunks[ends[1]])),
        *_told("link_twice", "are there twice", links, known & ~unique),
        *_told("weak_link", f"are weaker than {floor}", links, weak),
        *_told("links_of_sentence", f"have more than {most} links", sentences, from_each > most),
        *_over_budget(links.num_rows, *(counted or (count, neighbours(sentences)))),
    ]


def _over_budget(related: int, count: int, neighbours: int) -> Problems:
    edges = related + neighbours + count
    if related <= RELATED_BUDGET * count and edges <= EDGE_BUDGET * count:
        return []
    return [("link_budget", f"{related} links and {edges} edges in all are too many for {count} sentences")]


def _values(table: pa.Table, name: str) -> NDArray[Any]:
    values: NDArray[Any] = table[name].to_numpy()
    return values


def _told(code: str, what: str, rows: pa.Table, wrong: NDArray[np.bool_]) -> Problems:
    """One problem that counts the rows, of sentences or of links, that are wrong, and names the first."""
    if not wrong.any():
        return []
    things, ends = ("links", _LINKED) if _LINKED[0] in rows.column_names else ("sentences", ("sentence_id",))
    first = " -> ".join(f"{rows[name][int(wrong.argmax())]}" for name in ends)
    return [(code, f"{int(wrong.sum())} {things} {what}, such as {first}")]
