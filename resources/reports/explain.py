"""A chunk back to its document, stage by stage: what each result was made from, when, why, at what cost.

Everything is read from what stands in Parquet and Postgres; nothing is made. Where two of them do not
agree, `problems` says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import DocumentError, IndexStateError, SourceError
from pipelines.fingerprint import text_hash
from pipelines.groups import parted
from pipelines.indexing import indexed_documents
from pipelines.indexing.embeddings import embedded_text
from pipelines.indexing.overlap import CONDITIONAL
from pipelines.records import DESCRIPTION
from pipelines.stages import MAKER, STAGES
from pipelines.tokens import count_tokens
from resources.parsers.registry import files_of
from resources.reports.lineage import WAY, Chain, committed_at
from resources.sources.files import hash_now
from resources.stages.shard_rows import INPUTS
from resources.state.generation import floor_for

if TYPE_CHECKING:
    from pipelines.records import Chunk, Element, Span
    from resources.search.passages import FoundChunk
    from resources.state.state import State

FIRST_WORDS, FIRST_VALUES = 8, 4


def explain(state: State, found: FoundChunk, groups: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON of `explain`; `groups` are the asker's, and decide which linked sentences are named.

    Raises IndexStateError where the generation or the chunk is gone meanwhile, SettingsError where
    this version does not know the generation's settings, DatabaseError."""
    generation = state.parts.catalog.generation(found.generation)
    if generation is None:
        raise IndexStateError(f"there is no generation {found.generation} any more", "no_generation")
    chain = Chain(state, generation, found, groups)
    stages = []
    for name in WAY:
        about = _ABOUT[name](chain, chain.chunk) if chain.chunk and name in _ABOUT else {}
        stages.append({**chain.stage(name), **about})
    return {
        "chunk_id": found.passage.chunk_id,
        "page_start": found.passage.page_start,
        "page_end": found.passage.page_end,
        "document": _document(chain),
        "generation": _generation(chain),
        "parquet": state.parts.tables.shown,
        "stages": [*stages, _indexed(chain)],
        "problems": [{"code": code, "message": message} for code, message in chain.problems],
    }


# ---------------------------------------------------------------- what stands at each stage


def _overlaps(item: Any, spans: Sequence[Span]) -> bool:
    return any(item.start < span.end and span.start < item.end for span in spans)


def _elements(chain: Chain, chunk: Chunk) -> dict[str, Any]:
    """The elements that the chunk's own text lies on, with the boxes that it lies in."""
    figures = {item.element for item in _own_units(chain, chunk) if item.block_type == DESCRIPTION}
    rows: list[Element] = chain.rows("parsed_elements")
    found = [item for item in rows if item.index in figures or _overlaps(item, chunk.spans)]
    return {
        "elements": [
            {
                "index": item.index,
                "kind": item.kind,
                "page_start": item.page_start,
                "page_end": item.page_end,
                "words": " ".join(item.text.split()[:FIRST_WORDS]),
                "boxes": [
                    asdict(place.box)
                    for place in item.places
                    if place.box and (item.index in figures or _overlaps(place, chunk.spans))
                ],
            }
            for item in found
        ]
    }


def _own_units(chain: Chain, chunk: Chunk) -> list[Any]:
    return [item for item in chain.rows("structural_chunks") if item.index in chunk.units]


def _units(chain: Chain, chunk: Chunk) -> dict[str, Any]:
    units = _own_units(chain, chunk)
    return {"units": len(units), "block_types": dict(Counter(item.block_type for item in units))}


def _figures(chain: Chain, chunk: Chunk) -> dict[str, Any]:
    """What was said of the figures whose descriptions are text of the chunk."""
    shown = {item.element for item in _own_units(chain, chunk) if item.block_type == DESCRIPTION}
    rows = [item for item in chain.rows("figure_descriptions") if item.element in shown]
    return {"figures": [{"element": item.element, **_generated(item)} for item in rows]}


def _packed(chain: Chain, chunk: Chunk) -> dict[str, Any]:
    return {
        "tokens": chunk.tokens,
        "section_id": chunk.section_id,
        "header_chain": list(chunk.header_chain),
        "spans": [[span.start, span.end] for span in chunk.spans],
    }


def _overlap(chain: Chain, chunk: Chunk) -> dict[str, Any]:
    """`floor` is what the cosine with the chunk before had to reach, None where no cosine decides."""
    parsed, chunking = chain.one("parsed_documents"), chain.state.settings.chunking
    conditional = chunking.strategy == CONDITIONAL and chunking.overlap_tokens and parsed
    before = next((item.chunk_id for item in chain.rows("chunks") if item.index == chunk.index - 1), None)
    return {
        "chunk_before": before,
        "language": parsed.language if parsed else None,
        "floor": floor_for(chain.state.runner.frozen, parsed.language) if conditional else None,
        "overlap_tokens": count_tokens(chunk.overlap),
    }


def _sentences(chain: Chain, chunk: Chunk) -> dict[str, Any]:
    return {
        "sentences": sum(item.chunk_id == chunk.chunk_id for item in chain.rows("sentences")),
        "links": [dict(link) for link in chain.links],
    }


def _summary(chain: Chain, chunk: Chunk) -> dict[str, Any]:
    return _generated(chain.one("document_summaries"))


def _context(chain: Chain, chunk: Chunk) -> dict[str, Any]:
    return _generated(chain.of_chunk("chunk_contexts", "chunk_id"))


def _generated(made: Any) -> dict[str, Any]:
    names = ("text", "method", "model", "reply", "note")
    return {name: getattr(made, name) for name in names} if made else {}


def _vector(chain: Chain, chunk: Chunk) -> dict[str, Any]:
    """The text to embed as it is rebuilt now, beside the vector that stands for it."""
    import numpy as np

    texts = [(part(chain, chunk) or {"text": ""})["text"] for part in (_summary, _context)]
    text, embedder = embedded_text(chunk, *texts), chain.generation.embedder
    made = chain.of_chunk("chunk_embeddings", "item_id")
    about = {
        "embedded_text": text,
        "text_hash": text_hash(text),
        "recorded_text_hash": made.text_hash if made else None,
        "embedder": {name: embedder[name] for name in ("kind", "name", "identity", "passage_prefix")},
    }
    if made is None:
        chain.problem("no_vector", "chunk_embeddings has no vector of the chunk")
        return about
    state = chain.states["chunk_embeddings"]
    if made.text_hash != about["text_hash"] and state and state.stands_in:
        told = "the model gave no vector of the chunk's text; the vector is of its beginning, or its headings"
        chain.problem("refused_text", told, "run `pincite index --retry-failed` when the model takes it")
    elif made.text_hash != about["text_hash"]:
        chain.problem("text_hash", "the vector is of another text than the chunk's embedded text as rebuilt now")
    vector = np.asarray(made.vector, np.float32)
    same = np.array_equal(vector, np.asarray(chain.stored["vector"], np.float32))
    if not same:
        chain.problem("vector", "the vector in Postgres is not that of chunk_embeddings")
    return {
        **about,
        "dimension": len(vector),
        "norm": round(float(np.linalg.norm(vector)), 6),
        "first_values": [round(float(value), 6) for value in vector[:FIRST_VALUES]],
        "same_in_postgres": same,
    }


_ABOUT: Mapping[str, Callable[[Chain, Chunk], dict[str, Any]]] = {
    "parsed_elements": _elements,
    "figure_descriptions": _figures,
    "structural_chunks": _units,
    "packed_chunks": _packed,
    "chunks": _overlap,
    "sentences": _sentences,
    "document_summaries": _summary,
    "chunk_contexts": _context,
    "chunk_embeddings": _vector,
}


# ---------------------------------------------------------------- the two ends


def _facts(chain: Chain) -> indexed_documents.DocumentFacts | None:
    raw, parsed = chain.one("raw_documents"), chain.one("parsed_documents")
    return indexed_documents.document_facts(raw, parsed) if raw and parsed else None


def _document(chain: Chain) -> dict[str, Any]:
    found, raw, facts = chain.found, chain.one("raw_documents"), _facts(chain)
    groups, principals = parted(facts.groups if facts else ())
    media_type, parsed = (raw.media_type if raw else ""), chain.one("parsed_documents")
    path = _path(chain.state, found)
    keys = [chain.state.runner.key(name) for name in STAGES]
    failures = [item for item in chain.state.parts.catalog.failures(keys) if item.doc_id == chain.doc_id]
    return {
        "doc_id": chain.doc_id,
        "source": found.passage.source,
        "uri": found.passage.uri,
        "title": found.passage.title,
        "path": str(path) if path else None,
        "file": _file_now(chain.state, found, media_type),
        "content_hash": found.content_hash,
        "size": raw.size if raw else None,
        "media_type": media_type or None,
        "pages": parsed.pages if parsed else None,
        "language": parsed.language if parsed else None,
        "effective_date": str(facts.effective_date) if facts and facts.effective_date else None,
        "version": facts.version if facts else None,
        "groups": groups if facts else None,
        "principals": principals if facts else None,
        "bucket": chain.bucket,
        "stale": found.stale,
        "failures": [{"stage": item.stage, "code": item.code, "message": item.message} for item in failures],
    }


def _path(state: State, found: FoundChunk) -> Path | None:
    try:
        return state.parts.sources.root(found.passage.source) / found.passage.uri
    except SourceError:
        return None


def _file_now(state: State, found: FoundChunk, media_type: str) -> str:
    """`current`, `changed` since it was indexed, `missing`, or `unreadable`; in a store it is there or not."""
    if stored := state.parts.sources.stored:
        return "current" if stored.holds(found.content_hash) else "missing"
    uris = [str(file) for file in files_of(Path(found.passage.uri), media_type)]
    try:
        same = hash_now(state.parts.sources.root(found.passage.source), uris) == found.content_hash
        return "current" if same else "changed"
    except (FileNotFoundError, SourceError):
        return "missing"
    except DocumentError:
        return "changed"
    except OSError:
        return "unreadable"


def _generation(chain: Chain) -> dict[str, Any]:
    row = chain.generation
    return {
        "generation": row.generation,
        "key": row.key,
        "live": chain.live,
        "embedder": row.embedder["name"],
        "dimension": row.dimension,
        "created_at": row.created_at.isoformat(timespec="seconds"),
        "published_at": row.published_at.isoformat(timespec="seconds") if row.published_at else None,
        "statistics": {name: row.statistics.get(name) for name in ("chunks", "average_terms", "languages")},
    }


def _indexed(chain: Chain) -> dict[str, Any]:
    """The rows in Postgres: their hash as it stands there, and as Parquet says it should be."""
    committed = chain.state.parts.catalog.manifest_of("indexed_documents", chain.generation.schema).get(chain.bucket)
    outputs = {table: state.output for table in INPUTS[1:] if (state := chain.states[table])}
    raw, parsed, facts = chain.one("raw_documents"), chain.states["parsed_documents"], _facts(chain)
    wanted = None
    if raw and parsed and facts:
        stale = parsed.failed is not None
        wanted = indexed_documents.row_hash(facts, raw.uri, raw.content_hash, stale, list(outputs.values()))
    if chain.stored["row_hash"] and wanted != chain.stored["row_hash"]:  # a run that gives others groups leaves none
        chain.problem("rows", "the document's rows in Postgres are not those that Parquet says they should be")
    return {
        "stage": "indexed_documents",
        "key": chain.generation.schema,
        "version": indexed_documents.VERSION,
        "settings": {},
        "keys_before": {MAKER[table].name: chain.state.runner.key(MAKER[table].name) for table in INPUTS},
        "inputs": [{"table": table, "used": None, "now": output} for table, output in outputs.items()],
        "fingerprint": wanted,
        "failed_fingerprint": None,
        "stands_in": False,
        "tables": [{"table": f"{chain.generation.schema}.chunks", "output": chain.stored["row_hash"], "file": None}],
        "at": None,
        "run": committed.run_id if committed else None,
        "reason": None,
        "committed_at": committed_at(committed),
        "cost": None,
        "number": chain.stored["number"],
        "terms": chain.stored["terms"],
    }
