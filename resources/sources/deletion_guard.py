"""The guard against mass deletion: a listing that lacks most of a source may be of a folder that is not mounted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pipelines.errors import SourceError
from resources.sources.scratch import Scratch

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.sources.book import Listed

GUARD_SHARE = 0.2
GUARD_DOCUMENTS = 10
Before = Callable[[int], "pa.Table"]
"""Of a shard the documents that were listed last, with the columns NAMED of listed_documents at least."""


def many_gone(count: int, known: int) -> bool:
    """Whether so many of the documents of a source do not go by chance."""
    return count > GUARD_DOCUMENTS and count > GUARD_SHARE * known


def guard(listed: Listed, before: Before, shards: int, said: Callable[[str], str]) -> None:
    """Refuses a listing that would delete most of a source: it may be unmounted, not emptied. A document whose
    content is listed at a place where none was before is not gone, but moved. `said` is where people know a source to
    be.

    Raises SourceError with code deletion_guard."""
    # That no file of memberships is there is no sign of a folder that is mounted.
    failures = [item for item in listed.failures if item.code != "memberships"]
    there = {*listed.documents.sources(), *(item.source for item in failures)}
    known, notes = Counter[str](), Scratch("gone", "fresh")
    for old, now in _by_shard(listed, before, shards):
        known.update(old["source"].to_pylist())
        lacking = _without(_without(old, now["doc_id"].to_pylist()), [item.doc_id for item in failures])
        notes.write("add_gone", zip(*(lacking[name].to_pylist() for name in ("source", "content_hash")), strict=True))
    if not notes.run("gone_by_source"):
        return
    for old, now in _by_shard(listed, before, shards):
        fresh = _without(now, old["doc_id"].to_pylist())
        notes.write("add_fresh", ((content,) for content in fresh["content_hash"].to_pylist()))
    for source, count in notes.run("gone_by_source"):
        if source not in there or many_gone(count, known[source]):
            raise SourceError(
                f"source {source!r}: {count} of {known[source]} documents are gone from {said(source)}; "
                "nothing was changed. If they were meant to go, run again with --allow-deletions",
                "deletion_guard",
            )


def _by_shard(listed: Listed, before: Before, shards: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    """What was listed of these sources, and what is now."""
    import pyarrow as pa
    import pyarrow.compute as pc

    sources = pa.array(listed.sources, pa.string())
    for shard in range(shards):
        old = before(shard)
        yield old.filter(pc.is_in(old["source"], sources)), listed.documents.names(shard, shards)


def _without(rows: pa.Table, doc_ids: list[str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    return rows.filter(pc.invert(pc.is_in(rows["doc_id"], pa.array(doc_ids, pa.string()))))
