"""What a file of vectors holds, row by row, as far as it can be believed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.fingerprint import text_hash
from pipelines.indexing.changed_links import places_in
from pipelines.indexing.embeddings import unit
from pipelines.indexing.exchanged import CONTRACT, FOOTER, LEAST_COSINE, SAMPLE, RowKey, cosines, without_direction
from pipelines.ports import Vectors
from resources.parquet.vector_keys import Keys, keys_from
from resources.parquet.vectors import matrix

if TYPE_CHECKING:
    from resources.exchange.asked import Asked
    from resources.exchange.vector_file import VectorFile

MOST_TWICE = 20_000
"""Keys of a file that may have several rows each."""


@dataclass
class Rows:
    """Rows that follow one another, `first` counted from 1: the keys of their texts, those that are of windows by their
    place, and their vectors as they were made."""

    first: int
    keys: Keys
    windows: dict[int, RowKey]
    vectors: Vectors
    texts: list[str | None] | None = None


@dataclass
class Survey:
    """What the keys of a file are. Places are those of asked texts."""

    rows: int = 0
    wanted: int = 0
    known: int = 0
    unasked: int = 0
    sample: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    twice: frozenset[bytes] = frozenset()


def survey(file: VectorFile, asked: Asked, identity: str, samples: int) -> Survey:
    """Reads the keys. Raises VectorFileError: another contract or embedder, a key that is none."""
    _require_footer(file, identity)
    found = Survey()
    rows: list[NDArray[Any]] = []
    sampled = np.zeros(0, np.int64)
    for first, names in file.names():
        keys, windows = _parsed(file, first, names)
        at, there = places_in(asked.keys, keys)
        wanted = there.copy()
        wanted[there] = asked.missing_at(at[there]) > 0
        found.rows += len(keys)
        found.unasked += int((~there).sum())
        found.wanted += int(wanted.sum())
        found.known += int((there & ~wanted).sum())
        whole = wanted.copy()
        whole[list(windows)] = False
        # The least of hashes are any texts, and the same ones whenever the file is read.
        sampled = np.unique(np.concatenate([sampled, at[whole]]))[:samples]
        rows.append(_numbered(keys, windows)[wanted])
    found.sample = sampled
    found.twice = _twice(file, np.concatenate(rows)) if rows else frozenset()
    return found


def _require_footer(file: VectorFile, identity: str) -> None:
    text = file.head["footer"]
    by_columns = {"contract", "embedder"} <= set(file.columns)
    if not text:
        if not by_columns:
            raise file.unfit(
                "vectors_contract",
                f"it does not say what it was made for: it has neither the metadata {FOOTER} nor the columns contract "
                "and embedder",
            )
        return
    try:
        said = json.loads(text)
        contract, embedder = said["contract"], said["embedder"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise file.unfit("vectors_contract", f"its metadata {FOOTER} cannot be read") from None
    _require(file, contract, embedder, identity, None)


def _require(file: VectorFile, contract: Any, embedder: Any, identity: str, row: int | None) -> None:
    if str(contract) != str(CONTRACT):
        raise file.unfit(
            "vectors_contract", f"it is of contract {str(contract)[:20]!r}, and this version reads {CONTRACT}", row
        )
    if embedder != identity:
        raise file.unfit(
            "vectors_embedder",
            f"it was made for the embedder {str(embedder)[:32]!r}, and the settings ask for {identity!r}, of another "
            "model, revision or prompt",
            row,
        )


def _parsed(file: VectorFile, first: int, names: Sequence[str]) -> tuple[Keys, dict[int, RowKey]]:
    digits: list[str] = []
    windows: dict[int, RowKey] = {}
    for at, name in enumerate(names):
        key = RowKey.parsed(name)
        if key is None:
            raise file.unfit("vectors_key", f"{name[:60]!r} is no key of a text", first + at)
        digits.append(key.key)
        if key.windows > 1:
            windows[at] = key
    return keys_from(digits), windows


def _numbered(keys: Keys, windows: dict[int, RowKey]) -> NDArray[Any]:
    """Keys with the number of their window, shape (n,), of twenty bytes each."""
    made = np.zeros((len(keys), 20), np.uint8)
    made[:, :16] = np.ascontiguousarray(keys).view(np.uint8).reshape(-1, 16)
    for at, key in windows.items():
        made[at, 16:] = np.array([key.window, key.windows], ">u2").view(np.uint8)
    return made.view("S20").reshape(-1)


def _twice(file: VectorFile, rows: NDArray[Any]) -> frozenset[bytes]:
    keys, counts = np.unique(rows, return_counts=True)
    found = keys[counts > 1]
    if len(found) > MOST_TWICE:
        raise file.unfit("vectors_twice", f"{len(found):,} keys have several rows, and {MOST_TWICE:,} at most may")
    return frozenset(found.tolist())


# ---------------------------------------------------------------- vectors


def rows_of(file: VectorFile, identity: str, prompt: Callable[[], str], twice: frozenset[bytes]) -> Iterator[Rows]:
    """All rows, each looked at. Raises VectorFileError for the first that cannot be taken."""
    earlier: dict[bytes, Vectors] = {}
    for first, said, table in file.vectors():
        for contract, embedder in _said(said):
            _require(file, contract, embedder, identity, first)
        keys, windows = _parsed(file, first, table["key"].to_pylist())
        vectors = matrix(table["vector"])
        if bad := without_direction(vectors):
            what = "is zero" if np.isfinite(vectors[bad[0]]).all() else "has what is no finite number"
            raise file.unfit("vectors_values", f"its vector {what}", first + bad[0])
        texts = table["text"].to_pylist() if "text" in table.column_names else None
        if texts:
            _require_texts(file, first, table["key"].to_pylist(), windows, texts, prompt())
        if twice:
            _require_alike(file, first, _numbered(keys, windows), vectors, twice, earlier)
        yield Rows(first, keys, windows, vectors, texts)


def _said(said: dict[str, Any]) -> list[tuple[Any, Any]]:
    """What the columns say, where the file has them; a column that says several things says one that is wrong."""
    contracts, embedders = said.get("contract"), said.get("embedder")
    if not contracts or not embedders:
        return []
    return [(contracts[0], embedders[0]), (contracts[-1], embedders[-1])]


def _require_texts(
    file: VectorFile,
    first: int,
    keys: Sequence[str],
    windows: dict[int, RowKey],
    texts: Sequence[str | None],
    prompt: str,
) -> None:
    """Each text, if it is there, is the one that its key is of. Of a window that cannot be told."""
    for at, (key, text) in enumerate(zip(keys, texts, strict=True)):
        if text is None or at in windows:
            continue
        if not text.startswith(prompt) or text_hash(text[len(prompt) :]) != key:
            raise file.unfit("vectors_text", "its text is not the one that its key is of", first + at)


def _require_alike(
    file: VectorFile,
    first: int,
    rows: NDArray[Any],
    vectors: Vectors,
    twice: frozenset[bytes],
    earlier: dict[bytes, Vectors],
) -> None:
    for at, row in enumerate(rows.tolist()):
        if row not in twice:
            continue
        before = earlier.setdefault(row, vectors[at].copy())
        if float(cosines(before[None], vectors[at][None])[0]) < LEAST_COSINE:
            raise file.unfit("vectors_twice", "its key has another vector in a row before", first + at)


# ---------------------------------------------------------------- whether the embedder agrees


@dataclass
class Sample:
    """Texts of a file that are embedded here too: their places, rows, vectors, and texts where the file has them."""

    places: NDArray[np.int64]
    rows: dict[int, int] = field(default_factory=dict)
    vectors: dict[int, Vectors] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)

    def add(self, rows: Rows, asked: Asked, prompt: Callable[[], str]) -> None:
        at, there = places_in(asked.keys, rows.keys)
        for row in np.flatnonzero(there & np.isin(at, self.places)).tolist():
            place = int(at[row])
            if row in rows.windows or place in self.rows:
                continue
            self.rows[place], self.vectors[place] = rows.first + row, unit(rows.vectors[row][None])[0]
            text = rows.texts[row] if rows.texts else None
            if text is not None:
                self.texts[place] = text[len(prompt()) :]

    def require_agreement(self, file: VectorFile, made: Callable[[Sequence[str]], Vectors]) -> None:
        """Raises VectorFileError where the embedder makes another vector of one of these texts."""
        places = sorted(self.rows.keys() & self.texts.keys())
        if not places:
            return
        found = cosines(
            np.stack([self.vectors[place] for place in places]), made([self.texts[place] for place in places])
        )
        worst = int(np.argmin(found))
        poor = int((found < LEAST_COSINE).sum())
        if poor:
            raise file.unfit(
                "vectors_unlike",
                f"{poor} of {len(places)} vectors that were made again here are others: the cosine of this one is "
                f"{found[worst]:.3f}, and should be {LEAST_COSINE} at least",
                self.rows[places[worst]],
            )


def samples_of(files: int) -> int:
    """Texts of each of so many files that are embedded again: SAMPLE, and of many files fewer each."""
    return max(1, min(SAMPLE, 32 * SAMPLE // max(1, files)))
