"""The texts that still need a vector under the present settings: their keys, and their export as Parquet.

A key takes sixteen bytes, whatever the size of the corpus. Texts are read part by part.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import IndexStateError, SettingsError
from pipelines.indexing.changed_links import places_in
from pipelines.indexing.embeddings import CONTRACT, FOOTER, RowKey
from pipelines.stages import STAGES
from resources.engine import Work
from resources.engine.vectors import Keys, KnownVectors, digits_of, keys_from
from resources.exchange.locations import TextFolder
from resources.models.embedders.specs import PRESETS
from resources.stages.embedded_items import POOLED, SENTENCE_FORMS, FromModel
from resources.stages.embedded_items import STAGES as OF_VECTORS
from resources.state.generation import spec_of

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.ports import CountingEmbedder
    from resources.state.state import State


# ---------------------------------------------------------------- missing texts


_READ = ("chunks", "document_summaries", "chunk_contexts", "sentences")


def sources_of(form: str) -> list[tuple[str, FromModel]]:
    """Return the stages and tables with vectors from the model, by the form of sentences. Raise SettingsError."""
    if form in POOLED:
        others = ", ".join(sorted(SENTENCE_FORMS.keys() - POOLED.keys()))
        raise SettingsError(
            f"sentences.embedded is {form}: vectors of sentences come from the same model pass as those of chunks, so"
            f" imported vectors would save no work; set sentences.embedded to one of {others}"
        )
    return [(stage, each) for stage, of in OF_VECTORS.items() for each in of(form) if isinstance(each, FromModel)]


def works(state: State, only: Collection[str] | None = None) -> Iterator[Work]:
    """Yield the documents of each part whose vectors are not up to date; if `only` is given, just these documents.

    Raise IndexStateError (`missing_input`)."""
    for part in state.engine.due_parts(OF_VECTORS, _READ, only):
        if missing := [table for table in _READ if not part.has(table)]:
            raise IndexStateError(
                f"{part.name} of {missing[0]} has not been made with these settings, so the texts to embed "
                "are unknown; run `pincite export-texts FOLDER`",
                "missing_input",
            )
        states = [part.finished_documents(table) for table in _READ]
        whole = [doc_id for doc_id in states[0] if all(doc_id in known for known in states[1:])]
        wanted = [doc_id for doc_id in whole if only is None or doc_id in only]
        if wanted:
            yield Work(STAGES["chunk_embeddings"], part, dict.fromkeys(wanted, ""))


def known_keys(state: State, table: str, identity: str) -> Keys:
    """Return the keys of all vectors of an embedder in any file of a table, sorted."""
    return np.unique(np.concatenate([keys_from(()), *KnownVectors(state.parts.tables, table, identity).keys()]))


class RequestedTexts:
    """All texts that need a vector, by key: the tables that need it (a bit for each), the first document with the text,
    and the tables that already have it."""

    def __init__(self, state: State, identity: str) -> None:
        self._state, self._sources = state, sources_of(state.settings.sentences.embedded)
        self.tables = [(stage, source.table) for stage, source in self._sources]
        self.basis = basis_of(state)
        keys, wants, owners, self._doc_ids = self._read()
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        starts = np.flatnonzero(np.concatenate([np.ones(len(keys[:1]), np.bool_), keys[1:] != keys[:-1]]))
        self.keys: Keys = keys[starts]
        self._wanted = np.bitwise_or.reduceat(wants[order], starts) if len(starts) else wants
        self._owners = owners[order][starts]
        self._known = np.zeros(len(self.keys), np.uint8)
        for bit, (_, table) in enumerate(self.tables):
            _, there = places_in(known_keys(state, table, identity), self.keys)
            self._known[there] |= 1 << bit

    def _read(self) -> tuple[Keys, NDArray[np.uint8], NDArray[np.uint32], Keys]:
        """Return three values for each row of each table: its key, the table's bit, and the number of its document.
        Return all documents too."""
        keys, wants, owners, doc_ids = [keys_from(())], [np.zeros(0, np.uint8)], [np.zeros(0, np.uint32)], list[str]()
        for work in works(self._state):
            self._state.run.report_start(f"reading what is to be embedded, {work.part.name}")
            numbers = {doc_id: len(doc_ids) + at for at, doc_id in enumerate(work.doc_ids)}
            doc_ids.extend(numbers)
            for bit, (_, source) in enumerate(self._sources):
                rows = [item.row for item in source.items_of(work)]
                keys.append(keys_from(row.text_hash for row in rows))
                wants.append(np.full(len(rows), 1 << bit, np.uint8))
                owners.append(np.fromiter((numbers[row.doc_id] for row in rows), np.uint32, len(rows)))
            work.forget()
        return np.concatenate(keys), np.concatenate(wants), np.concatenate(owners), keys_from(doc_ids)

    @property
    def missing(self) -> int:
        """Return how many texts still need a vector in some table."""
        return int(np.count_nonzero(self._wanted & ~self._known))

    def missing_at(self, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return, as bits, the tables that still need a vector of the texts at these places."""
        return self._wanted[places] & ~self._known[places]

    def mark(self, places: NDArray[np.int64]) -> None:
        """Record that the texts at these places now have a vector."""
        self._known[places] |= self._wanted[places]

    def documents(self, places: NDArray[np.int64]) -> list[str]:
        """Return the first document that has each of these texts."""
        return digits_of(self._doc_ids[self._owners[places]])

    def texts(self, places: NDArray[np.int64]) -> dict[str, str]:
        """Return the texts at these places, by key; the documents that have them are read again."""
        wanted = set(digits_of(self.keys[places]))
        found: dict[str, str] = {}
        for work in works(self._state, set(self.documents(places))):
            for _, source in self._sources:
                found.update((item.key, item.text) for item in source.items_of(work) if item.key in wanted)
            work.forget()
        return found


def basis_of(state: State) -> Mapping[str, list[str]]:
    """Return the committed files on which the set of texts depends: if they change, the set may change."""
    tables = [*_READ, *(table for stage in OF_VECTORS for table in STAGES[stage].tables)]
    return {table: state.engine.table(table).files for table in tables}


# ---------------------------------------------------------------- export


PART_BYTES = 64 << 20
"""Bytes of texts after which a part is written, so that no part is too large for memory."""
PART_ROWS = 100_000
_AT_ONCE = 1_000
"""Texts that are divided into windows together."""


def export_texts(state: State, folder: TextFolder) -> dict[str, Any]:
    """Write each text once, in files of bounded size.

    Return {"folder", "generation", "embedder", "texts", "windowed", "rows", "parts", "bytes"}; `windowed` are texts of
    several rows. Raise SettingsError, ModelError or IndexStateError."""
    generation = state.ensure_generation()
    identity = generation.embedder["identity"]
    sources = sources_of(state.settings.sentences.embedded)
    state.run.report_start(f"loading {generation.embedder['name']}")
    embedder = state.ready_embedder()
    about = _describe_model(state, embedder)
    parts = _Parts(folder, about)
    known = {source.table: known_keys(state, source.table, identity) for _, source in sources}
    written: list[Keys] = []
    counts = {"texts": 0, "windowed": 0, "rows": 0}
    folder.begin()
    for number, work in enumerate(works(state)):
        state.run.progress("export_texts", work.part.bucket, state.settings.buckets)
        texts: dict[str, str] = {}
        for _, source in sources:
            items = {item.key: item.text for item in source.items_of(work)}
            keys = keys_from(items)
            fresh = ~places_in(known[source.table], keys)[1]
            for earlier in written:
                fresh &= ~places_in(earlier, keys)[1]
            texts.update((key, items[key]) for key in digits_of(keys[fresh]))
        work.forget()
        written.append(np.sort(keys_from(texts)))
        counts["texts"] += len(texts)
        for key, rows in _rows(embedder, texts):
            counts["windowed"] += len(rows) > 1
            counts["rows"] += len(rows)
            parts.add(number, key, rows)
        parts.flush()
    state.run.progress("export_texts", state.settings.buckets, state.settings.buckets)
    return {
        "folder": folder.shown,
        "generation": generation.generation,
        "embedder": about,
        **counts,
        "parts": parts.count,
        "bytes": parts.bytes,
    }


def _describe_model(state: State, embedder: CountingEmbedder) -> dict[str, Any]:
    """Describe the model for people who embed the texts. With the contract's version, this is the metadata of every
    part."""
    generation = state.ensure_generation()
    spec = spec_of(generation)
    return {
        "contract": CONTRACT,
        "embedder": spec.identity,
        "model": PRESETS[spec.name].model if spec.kind == "preset" else spec.name,
        "revision": spec.revision,
        "dimension": generation.dimension,
        "prompt": embedder.prompt,
        "window": embedder.window,
        "fields": dict(spec.passage_fields),
    }


def _rows(embedder: CountingEmbedder, texts: dict[str, str]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each text's key, and its rows: their keys and the input of the model."""
    items = list(texts.items())
    for start in range(0, len(items), _AT_ONCE):
        batch = items[start : start + _AT_ONCE]
        for (key, text), pieces in zip(batch, embedder.pieces([text for _, text in batch]), strict=True):
            if len(pieces) == 1:
                yield key, [(key, embedder.prompt + text)]
            else:
                yield (
                    key,
                    [
                        (str(RowKey(key, number, len(pieces), piece.weight)), piece.text)
                        for number, piece in enumerate(pieces, 1)
                    ],
                )


class _Parts:
    """The files of one part after the other; all windows of a text are in one file."""

    def __init__(self, folder: TextFolder, about: dict[str, Any]) -> None:
        self._folder, self._about = folder, about
        self._keys: list[str] = []
        self._texts: list[str] = []
        self._size, self._part, self._number = 0, -1, 0
        self.count, self.bytes = 0, 0

    def add(self, part: int, key: str, rows: list[tuple[str, str]]) -> None:
        if part != self._part:
            self._part, self._number = part, 0
        for name, text in rows:
            self._keys.append(name)
            self._texts.append(text)
            self._size += len(text.encode("utf-8", "surrogatepass"))
        if self._size >= PART_BYTES or len(self._keys) >= PART_ROWS:
            self.flush()

    def flush(self) -> None:
        if not self._keys:
            return
        self.bytes += self._folder.write(f"texts-{self._part:02d}-{self._number:05d}.parquet", self._table())
        self._keys, self._texts, self._size = [], [], 0
        self._number += 1
        self.count += 1

    def _table(self) -> pa.Table:
        import pyarrow as pa

        rows = len(self._keys)
        columns = {
            "key": pa.array(self._keys, pa.string()),
            "text": pa.array(self._texts, pa.string()),
            "contract": pa.array([self._about["contract"]] * rows, pa.int32()),
            "embedder": pa.array([self._about["embedder"]] * rows, pa.string()),
        }
        return pa.table(columns).replace_schema_metadata({FOOTER: json.dumps(self._about)})
