"""Vectors that others made of exported texts: looked at, and kept where the next run finds them.

Each file is read twice by a process of its own, first to look at every row, then to take those that were looked at: of
a file that is refused nothing is taken. What is kept are whole files that no commit names
(resources/parquet/vectors.py), so that an import that is killed leaves nothing half, and one that is begun again goes
on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.errors import IndexStateError, ModelError, VectorFileError
from pipelines.indexing.changed_links import places_in
from pipelines.indexing.embeddings import unit, without_direction
from pipelines.ports import Piece, Vectors
from resources.exchange.asked import Asked, basis_of
from resources.exchange.checked import DIGEST, Rows, Sample, rows_of, samples_of, survey
from resources.exchange.places import Found, vector_files
from resources.exchange.vector_file import VectorFile
from resources.parquet.vectors import VectorRow, digits_of, imported_for, vector_table
from resources.state import generation as generations

if TYPE_CHECKING:
    from resources.state.state import State

PART_BYTES = 32 << 20
"""Of vectors in a file that is kept."""
HELD_BYTES = 256 << 20
"""Of vectors that are held until there are enough for a file."""
MOST_WINDOWED = 50_000
"""Texts of which some windows have come and others have not yet."""


@dataclass
class Result:
    """What an import found and did; counts of rows, and of texts what is `taken`, `incomplete` and still `missing`."""

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
    """Looks at these files and, unless it is a `check`, keeps their vectors. Files that cannot be taken are in the
    result under `refused`, {"code", "row", "message"}; the others are taken.

    Raises IndexStateError where there are no texts, or another run has begun; ModelError where the embedder cannot be
    asked whether it agrees, which `unchecked` leaves out."""
    row = generations.find_generation(state.parts.catalog, state.settings)
    if row is None:
        raise IndexStateError(
            "there are no texts of these settings to import vectors for; run `pincite export-texts FOLDER` first",
            "missing_input",
        )
    found = vector_files(places)
    work = _Import(state.of(row), row.embedder["identity"], row.dimension)
    good = work.looked_at(found, unchecked)
    if check:
        work.take(good, write=False)
    elif good:
        with state.parts.database.exclusive("index"):
            work.take(good, write=True)
    work.result.missing = work.missing
    return work.result.as_json(row.generation, row.embedder["name"], check)


@dataclass(frozen=True)
class _Looked:
    """A file that can be taken: the keys that have several rows in it, and the digest of each batch of its rows."""

    found: Found
    twice: frozenset[bytes]
    digests: bytes


class _Import:
    def __init__(self, state: State, identity: str, dimension: int) -> None:
        self._state, self._identity, self._dimension = state, identity, dimension
        self.result = Result()
        self._asked = Asked(state, identity)

    @cached_property
    def _prompt(self) -> str:
        """Loads a model that declares it itself."""
        return self._state.embedder(generations.spec_of(self._state.ensure_generation())).prompt

    def _pieces(self, texts: Sequence[str]) -> list[list[Piece]]:
        with self._asking():
            return self._state.ready_embedder().pieces(texts)

    def _made(self, texts: Sequence[str]) -> Vectors:
        with self._asking():
            return self._state.ready_embedder().passages(texts)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except (ModelError, IndexStateError) as error:
            raise ModelError(f"{error}; or import with --unchecked, which compares no vectors", error.code) from None

    # ------------------------------------------------------------ looking

    def looked_at(self, found: Sequence[Found | VectorFileError], unchecked: bool) -> list[_Looked]:
        """The files that can be taken."""
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

    def _look(self, found: Found, samples: int) -> _Looked | None:
        """None where nothing of the file is wanted."""
        sample, digests = Sample(samples), bytearray()
        with self._reading(found) as file:
            seen = survey(file, self._asked, self._identity)
            if seen.wanted:
                for rows in rows_of(file, self._identity, lambda: self._prompt, seen.twice):
                    digests += rows.digest
                    sample.add(rows, self._asked, lambda: self._prompt)
                sample.require_agreement(file, self._asked, self._pieces, self._made, lambda: self._prompt)
        self.result.rows += seen.rows
        if not seen.wanted:  # those of a file that is taken are counted then
            self.result.known += seen.known
        self.result.unasked += seen.unasked
        self.result.sampled += len(sample)
        return _Looked(found, seen.twice, bytes(digests)) if seen.wanted else None

    @contextmanager
    def _reading(self, found: Found) -> Iterator[VectorFile]:
        with found.opened(self._state.project.state) as stream, VectorFile(found.name, stream, self._dimension) as file:
            yield file

    # ------------------------------------------------------------ taking

    def take(self, good: Sequence[_Looked], write: bool) -> None:
        if basis_of(self._state) != self._asked.basis:  # a run has gone on meanwhile
            self._asked = Asked(self._state, self._identity)
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
            except VectorFileError as error:  # it was another file when it was looked at
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
    """Of the windows of a text that have come so far: their weighted sum, and which they are."""

    total: Vectors
    seen: set[int] = field(default_factory=set)


class _Kept:
    """Vectors on their way into files, one for each table that asks for them, and shard."""

    def __init__(self, state: State, asked: Asked, identity: str, write: bool) -> None:
        self._state, self._asked, self._identity, self._write = state, asked, identity, write
        self._held: dict[tuple[int, int], list[tuple[list[str], list[str], Vectors]]] = {}
        self._sizes: Counter[tuple[int, int]] = Counter()
        self._means: dict[tuple[int, int], _Mean] = {}
        self.taken, self.known, self._left_out = 0, 0, 0

    @property
    def incomplete(self) -> int:
        """Texts of which not all windows came, or whose windows have no mean."""
        return len(self._means) + self._left_out

    def add(self, rows: Rows) -> None:
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
        """Adds one to the mean of its text, which is kept with the last of them, as `averaged` makes it."""
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
            if without_direction(mean.total[None]):  # opposite windows, or beyond what a float32 holds
                self._left_out += 1
            else:
                self._keep(places, unit(mean.total[None]))

    def _keep(self, places: Any, vectors: Vectors) -> None:
        if not len(places):
            return
        wanted = self._asked.missing_at(places)
        doc_ids, keys = self._asked.documents(places), digits_of(self._asked.keys[places])
        shards = np.array(self._asked.shards(doc_ids))
        for bit in range(len(self._asked.tables)):
            for shard in np.unique(shards[wanted & (1 << bit) > 0]).tolist():
                chosen = np.flatnonzero((shards == shard) & (wanted & (1 << bit) > 0))
                part = [doc_ids[row] for row in chosen], [keys[row] for row in chosen], vectors[chosen]
                self._held.setdefault((bit, shard), []).append(part)
                self._sizes[bit, shard] += part[2].nbytes
        self._asked.mark(places)
        self.taken += len(places)
        while self._sizes and (self._sizes.total() > HELD_BYTES or max(self._sizes.values()) > PART_BYTES):
            self._write_out(max(self._sizes, key=self._sizes.__getitem__))

    def flush(self) -> None:
        for group in sorted(self._held):
            self._write_out(group)

    def _write_out(self, group: tuple[int, int]) -> None:
        parts, (bit, shard) = self._held.pop(group), group
        del self._sizes[group]
        if not self._write:
            return
        stage, table = self._asked.tables[bit]
        pairs = [(doc_id, key) for doc_ids, keys, _ in parts for doc_id, key in zip(doc_ids, keys, strict=True)]
        rows = vector_table(
            [VectorRow(doc_id, 0, "", key) for doc_id, key in pairs], np.concatenate([part[2] for part in parts])
        )
        place = imported_for(self._state.runner.key(stage))
        self._state.parts.tables.write(table, place, shard, rows, {}, self._identity)
