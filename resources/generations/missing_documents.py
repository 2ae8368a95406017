"""What readers would lose if a new generation were published: documents that fail in it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pipelines.fingerprint import first_id
from resources.postgres.generation_tables import GenerationTables
from resources.sources.book import many_gone
from resources.state.built import Missing
from resources.state.stage_runner import withheld

if TYPE_CHECKING:
    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State


def missing(state: State, live: GenerationRow | None, new: GenerationTables) -> Missing:
    """Of the documents that are listed and that the live generation serves, those that the new one lacks; all, where
    none is live and it holds none. One that is withheld is meant to be lacking."""
    failures = {item.doc_id: item for item in state.runner.failures()}
    hidden = {doc_id for doc_id, item in failures.items() if withheld(item)}
    if live is None and new.counts()["documents"]:
        return Missing()
    served = GenerationTables(state.parts.database, live) if live else None
    before, lacking, shards = Counter[str](), list[tuple[str, str, str]](), state.settings.shard_count
    listing = state.listing.committed()
    for shard in listing.files:
        listed = listing.read(shard, ("doc_id", "source", "uri"))
        own = first_id(shard, shards), first_id(shard + 1, shards)
        there, known = new.content_hashes(*own).keys(), served.content_hashes(*own).keys() if served else None
        for doc_id, source, uri in zip(*(column.to_pylist() for column in listed.columns), strict=True):
            if doc_id not in hidden and (known is None or doc_id in known):
                before[source] += 1
                lacking += [] if doc_id in there else [(source, uri, doc_id)]
    gone = Counter(source for source, _, _ in lacking)
    most = any(count == before[source] or many_gone(count, before[source]) for source, count in gone.items())
    names = []
    for _, uri, doc_id in sorted(lacking):
        failure = failures.get(doc_id)
        names.append(f"{uri} ({failure.stage}: {failure.code})" if failure else uri)
    return Missing(names, before.total(), most)
