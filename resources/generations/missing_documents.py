"""What readers would lose if a new generation were published: documents that fail in it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

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
    listed = {raw.doc_id: raw for raw in state.listing.raw_documents() if raw.doc_id not in hidden}
    there = new.content_hashes().keys()
    if live is None and there:
        return Missing()
    known = GenerationTables(state.parts.database, live).content_hashes() if live else listed
    served = [listed[doc_id] for doc_id in sorted(known.keys() & listed.keys())]
    lacking = sorted((raw for raw in served if raw.doc_id not in there), key=lambda raw: (raw.source, raw.uri))
    before, gone = Counter(raw.source for raw in served), Counter(raw.source for raw in lacking)
    most = any(count == before[source] or many_gone(count, before[source]) for source, count in gone.items())
    names = []
    for raw in lacking:
        failure = failures.get(raw.doc_id)
        names.append(f"{raw.uri} ({failure.stage}: {failure.code})" if failure else raw.uri)
    return Missing(names, len(served), most)
