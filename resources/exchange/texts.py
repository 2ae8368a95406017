"""Texts for others to embed: what the present settings would have embedded and is not embedded yet, as Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.indexing.changed_links import places_in
from pipelines.indexing.embeddings import CONTRACT, FOOTER, RowKey
from resources.exchange.asked import known_keys, sources_of, works
from resources.exchange.places import TextFolder
from resources.models.embedders.registry import PRESETS
from resources.parquet.vectors import Keys, digits_of, keys_from
from resources.state.generation import spec_of

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.ports import CountingEmbedder
    from resources.state.state import State

PART_BYTES = 64 << 20
"""Of texts in a part."""
PART_ROWS = 100_000
_AT_ONCE = 1_000
"""Texts that are divided into windows together."""


def export_texts(state: State, folder: TextFolder) -> dict[str, Any]:
    """Writes each text once, in parts of bounded size, shard by shard.

    Returns {"folder", "generation", "embedder", "texts", "windowed", "rows", "parts", "bytes"}; `windowed` are texts of
    several rows. Raises SettingsError, ModelError, IndexStateError."""
    generation = state.ensure_generation()
    identity = generation.embedder["identity"]
    sources = sources_of(state.settings.sentences.embedded)
    state.run.at(f"loading {generation.embedder['name']}")
    embedder = state.ready_embedder()
    about = _about(state, embedder)
    parts = _Parts(folder, about)
    known = {source.table: known_keys(state, source.table, identity) for _, source in sources}
    written: list[Keys] = []
    counts = {"texts": 0, "windowed": 0, "rows": 0}
    folder.begin()
    for work in works(state):
        state.run.progress("export_texts", work.shard, state.settings.shard_count)
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
            parts.add(work.shard, key, rows)
        parts.flush()
    state.run.progress("export_texts", state.settings.shard_count, state.settings.shard_count)
    return {
        "folder": folder.shown,
        "generation": generation.generation,
        "embedder": about,
        **counts,
        "parts": parts.count,
        "bytes": parts.bytes,
    }


def _about(state: State, embedder: CountingEmbedder) -> dict[str, Any]:
    """What whoever embeds the texts must know; with the contract's version the metadata of every part."""
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
    """Each text's key, and its rows: their keys and what the model is given."""
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
    """Files of one shard after another; all windows of a text stand in one."""

    def __init__(self, folder: TextFolder, about: dict[str, Any]) -> None:
        self._folder, self._about = folder, about
        self._keys: list[str] = []
        self._texts: list[str] = []
        self._size, self._shard, self._number = 0, -1, 0
        self.count, self.bytes = 0, 0

    def add(self, shard: int, key: str, rows: list[tuple[str, str]]) -> None:
        if shard != self._shard:
            self._shard, self._number = shard, 0
        for name, text in rows:
            self._keys.append(name)
            self._texts.append(text)
            self._size += len(text.encode("utf-8", "surrogatepass"))
        if self._size >= PART_BYTES or len(self._keys) >= PART_ROWS:
            self.flush()

    def flush(self) -> None:
        if not self._keys:
            return
        self.bytes += self._folder.write(f"texts-{self._shard:02d}-{self._number:05d}.parquet", self._table())
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
