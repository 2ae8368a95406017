"""The history of a chunk, stage by stage back to its document: inputs, reasons, times and costs.

Everything is read from Parquet and Postgres; nothing is computed anew. `problems` names each place where they disagree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import DocumentError, IndexStateError, SourceError
from pipelines.fingerprint import text_hash
from pipelines.groups import part_principals
from pipelines.increments import DocumentState
from pipelines.indexing import indexed_documents
from pipelines.indexing.embeddings import embedded_text
from pipelines.indexing.overlap import CONDITIONAL
from pipelines.ranges import bucket_range
from pipelines.records import DESCRIPTION
from pipelines.stages import STAGE_OF_TABLE, STAGES, Stage, stage_key
from pipelines.tokens import count_tokens
from resources.llm.replies import BOUGHT_TABLES
from resources.parsers.registry import files_of
from resources.postgres.statements import query
from resources.search.passages import Searcher
from resources.sources.files import hash_now
from resources.stages.part_rows import INPUTS
from resources.state.generation import floor_for

if TYPE_CHECKING:
    from datetime import datetime

    from pipelines.records import Chunk, Element, Span
    from resources.postgres.catalog import GenerationRow
    from resources.search.passages import FoundChunk
    from resources.state.state import State


# ---------------------------------------------------------------- lineage


def _leading_to(stage: str) -> set[str]:
    before = {STAGE_OF_TABLE[table].name for table in STAGES[stage].inputs}
    return {stage}.union(*map(_leading_to, before))


WAY = tuple(name for name in STAGES if name in _leading_to("chunk_embeddings"))
"""The stages that lead to a chunk's vector, in order."""
BOUGHT = frozenset(BOUGHT_TABLES)
"""The stages among them for which a language model may write text."""


def _time_text(at: datetime | None) -> str | None:
    """Return a time in ISO 8601."""
    return at.isoformat(timespec="seconds") if at else None


class Chain:
    """One document under the keys of one generation, and its chunk in Postgres."""

    def __init__(self, state: State, generation: GenerationRow, found: FoundChunk, groups: Sequence[str]) -> None:
        live = state.catalog.live()
        self.live = live is not None and live.generation == generation.generation
        self.state, self.generation, self.found = state.of_generation(generation), generation, found
        self.doc_id = found.passage.doc_id
        self.problems: list[tuple[str, str]] = []
        self.held = False
        if failure := self.state.engine.held_documents().get(self.doc_id):
            told = f"{found.passage.uri} failed at {failure.stage} ({failure.code}), and is served as it was before"
            remedy = "correct it or raise the exceeded limit, and run `pincite index --retry-failed`"
            self.problem("held", told, remedy)
            self.held = True
        tables = dict.fromkeys([*(table for name in WAY for table in STAGES[name].tables), *INPUTS])
        self.part = self.state.engine.part_of(self.doc_id, tables)
        self.states = {table: self._state(table) for table in tables}
        self._rows: dict[str, list[Any]] = {}
        self._read_stored(groups)
        chunk_id = found.passage.chunk_id
        self.chunk: Chunk | None = self.of_chunk("chunks", "chunk_id")
        if self.chunk is None:
            self.problem("no_chunk", f"the table chunks has no chunk {chunk_id}")
        elif self.chunk.text != self.stored["text"]:
            self.problem("text", "the text in Postgres is not that of the table chunks")

    def _read_stored(self, groups: Sequence[str]) -> None:
        """Read the stored chunk and its links as the query role, for the asker's groups."""
        from psycopg.rows import dict_row

        asked = {"chunk_id": self.found.passage.chunk_id}
        named = {name: query("explain", name, schema=self.generation.schema) for name in ("stored_chunk", "links_from")}
        with Searcher(self.state).reading(self.generation.generation) as (connection, index):
            index.ask_for(groups)
            cursor = connection.cursor(row_factory=dict_row)
            stored = cursor.execute(named["stored_chunk"], asked).fetchone()
            self.links = cursor.execute(named["links_from"], asked).fetchall()
        if stored is None:
            raise IndexStateError(
                f"chunk {asked['chunk_id']} was replaced while it was read; query again", "unknown_chunk"
            )
        self.stored: Mapping[str, Any] = stored

    @property
    def bucket(self) -> int:
        return self.part.bucket

    def origin(self, table: str) -> tuple[str | None, datetime | None]:
        """Return the file with the rows of a table and the time of their commit, or None if they were never made."""
        return self.part.origin(table, self.doc_id) if self.part.has(table) else (None, None)

    def _state(self, table: str) -> DocumentState | None:
        return self.part.states(table).get(self.doc_id) if self.part.has(table) else None

    def rows(self, table: str) -> list[Any]:
        """Return the document's records of a table, in order; empty if there is no file."""
        if table not in self._rows:
            read = self.part.records(table, {self.doc_id}) if self.part.has(table) else {}
            self._rows[table] = read.get(self.doc_id, [])
        return self._rows[table]

    def one(self, table: str) -> Any:
        return next(iter(self.rows(table)), None)

    def of_chunk(self, table: str, column: str) -> Any:
        """Return the chunk's record in a table, found by the column that holds its id."""
        wanted = self.found.passage.chunk_id
        return next((row for row in self.rows(table) if getattr(row, column) == wanted), None)

    def problem(self, code: str, message: str, remedy: str = "run `pincite index`") -> None:
        """Record a disagreement with its remedy. A document that is held in its previous version is skipped, since it
        always differs from Parquet."""
        if self.held:
            return
        remedy = remedy if self.live else "only the live generation is kept up to date"
        self.problems.append((code, f"{message}; {remedy}"))

    # ------------------------------------------------------------ one stage

    def stage(self, name: str) -> dict[str, Any]:
        """Return the way a stage made the document's rows: the components of its key and of its fingerprint."""
        stage, engine, settings = STAGES[name], self.state.engine, self.state.settings
        table, key = next(iter(stage.tables)), engine.key(name)
        state = self.states[table] or DocumentState("", "")
        if not state.output:
            self.problem("not_made", f"{name} holds no result of {self.found.passage.uri} under the key {key}")
        if stage_key(name, settings, engine.frozen) != key:
            self.problem("key", f"the key of {name} was made by another version of pincite, or with other models, "
                          "than those shown")  # fmt: skip
        return {
            "stage": name,
            "key": key,
            "version": stage.version,
            "settings": stage.shaped_by(settings, engine.frozen),
            "keys_before": {
                before: engine.key(before) for before in (STAGE_OF_TABLE[item].name for item in stage.inputs)
            },
            "inputs": self._inputs(stage, state),
            "fingerprint": state.fingerprint or None,
            "failed_fingerprint": None if state.stands_in else state.failed,
            "stands_in": state.stands_in,
            "tables": [self._table(item) for item in stage.tables],
            "at": state.at or None,
            "run": state.run or None,
            "reason": state.reason or None,
            "committed_at": _time_text(self.origin(table)[1]),
            "cost": self._reply_costs(name, state.run) if name in BOUGHT else self._cost(name, table, state.run),
        }

    def _table(self, table: str) -> dict[str, Any]:
        state = self.states[table]
        return {"table": table, "output": state.output if state else None, "file": self.origin(table)[0]}

    def _inputs(self, stage: Stage, state: DocumentState) -> list[dict[str, Any]]:
        """Return each input with its output at the time of use, from the fingerprint, and its output now."""
        parts = state.fingerprint.split(".")
        known = parts if len(parts) == len(stage.inputs) else [None] * len(stage.inputs)
        found = []
        for table, used in zip(stage.inputs, known, strict=True):
            before = self.states[table]
            now = before.output if before else ""
            if used is not None and not now.startswith(used or "-") and (state.failed is None or state.stands_in):
                self.problem("outdated", f"{stage.name} was made from another version of {table} than stands there")
            found.append({"table": table, "used": used, "now": now or None})
        return found

    def _reply_costs(self, name: str, run: str) -> dict[str, Any] | None:
        """Return the cost of the stage's replies in the run that made the rows: calls, tokens of prompts and replies
        together, cost, currency."""
        spent = self.state.parts.replies.costs_of_run(run) if run else []
        own = [row for row in spent if row["stage"] == name]
        if not own:
            return None
        return {
            "calls": sum(row["calls"] for row in own),
            "tokens": sum(row["prompt_tokens"] + row["completion_tokens"] for row in own),
            "cost": sum(row["cost"] for row in own),
            "currency": own[0]["currency"],
        }

    def _cost(self, name: str, table: str, run: str) -> dict[str, Any] | None:
        """Return the cost of the stage in the run that made the rows, with an estimate of this chunk's share: the mean
        cost of a text in that run, scaled by the length of the chunk's text relative to the run's texts that still
        exist."""
        catalog, key = self.state.catalog, self.state.engine.key(name)
        cost = catalog.costs_of_run(run, name, key, self.generation.generation) if run else None
        if cost is None:
            return None
        chunks, own, tokens = self._tokens_of_run(table, run)
        share = own * chunks / (tokens * cost["items"]) if tokens and cost["items"] else 0.0
        return {**cost, "standing": chunks, "share": round(share, 6), "share_tokens": round(share * cost["tokens"])}

    def _tokens_of_run(self, table: str, run: str) -> tuple[int, int, int]:
        """Return three numbers for the documents whose rows a run made: their chunks, the tokens of this chunk's own
        text, and the tokens of all."""
        import pyarrow as pa
        import pyarrow.compute as pc

        chunks = total = 0
        for part in self.state.engine.parts(dict.fromkeys([table, "chunks"])):
            made = [doc_id for doc_id, state in part.states(table).items() if state.run == run]
            if made:
                read = part.read("chunks", ["doc_id", "tokens"])
                tokens = read["tokens"].filter(pc.is_in(read["doc_id"], pa.array(made, pa.string())))
                chunks += len(tokens)
                total += pc.sum(tokens).as_py() or 0
        return chunks, self.chunk.tokens if self.chunk else 0, total


# ---------------------------------------------------------------- explain


FIRST_WORDS, FIRST_VALUES = 8, 4


def explain(state: State, found: FoundChunk, groups: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON of `explain`. `groups` are the asker's, and decide which linked sentences are named.

    Raises IndexStateError if the generation or the chunk was removed in the meantime, SettingsError if this version
    does not know the generation's settings, DatabaseError.
    """
    generation = state.catalog.generation(found.generation)
    if generation is None:
        raise IndexStateError(
            f"generation {found.generation} was removed in the meantime; query again", "no_generation"
        )
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
        "parquet": state.parts.tables.place_text,
        "stages": [*stages, _indexed_facts(chain)],
        "problems": [{"code": code, "message": message} for code, message in chain.problems],
    }


# ---------------------------------------------------------------- facts of each stage


def _overlaps(item: Any, spans: Sequence[Span]) -> bool:
    return any(item.start < span.end and span.start < item.end for span in spans)


def _elements(chain: Chain, chunk: Chunk) -> dict[str, Any]:
    """Return the elements of the chunk's own text, with the boxes of the text."""
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
    """Return the records of the figures whose descriptions are text of the chunk."""
    shown = {item.element for item in _own_units(chain, chunk) if item.block_type == DESCRIPTION}
    rows = [item for item in chain.rows("figure_descriptions") if item.element in shown]
    return {"figures": [{"element": item.element, **_generated_facts(item)} for item in rows]}


def _packed_facts(chain: Chain, chunk: Chunk) -> dict[str, Any]:
    return {
        "tokens": chunk.tokens,
        "section_id": chunk.section_id,
        "header_chain": list(chunk.header_chain),
        "spans": [[span.start, span.end] for span in chunk.spans],
    }


def _overlap(chain: Chain, chunk: Chunk) -> dict[str, Any]:
    """Return the facts about the overlap. `floor` is the least cosine with the chunk before, or None if no cosine
    decides."""
    parsed, chunking = chain.one("parsed_documents"), chain.state.settings.chunking
    conditional = chunking.strategy == CONDITIONAL and chunking.overlap_tokens and parsed
    before = next((item.chunk_id for item in chain.rows("chunks") if item.index == chunk.index - 1), None)
    return {
        "chunk_before": before,
        "language": parsed.language if parsed else None,
        "floor": floor_for(chain.state.engine.frozen, parsed.language) if conditional else None,
        "overlap_tokens": count_tokens(chunk.overlap),
    }


def _sentences(chain: Chain, chunk: Chunk) -> dict[str, Any]:
    return {
        "sentences": sum(item.chunk_id == chunk.chunk_id for item in chain.rows("sentences")),
        "links": [dict(link) for link in chain.links],
    }


def _summary(chain: Chain, chunk: Chunk) -> dict[str, Any]:
    return _generated_facts(chain.one("document_summaries"))


def _context(chain: Chain, chunk: Chunk) -> dict[str, Any]:
    return _generated_facts(chain.of_chunk("chunk_contexts", "chunk_id"))


def _generated_facts(made: Any) -> dict[str, Any]:
    names = ("text", "method", "model", "reply", "note")
    return {name: getattr(made, name) for name in names} if made else {}


def _vector(chain: Chain, chunk: Chunk) -> dict[str, Any]:
    """Return the text to embed, rebuilt now, and the stored vector's text key for comparison."""
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
    "packed_chunks": _packed_facts,
    "chunks": _overlap,
    "sentences": _sentences,
    "document_summaries": _summary,
    "chunk_contexts": _context,
    "chunk_embeddings": _vector,
}


# ---------------------------------------------------------------- document and generation


def _facts(chain: Chain) -> indexed_documents.DocumentFacts | None:
    raw, parsed = chain.one("raw_documents"), chain.one("parsed_documents")
    return indexed_documents.document_facts(raw, parsed) if raw and parsed else None


def _document(chain: Chain) -> dict[str, Any]:
    found, raw, facts = chain.found, chain.one("raw_documents"), _facts(chain)
    groups, principals = part_principals(facts.groups if facts else ())
    media_type, parsed = (raw.media_type if raw else ""), chain.one("parsed_documents")
    path = _path(chain.state, found)
    keys = [chain.state.engine.key(name) for name in STAGES]
    failures = [item for item in chain.state.catalog.failures(keys) if item.doc_id == chain.doc_id]
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
    """Return `current`, `changed` since it was indexed, `missing`, or `unreadable`; for a store only `current` or
    `missing`."""
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
        "published_at": _time_text(row.published_at),
        "statistics": {name: row.statistics.get(name) for name in ("chunks", "average_terms", "languages")},
    }


def _indexed_facts(chain: Chain) -> dict[str, Any]:
    """Return the facts of the rows in Postgres, with their stored hash and the hash computed from Parquet."""
    commits = chain.state.catalog.index_commits("indexed_documents", chain.generation.schema)
    committed = commits.get(bucket_range(chain.bucket, chain.state.settings.buckets)[0])
    outputs = {table: state.output for table in INPUTS[1:] if (state := chain.states[table])}
    raw, parsed, facts = chain.one("raw_documents"), chain.states["parsed_documents"], _facts(chain)
    wanted = None
    if raw and parsed and facts:
        stale = parsed.failed is not None
        wanted = indexed_documents.row_hash(facts, raw.uri, raw.content_hash, stale, list(outputs.values()))
    if chain.stored["row_hash"] and wanted != chain.stored["row_hash"]:  # regrouping or holding empties it
        chain.problem("rows", "the document's rows in Postgres are not those that Parquet says they should be")
    return {
        "stage": "indexed_documents",
        "key": chain.generation.schema,
        "version": indexed_documents.VERSION,
        "settings": {},
        "keys_before": {
            STAGE_OF_TABLE[table].name: chain.state.engine.key(STAGE_OF_TABLE[table].name) for table in INPUTS
        },
        "inputs": [{"table": table, "used": None, "now": output} for table, output in outputs.items()],
        "fingerprint": wanted,
        "failed_fingerprint": None,
        "stands_in": False,
        "tables": [{"table": f"{chain.generation.schema}.chunks", "output": chain.stored["row_hash"], "file": None}],
        "at": None,
        "run": committed.run_id if committed else None,
        "reason": None,
        "committed_at": _time_text(committed.committed_at if committed else None),
        "cost": None,
        "number": chain.stored["number"],
        "terms": chain.stored["terms"],
    }
