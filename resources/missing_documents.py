"""What readers would lose if a new generation were published: documents that fail in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from resources.index_tables import IndexTables
from resources.listing import many_gone
from resources.stage_runner import withheld

if TYPE_CHECKING:
    from resources.catalog import GenerationRow
    from resources.workspace import Workspace

_NAMED = 10


@dataclass(frozen=True, slots=True)
class Missing:
    """Documents of `served` that a new generation does not hold, each as "uri (stage: code)"; `most` where they are
    too many to publish it."""

    names: Sequence[str] = ()
    served: int = 0
    most: bool = False

    def record(self) -> dict[str, Any]:
        return asdict(self)

    def note(self, generation: int) -> str:
        told = ", ".join(self.names[:_NAMED])
        if len(self.names) > _NAMED:
            told += f" and {len(self.names) - _NAMED} more, all in `pincite status --json`"
        lacks = f"{len(self.names)} of {self.served} documents that should be found in it failed: {told}"
        remedy = "raise the limit that they met or mend them, and run `pincite index --retry-failed`"
        if not self.most:
            return f"generation {generation} is published, and {lacks}. To have them again, {remedy}"
        return (
            f"generation {generation} is built but not published: {lacks}. {remedy[0].upper()}{remedy[1:]}; to publish "
            f"it all the same: `pincite generations publish {generation}`"
        )


def missing(workspace: Workspace, live: GenerationRow | None, new: IndexTables) -> Missing:
    """Of the documents that are listed and that the live generation serves, those that the new one lacks; all, where
    none is live and it holds none. One that is withheld is meant to be lacking."""
    failures = {item.doc_id: item for item in workspace.runner.failures()}
    hidden = {doc_id for doc_id, item in failures.items() if withheld(item)}
    listed = {raw.doc_id: raw for raw in workspace.raw_documents() if raw.doc_id not in hidden}
    there = new.content_hashes().keys()
    if live is None and there:
        return Missing()
    known = IndexTables(workspace.database, live).content_hashes() if live else listed
    served = [listed[doc_id] for doc_id in sorted(known.keys() & listed.keys())]
    lacking = sorted((raw for raw in served if raw.doc_id not in there), key=lambda raw: (raw.source, raw.uri))
    before, gone = Counter(raw.source for raw in served), Counter(raw.source for raw in lacking)
    most = any(count == before[source] or many_gone(count, before[source]) for source, count in gone.items())
    names = []
    for raw in lacking:
        failure = failures.get(raw.doc_id)
        names.append(f"{raw.uri} ({failure.stage}: {failure.code})" if failure else raw.uri)
    return Missing(names, len(served), most)
