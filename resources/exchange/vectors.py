"""The import of vectors of exported texts: every row is checked, then stored for the next run.

Each file is read twice by a separate process: first to check every row, then to store the rows. No row of a refused
file is stored. Only complete files are stored, outside of commits (resources/engine/vectors.py), so a killed import
leaves nothing incomplete, and a repeated one continues.
"""

from __future__ import annotations

import json
import secrets
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import IndexStateError, ModelError, VectorFileError
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
from pipelines.ports import Vectors, WeightedText
from resources.engine.vectors import Keys, VectorRow, digits_of, imported_for, keys_from, matrix, vector_table
from resources.exchange.locations import FoundFile, vector_files
from resources.exchange.texts import RequestedTexts, basis_of
from resources.exchange.vector_file import VectorFile
from resources.state import generation as generations

if TYPE_CHECKING:
    from resources.state.state import State


# ---------------------------------------------------------------- rows


MOST_TWICE = 20_000
"""Most keys of a file with several rows each, since their vectors are kept in memory for comparison."""
DIGEST = 16
"""Bytes of the digest of a batch of rows."""


@dataclass
class RowBatch:
    """Consecutive rows, with `first` counted from 1: the keys of their texts, the full keys of windows by their place,
    and the vectors as the file has them."""

    first: int
    keys: Keys
    windows: dict[int, RowKey]
    vectors: Vectors
    texts: list[str | None] | None = None

    @property
    def digest(self) -> bytes:
        """Return bytes that change with any key and any number of a vector."""
        made = blake2b(np.ascontiguousarray(self.keys).tobytes(), digest_size=DIGEST)
        made.update(repr((self.first, self.windows)).encode())
        made.update(np.ascontiguousarray(self.vectors).tobytes())
        return made.digest()


@dataclass
class Survey:
    """Counts of the keys in a file: wanted, already known, or unknown to pincite; and the keys with several rows."""

    rows: int = 0
    wanted: int = 0
    known: int = 0
    unasked: int = 0
    twice: frozenset[bytes] = frozenset()


def survey(file: VectorFile, asked: RequestedTexts, identity: str) -> Survey:
    """Read the keys of a file. Raise VectorFileError for another contract or embedder, or an invalid key."""
    _require_footer(file, identity)
    found = Survey()
    rows: list[NDArray[Any]] = []
    for first, names in file.names():
        keys, windows = _parse_names(file, first, names)
        at, there = places_in(asked.keys, keys)
        wanted = there.copy()
        wanted[there] = asked.missing_at(at[there]) > 0
        found.rows += len(keys)
        found.unasked += int((~there).sum())
        found.wanted += int(wanted.sum())
        found.known += int((there & ~wanted).sum())
        rows.append(_numbered_keys(keys, windows)[wanted])
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


def _parse_names(file: VectorFile, first: int, names: Sequence[str]) -> tuple[Keys, dict[int, RowKey]]:
    digits: list[str] = []
    windows: dict[int, RowKey] = {}
    for at, name in enumerate(names):
        key = RowKey.parse(name)
        if key is None:
            raise file.unfit("vectors_key", f"{name[:60]!r} is no key of a text", first + at)
        digits.append(key.key)
        if key.windows > 1:
            windows[at] = key
    return keys_from(digits), windows


def _numbered_keys(keys: Keys, windows: dict[int, RowKey]) -> NDArray[Any]:
    """Return keys with the number of their window, shape (n,), of twenty bytes each."""
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


def rows_of(file: VectorFile, identity: str, prompt: Callable[[], str], twice: frozenset[bytes]) -> Iterator[RowBatch]:
    """Yield all rows, each checked. Raise VectorFileError for the first invalid row."""
    earlier: dict[bytes, Vectors] = {}
    for first, said, table in file.vectors():
        for contract, embedder in _stated_values(said, identity):
            _require(file, contract, embedder, identity, first)
        keys, windows = _parse_names(file, first, table["key"].to_pylist())
        vectors = matrix(table["vector"])
        if bad := without_direction(vectors):
            what = "is zero" if np.isfinite(vectors[bad[0]]).all() else "has what is no finite number"
            raise file.unfit("vectors_values", f"its vector {what}", first + bad[0])
        texts = table["text"].to_pylist() if "text" in table.column_names else None
        if texts:
            _require_texts(file, first, table["key"].to_pylist(), windows, texts, prompt())
        if twice:
            _require_alike(file, first, _numbered_keys(keys, windows), vectors, twice, earlier)
        yield RowBatch(first, keys, windows, vectors, texts)


def _stated_values(said: dict[str, Any], identity: str) -> list[tuple[Any, Any]]:
    """Return the contract and embedder in the columns, or the expected ones if the file lacks the columns. For a column
    with several values, return a wrong one."""
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
    """Raise VectorFileError if a text in the file does not match its key. Texts of windows cannot be checked."""
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


# ---------------------------------------------------------------- agreement with the embedder


@dataclass(frozen=True)
class Drawn:
    """A row of a file that is embedded again for comparison: the `place` of its text, its unit vector, and its text if
    the file has it and the row is not a window."""

    row: int
    key: RowKey
    place: int
    vector: Vectors
    text: str | None


class Sample:
    """A sample of `count` rows of a file, drawn with a secret so that the maker of the file cannot predict them.
    Repeated rows count once, so that repeating good rows does not hide bad ones."""

    def __init__(self, count: int) -> None:
        self._count, self._secret = count, secrets.token_bytes(16)
        self._drawn: dict[bytes, Drawn] = {}
        self._last = b""

    def __len__(self) -> int:
        return len(self._drawn)

    def add(self, rows: RowBatch, asked: RequestedTexts, prompt: Callable[[], str]) -> None:
        """Sample from these rows, so that each of all rows so far is equally likely."""
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
        asked: RequestedTexts,
        pieces: Callable[[Sequence[str]], list[list[WeightedText]]],
        made: Callable[[Sequence[str]], Vectors],
        prompt: Callable[[], str],
    ) -> None:
        """Raise VectorFileError if the embedder makes a different vector of a sampled text, or divides the text into
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
    """Return how many texts of each file are embedded again, if this number of files is imported."""
    return min(MOST_SAMPLE, max(SAMPLE, 2 * MOST_SAMPLE // max(1, files)))


# ---------------------------------------------------------------- import

PART_BYTES = 32 << 20
"""Bytes of vectors after which a file is written."""
HELD_BYTES = 256 << 20
"""Most bytes of vectors that are kept in memory until they fill a file."""
MOST_WINDOWED = 50_000
"""Most texts with incomplete windows; their sums are kept in memory."""


@dataclass
class Result:
    """The outcome of an import. Its counts are of rows, except `taken`, `incomplete` and `missing`, which count
    texts."""

    files: int = 0
    rows: int = 0
    taken: int = 0
    known: int = 0
    unasked: int = 0
    sampled: int = 0
    incomplete: int = 0
    missing: int = 0
    refused: list[VectorFileError] = field(default_factory=list)

    def as_json(self, generation: int, embedder: str, checked_only: bool) -> dict[str, Any]:
        refused = [{"code": error.code, "row": error.row, "message": str(error)} for error in self.refused]
        counts = {name: getattr(self, name) for name in
                  ("files", "rows", "taken", "known", "unasked", "sampled", "incomplete", "missing")}  # fmt: skip
        reasons = dict(sorted(Counter(error.code for error in self.refused).items()))
        return {"generation": generation, "embedder": embedder, "checked_only": checked_only, **counts,
                "refused": refused, "reasons": reasons}  # fmt: skip


def import_vectors(state: State, places: Sequence[str], check: bool = False, unchecked: bool = False) -> dict[str, Any]:
    """Check these files and store their vectors; with `check`, only check them. Refused files are in the result under
    `refused`, {"code", "row", "message"}; the others are stored.

    Raise IndexStateError if there are no texts, or another run has begun; ModelError if the embedder is not available
    to compare vectors, a step that `unchecked` skips.
    """
    row = generations.find_generation(state.catalog, state.settings)
    if row is None:
        raise IndexStateError(
            "no texts were exported with these settings, so vectors cannot be imported; run "
            "`pincite export-texts FOLDER` first",
            "missing_input",
        )
    found = vector_files(places)
    work = _Import(state.of_generation(row), row.embedder["identity"], row.dimension)
    good = work.looked_at(found, unchecked)
    if check:
        work.take(good, write=False)
    elif good:
        with state.database.exclusive("index"):
            work.take(good, write=True)
    work.result.missing = work.missing
    return work.result.as_json(row.generation, row.embedder["name"], check)


@dataclass(frozen=True)
class _Looked:
    """A valid file: its keys with several rows, and the digest of each batch of its rows."""

    found: FoundFile
    twice: frozenset[bytes]
    digests: bytes


class _Import:
    def __init__(self, state: State, identity: str, dimension: int) -> None:
        self._state, self._identity, self._dimension = state, identity, dimension
        self.result = Result()
        self._asked = RequestedTexts(state, identity)

    @cached_property
    def _prompt(self) -> str:
        """Return the embedder's prompt; this loads a model that declares its own."""
        return self._state.embedder(generations.spec_of(self._state.ensure_generation())).prompt

    def _pieces(self, texts: Sequence[str]) -> list[list[WeightedText]]:
        with self._asking():
            return self._state.ready_embedder().pieces(texts)

    def _make_vectors(self, texts: Sequence[str]) -> Vectors:
        with self._asking():
            return self._state.ready_embedder().passages(texts)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except (ModelError, IndexStateError) as error:
            raise ModelError(f"{error}; or import with --unchecked, which compares no vectors", error.code) from None

    # ------------------------------------------------------------ checking

    def looked_at(self, found: Sequence[FoundFile | VectorFileError], unchecked: bool) -> list[_Looked]:
        """Return the valid files."""
        good: list[_Looked] = []
        samples = 0 if unchecked else samples_of(len(found))
        self.result.files = len(found)
        for number, each in enumerate(found):
            self._state.run.progress("looking at files", number, len(found))
            if isinstance(each, VectorFileError):
                self.result.refused.append(each)
                continue
            try:
                looked = self._look(each, samples)
            except VectorFileError as error:
                self.result.refused.append(error)
            else:
                if looked:
                    good.append(looked)
        self._state.run.progress("looking at files", len(found), len(found))
        return good

    def _look(self, found: FoundFile, samples: int) -> _Looked | None:
        """Check a file; return None if none of its rows is needed."""
        sample, digests = Sample(samples), bytearray()
        with self._reading(found) as file:
            seen = survey(file, self._asked, self._identity)
            if seen.wanted:
                for rows in rows_of(file, self._identity, lambda: self._prompt, seen.twice):
                    digests += rows.digest
                    sample.add(rows, self._asked, lambda: self._prompt)
                sample.require_agreement(file, self._asked, self._pieces, self._make_vectors, lambda: self._prompt)
        self.result.rows += seen.rows
        if not seen.wanted:  # known rows of a file that is taken are counted then
            self.result.known += seen.known
        self.result.unasked += seen.unasked
        self.result.sampled += len(sample)
        return _Looked(found, seen.twice, bytes(digests)) if seen.wanted else None

    @contextmanager
    def _reading(self, found: FoundFile) -> Iterator[VectorFile]:
        with (
            found.open_stream(self._state.project.state) as stream,
            VectorFile(found.name, stream, self._dimension) as file,
        ):
            yield file

    # ------------------------------------------------------------ taking

    def take(self, good: Sequence[_Looked], write: bool) -> None:
        if basis_of(self._state) != self._asked.basis:  # a run has gone on meanwhile
            self._asked = RequestedTexts(self._state, self._identity)
        kept = _Kept(self._state, self._asked, self._identity, write)
        for number, looked in enumerate(good):
            self._state.run.progress("taking vectors", number, len(good))
            try:
                with self._reading(looked.found) as file:
                    batches = rows_of(file, self._identity, lambda: self._prompt, looked.twice)
                    for at, rows in enumerate(batches):
                        if rows.digest != looked.digests[at * DIGEST : (at + 1) * DIGEST]:
                            raise file.unfit("vectors_unreadable", "it was changed after it was looked at", rows.first)
                        kept.add(rows)
            except VectorFileError as error:  # the file has changed since it was checked
                self.result.refused.append(error)
        kept.flush()
        self._state.run.progress("taking vectors", len(good), len(good))
        self.result.taken, self.result.incomplete = kept.taken, kept.incomplete
        self.result.known += kept.known

    @property
    def missing(self) -> int:
        return self._asked.missing


@dataclass
class _Mean:
    """The weighted sum of the windows of a text so far, and the numbers of these windows."""

    total: Vectors
    seen: set[int] = field(default_factory=set)


class _Kept:
    """Vectors on their way into files: one file for each table and part that need them."""

    def __init__(self, state: State, asked: RequestedTexts, identity: str, write: bool) -> None:
        self._state, self._asked, self._identity, self._write = state, asked, identity, write
        self._held: dict[tuple[int, int], list[tuple[list[str], list[str], Vectors]]] = {}
        self._sizes: Counter[tuple[int, int]] = Counter()
        self._means: dict[tuple[int, int], _Mean] = {}
        self._ranges = [part.range for part in state.engine.parts(())]
        self._firsts = [first for first, _ in self._ranges]
        self.taken, self.known, self._left_out = 0, 0, 0

    @property
    def incomplete(self) -> int:
        """Return the number of texts that lack windows, or whose windows have no mean."""
        return len(self._means) + self._left_out

    def add(self, rows: RowBatch) -> None:
        at, there = places_in(self._asked.keys, rows.keys)
        for row, key in rows.windows.items():
            if there[row]:
                self._window(int(at[row]), key.window, key.windows, key.weight, rows.vectors[row])
        there[list(rows.windows)] = False
        places, first = np.unique(at[there], return_index=True)
        fresh = self._asked.missing_at(places) > 0
        self.known += int(there.sum() - fresh.sum())
        self._keep(places[fresh], unit(rows.vectors[there][first[fresh]]))

    def _window(self, place: int, window: int, windows: int, weight: int, vector: Vectors) -> None:
        """Add a window to the weighted mean of its text, like `average_windows`; store the mean with the last
        window."""
        places = np.array([place])
        if not self._asked.missing_at(places)[0]:
            self.known += 1
            return
        if (place, windows) not in self._means and len(self._means) >= MOST_WINDOWED:
            self._left_out += 1
            return
        mean = self._means.setdefault((place, windows), _Mean(np.zeros_like(vector)))
        if window not in mean.seen:
            mean.seen.add(window)
            with np.errstate(over="ignore", invalid="ignore"):
                mean.total += vector * np.float32(weight)
        if len(mean.seen) == windows:
            del self._means[place, windows]
            if without_direction(mean.total[None]):  # opposite windows, or a sum beyond the range of float32
                self._left_out += 1
            else:
                self._keep(places, unit(mean.total[None]))

    def _keep(self, places: Any, vectors: Vectors) -> None:
        if not len(places):
            return
        wanted = self._asked.missing_at(places)
        doc_ids, keys = self._asked.documents(places), digits_of(self._asked.keys[places])
        parts = np.array([bisect_right(self._firsts, doc_id) - 1 for doc_id in doc_ids])
        for bit in range(len(self._asked.tables)):
            for part in np.unique(parts[wanted & (1 << bit) > 0]).tolist():
                chosen = np.flatnonzero((parts == part) & (wanted & (1 << bit) > 0))
                found = [doc_ids[row] for row in chosen], [keys[row] for row in chosen], vectors[chosen]
                self._held.setdefault((bit, part), []).append(found)
                self._sizes[bit, part] += found[2].nbytes
        self._asked.mark(places)
        self.taken += len(places)
        while self._sizes and (self._sizes.total() > HELD_BYTES or max(self._sizes.values()) > PART_BYTES):
            self._write_out(max(self._sizes, key=self._sizes.__getitem__))

    def flush(self) -> None:
        for group in sorted(self._held):
            self._write_out(group)

    def _write_out(self, group: tuple[int, int]) -> None:
        parts, (bit, part) = self._held.pop(group), group
        del self._sizes[group]
        if not self._write:
            return
        stage, table = self._asked.tables[bit]
        pairs = [(doc_id, key) for doc_ids, keys, _ in parts for doc_id, key in zip(doc_ids, keys, strict=True)]
        rows = vector_table(
            [VectorRow(doc_id, 0, "", key) for doc_id, key in pairs],
            np.concatenate([vectors for _, _, vectors in parts]),
        )
        place = imported_for(self._state.engine.key(stage))
        self._state.parts.tables.write(table, place, self._ranges[part], rows, {}, self._identity)
