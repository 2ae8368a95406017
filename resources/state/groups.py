"""Who may find the documents of a state, as far as is known now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipelines.fingerprint import bucket_of
from pipelines.indexing.indexed_documents import document_groups
from resources.state.stage_runner import withheld

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State

_NAMING = ("doc_id", "groups", "source_groups")


def groups_now(state: State, generation: GenerationRow) -> Mapping[str, tuple[str, ...] | None]:
    """doc_id to groups of all listed documents that are not withheld; those that a file gives itself are of its last
    parse, by the settings of the generation or, newer, by the present ones. None where that is lost: it may have
    restricted the document. A record is made only of a document that something restricts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parsed: dict[str, tuple[str, ...]] = {}
    lost, shards = set[int](), generation.settings.get("buckets", state.settings.buckets)
    shards *= generation.settings.get("shards", 1)
    keys = (generation.keys.get("parsed_elements", ""), state.runner.key("parsed_elements"))
    for key in dict.fromkeys(keys):
        for row in state.parts.catalog.manifest_of("parsed_documents", key).values():
            if not state.parts.tables.exists(row.file):
                lost.update([row.bucket] if key == keys[0] else [])
                continue
            read = state.parts.tables.read(row.file, ["doc_id", "groups"])
            if key != keys[0] and parsed:  # what a newer parse does not name any more does not hold
                for doc_id in parsed.keys() & set(read["doc_id"].to_pylist()):
                    del parsed[doc_id]
            named = read.filter(_named(read["groups"]))
            for doc_id, groups in zip(named["doc_id"].to_pylist(), named["groups"].to_pylist(), strict=True):
                parsed[doc_id] = tuple(groups)
    listed = state.listing.read(_NAMING)
    if hidden := hidden_documents(state):
        listed = listed.filter(pc.invert(pc.is_in(listed["doc_id"], pa.array(sorted(hidden), pa.string()))))
    found: dict[str, tuple[str, ...] | None] = dict.fromkeys(listed["doc_id"].to_pylist(), ())
    if lost:
        silent = listed["doc_id"].filter(pc.is_null(listed["groups"])).to_pylist()
        found.update((doc_id, None) for doc_id in silent if bucket_of(doc_id, shards) in lost)
    restricted = pc.or_(_named(listed["groups"]), _named(listed["source_groups"]))
    if parsed:
        restricted = pc.or_(restricted, pc.is_in(listed["doc_id"], pa.array(sorted(parsed), pa.string())))
    wanted = listed["doc_id"].filter(restricted).to_pylist()
    for doc_id, raw in state.listing.documents(wanted).items():
        if found[doc_id] is not None:
            found[doc_id] = document_groups(raw, parsed.get(doc_id))
    return found


def _named(groups: pa.ChunkedArray) -> pa.ChunkedArray:
    """Of each list whether there is anything in it."""
    import pyarrow.compute as pc

    return pc.fill_null(pc.greater(pc.list_value_length(groups), 0), False)


def hidden_documents(state: State) -> set[str]:
    """Documents that are withheld."""
    return {failure.doc_id for failure in state.runner.failures() if withheld(failure)}
