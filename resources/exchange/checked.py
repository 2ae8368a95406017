"""What a file of vectors holds, row by row, as far as it can be believed."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.fingerprint import text_hash
from pipelines.indexing.changed_links import places_in
from pipelines.indexing.embeddings import (
    CONTRACT,
    FOOTER,
    LEAST_COSINE,
    MOST_SAMPLE,
    SAMPLE,
    RowKey,
    cosines,
    unit,
    without_direction,
)
from pipelines.ports import Piece, Vectors
from resources.parquet.vectors import Keys, digits_of, keys_from, matrix

if TYPE_CHECKING:
    from resources.exchange.asked import Asked
    from resources.exchange.vector_file import VectorFile

MOST_TWICE = 20_000
"""Keys of a file that may have several rows each."""
DIGEST = 16
"""Bytes of the digest of a batch of rows."""


@dataclass
class Rows:
    """Rows that follow one another, `first` counted from 1: the keys of their texts, those that are of windows by their
    place, and their vectors as they were made."""

    first: int
    keys: Keys
    windows: dict[int, RowKey]
    vectors: Vectors
    texts: list[str | None] | None = None

    @property
    def digest(self) -> bytes:
        """Return bytes that are others where a key or a number of a vector is another."""
        made = blake2b(np.ascontiguousarray(self.keys).tobytes(), digest_size=DIGEST)
        made.update(repr((self.first, self.windows)).encode())
        made.update(np.ascontiguousarray(self.vectors).tobytes())
        return made.digest()


@dataclass
class Survey:
    """What the keys of a file are."""

    rows: int = 0
    wanted: int = 0
    known: int = 0
    unasked: int = 0
    twice: frozenset[bytes] = frozenset()


def survey(file: VectorFile, asked: Asked, identity: str) -> Survey:
    """Reads the keys. Raises VectorFileError: another contract or embedder, a key that is none."""
    _require_footer(file, identity)
    found = Survey()
    rows: list[NDArray[Any]] = []
    for first, names in file.names():
        keys, windows = _parsed(file, first, names)
        at, there = places_in(asked.keys, keys)
        wanted = there.copy()
        wanted[there] = asked.missing_at(at[there]) > 0
        found.rows += len(keys)
        found.unasked += int((~there).sum())
        found.wanted += int(wanted.sum())
        found.known += int((there & ~wanted).sum())
        rows.append(_numbered(keys, windows)[wanted])
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
        for contract, embedder in _said(said, identity):
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


def _said(said: dict[str, Any], identity: str) -> list[tuple[Any, Any]]:
    """What the columns say, as far as the file has them; a column that says several things says one that is wrong."""
    contracts, embedders = said.get("contract") or [CONTRACT], said.get("embedder") or [identity]
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


@dataclass(frozen=True)
class Drawn:
    """A row of a file that is embedded here too: `place` of its text, its unit vector, and its text where the file has
    it, which that of a window is not."""

    row: int
    key: RowKey
    place: int
    vector: Vectors
    text: str | None


class Sample:
    """So many rows of a file, drawn by a secret: whoever made the file cannot know which. A row that is there several
    times counts once, so that repeating good ones hides no others."""

    def __init__(self, count: int) -> None:
        self._count, self._secret = count, secrets.token_bytes(16)
        self._drawn: dict[bytes, Drawn] = {}
        self._last = b""

    def __len__(self) -> int:
        return len(self._drawn)

    def add(self, rows: Rows, asked: Asked, prompt: Callable[[], str]) -> None:
        """Draw from these rows, so that of all rows so far each is as likely as any other."""
        if not self._count:
            return
        at, wanted = places_in(asked.keys, rows.keys)
        wanted[wanted] = asked.missing_at(at[wanted]) > 0
        for row in np.flatnonzero(wanted).tolist():
            key = rows.windows.get(row)
            name = bytes(rows.keys[row : row + 1].tobytes()) + (b"%d-%d" % (key.window, key.windows) if key else b"")
            draw = blake2b(name, key=self._secret, digest_size=16).digest()
            if draw in self._drawn or (len(self._drawn) == self._count and draw > self._last):
                continue
            text = rows.texts[row] if rows.texts and not key else None
            self._drawn[draw] = Drawn(
                rows.first + row,
                key or RowKey(digits_of(rows.keys[row : row + 1])[0]),
                int(at[row]),
                unit(rows.vectors[row][None])[0],
                None if text is None else text[len(prompt()) :],
            )
            if len(self._drawn) > self._count:
                del self._drawn[max(self._drawn)]
            self._last = max(self._drawn)

    def require_agreement(
        self,
        file: VectorFile,
        asked: Asked,
        pieces: Callable[[Sequence[str]], list[list[Piece]]],
        made: Callable[[Sequence[str]], Vectors],
        prompt: Callable[[], str],
    ) -> None:
        """Raise VectorFileError where the embedder makes another vector of one of these texts, or divides it into
        other windows."""
        rows = sorted(self._drawn.values(), key=lambda drawn: drawn.row)
        unread = sorted({drawn.place for drawn in rows if drawn.text is None})
        read = asked.texts(np.array(unread)) if unread else {}
        texts = [(drawn, read.get(drawn.key.key) if drawn.text is None else drawn.text) for drawn in rows]
        given: list[tuple[Drawn, str]] = []
        for drawn, text in texts:
            if text is None:  # no document has it any more
                continue
            if drawn.key.windows > 1:
                (own,) = pieces([text])
                if len(own) != drawn.key.windows or own[drawn.key.window - 1].weight != drawn.key.weight:
                    raise file.unfit(
                        "vectors_key",
                        f"its key {str(drawn.key)!r} is not that of a window of its text, which has {len(own):,}",
                        drawn.row,
                    )
                text = own[drawn.key.window - 1].text[len(prompt()) :]
            given.append((drawn, text))
        if not given:
            return
        found = cosines(np.stack([drawn.vector for drawn, _ in given]), made([text for _, text in given]))
        worst = int(np.argmin(found))
        poor = int((found < LEAST_COSINE).sum())
        if poor:
            raise file.unfit(
                "vectors_unlike",
                f"{poor} of {len(given)} vectors that were made again here are others: the cosine of this one is "
                f"{found[worst]:.3f}, and should be {LEAST_COSINE} at least",
                given[worst][0].row,
            )


def samples_of(files: int) -> int:
    """Return how many texts of each of so many files are embedded again."""
    return min(MOST_SAMPLE, max(SAMPLE, 2 * MOST_SAMPLE // max(1, files)))
