"""One document under the keys of one generation: the rows, states and keys of every stage that leads to
a vector, and whether they agree. Reads only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError
from pipelines.increments import DocumentState
from pipelines.stages import MAKER, STAGES, Stage, stage_key
from resources.llm.replies import BOUGHT_TABLES
from resources.postgres.statements import query
from resources.search.passages import Searcher
from resources.stages.shard_rows import INPUTS
from resources.state.stage_work import rows_by_document

if TYPE_CHECKING:
    from pipelines.records import Chunk
    from resources.postgres.catalog import GenerationRow, ManifestRow
    from resources.search.passages import FoundChunk
    from resources.state.state import State


def _leading_to(stage: str) -> set[str]:
    before = {MAKER[table].name for table in STAGES[stage].inputs}
    return {stage}.union(*map(_leading_to, before))


WAY = tuple(name for name in STAGES if name in _leading_to("chunk_embeddings"))
"""The stages that a chunk's vector comes through, in order."""
BOUGHT = frozenset(BOUGHT_TABLES)
"""Of them, those whose text a language model may write."""


def committed_at(row: ManifestRow | None) -> str | None:
    """When a shard's file was committed, ISO 8601."""
    return row.committed_at.isoformat(timespec="seconds") if row and row.committed_at else None


class Chain:
    """One document under the keys of one generation, and its chunk as Postgres serves it."""

    def __init__(self, state: State, generation: GenerationRow, found: FoundChunk, groups: Sequence[str]) -> None:
        live = state.parts.catalog.live()
        self.live = live is not None and live.generation == generation.generation
        self.state, self.generation, self.found = state.of(generation), generation, found
        self.doc_id = found.passage.doc_id
        self.shard = self.state.runner.shard_of(self.doc_id)
        self.problems: list[tuple[str, str]] = []
        self.held = False
        if failure := self.state.runner.held().get(self.doc_id):
            told = f"{found.passage.uri} failed at {failure.stage} ({failure.code}), and is served as it was before"
            remedy = "mend it or raise the limit that it met, and run `pincite index --retry-failed`"
            self.problem("held", told, remedy)
            self.held = True
        tables = dict.fromkeys([*(table for name in WAY for table in STAGES[name].tables), *INPUTS])
        self.manifests = {table: self.state.runner.manifest(table) for table in tables}
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
        """As the query role reads them for the asker's groups."""
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
                f"chunk {asked['chunk_id']} was replaced while it was looked at; query again", "unknown_chunk"
            )
        self.stored: Mapping[str, Any] = stored

    @property
    def bucket(self) -> int:
        return self.state.settings.buckets_of([self.shard])[0]

    def row(self, table: str) -> ManifestRow | None:
        return self.manifests[table].get(self.shard)

    def _state(self, table: str) -> DocumentState | None:
        row = self.row(table)
        return self.state.parts.tables.documents(row.file).get(self.doc_id) if row else None

    def rows(self, table: str) -> list[Any]:
        """The document's records of a table, in order; none where there is no file."""
        row = self.row(table)
        if table not in self._rows:
            wanted = {self.doc_id}
            read = rows_by_document(self.state.parts.tables, row.file, table, wanted) if row else {}
            self._rows[table] = read.get(self.doc_id, [])
        return self._rows[table]

    def one(self, table: str) -> Any:
        return next(iter(self.rows(table)), None)

    def of_chunk(self, table: str, column: str) -> Any:
        """The record of a table that is the chunk's, by the column that holds its id."""
        wanted = self.found.passage.chunk_id
        return next((row for row in self.rows(table) if getattr(row, column) == wanted), None)

    def problem(self, code: str, message: str, remedy: str = "run `pincite index`") -> None:
        """Notes a disagreement, with what is to be done about it. Of a document that is held in the version before,
        Parquet is to disagree."""
        if self.held:
            return
        remedy = remedy if self.live else "only the live generation is kept up to date"
        self.problems.append((code, f"{message}; {remedy}"))

    # ------------------------------------------------------------ one stage

    def stage(self, name: str) -> dict[str, Any]:
        """What made the document's rows of a stage: the components of its key and of its fingerprint."""
        stage, runner, settings = STAGES[name], self.state.runner, self.state.settings
        table, key = next(iter(stage.tables)), runner.key(name)
        state, row = self.states[table] or DocumentState("", ""), self.row(table)
        if not state.output:
            self.problem("not_made", f"{name} holds no result of {self.found.passage.uri} under the key {key}")
        if stage_key(name, settings, runner.frozen) != key:
            self.problem("key", f"the key of {name} was made by another version of pincite, or with other models, "
                          "than those shown")  # fmt: skip
        return {
            "stage": name,
            "key": key,
            "version": stage.version,
            "settings": {
                "buckets": settings.buckets,
                "shards": settings.shards,
                **stage.shaped_by(settings, runner.frozen),
            },
            "keys_before": {before: runner.key(before) for before in (MAKER[item].name for item in stage.inputs)},
            "inputs": self._inputs(stage, state),
            "fingerprint": state.fingerprint or None,
            "failed_fingerprint": None if state.stands_in else state.failed,
            "stands_in": state.stands_in,
            "tables": [self._table(item) for item in stage.tables],
            "at": state.at or None,
            "run": state.run or None,
            "reason": state.reason or None,
            "committed_at": committed_at(row),
            "cost": self._bought(name, state.run) if name in BOUGHT else self._cost(name, table, state.run),
        }

    def _table(self, table: str) -> dict[str, Any]:
        row, state = self.row(table), self.states[table]
        return {"table": table, "output": state.output if state else None, "file": row.file if row else None}

    def _inputs(self, stage: Stage, state: DocumentState) -> list[dict[str, Any]]:
        """Each input with its output when it was used, as the fingerprint holds it, and now."""
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

    def _bought(self, name: str, run: str) -> dict[str, Any] | None:
        """What the run that made the rows paid for replies of the stage: calls, tokens of prompts and
        of replies together, cost, currency."""
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
        """What the run that made the rows spent on the stage. This chunk's share is estimated: the mean
        text of the run, by how its own text compares with those of the run that still stand."""
        catalog, key = self.state.parts.catalog, self.state.runner.key(name)
        cost = catalog.costs_of_run(run, name, key, self.generation.generation) if run else None
        if cost is None:
            return None
        chunks, own, tokens = self._tokens_of_run(table, run)
        share = own * chunks / (tokens * cost["items"]) if tokens and cost["items"] else 0.0
        return {**cost, "standing": chunks, "share": round(share, 6), "share_tokens": round(share * cost["tokens"])}

    def _tokens_of_run(self, table: str, run: str) -> tuple[int, int, int]:
        """Of the documents whose rows a run made: chunks, tokens of this one's own text, of all."""
        import pyarrow as pa
        import pyarrow.compute as pc

        tables, chunks, total = self.state.parts.tables, 0, 0
        for shard, row in self.manifests[table].items():
            made = [doc_id for doc_id, state in tables.documents(row.file).items() if state.run == run]
            if made and shard in self.manifests["chunks"]:
                read = tables.read(self.manifests["chunks"][shard].file, ["doc_id", "tokens"])
                tokens = read["tokens"].filter(pc.is_in(read["doc_id"], pa.array(made, pa.string())))
                chunks += len(tokens)
                total += pc.sum(tokens).as_py() or 0
        return chunks, self.chunk.tokens if self.chunk else 0, total
