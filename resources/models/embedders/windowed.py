"""The base of embedders that see tokens: long texts in windows, batches of similar length, vectors of parts of a text.

A text longer than the model's window is embedded in even windows whose vectors are averaged; nothing is cut. Batches
are sorted by length and bounded by tokens, padding included. A model is a subclass that gives tokens and their vectors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pipelines.indexing.embeddings import average_windows, windows
from pipelines.ports import WeightedText
from resources.models.embedders.specs import EmbedderSpec, no_parts

if TYPE_CHECKING:
    from pipelines.ports import Progress, Spans, Vectors

T = TypeVar("T")
R = TypeVar("R")

# ---------------------------------------------------------------- windows and spans
#
# The vector of a part of a text is the mean of its tokens' vectors, also if the text takes several windows.


@dataclass(frozen=True, slots=True)
class Window:
    """The tokens from `start` to `end` of the text `owner`. `ids` has them after `head` other tokens (special tokens
    and prefix)."""

    owner: int
    start: int
    end: int
    head: int
    ids: list[int]


class SpanSums:
    """The sums of token vectors over parts of texts, one part after another. `ranges` are the tokens of each part."""

    def __init__(self, ranges: Sequence[Sequence[tuple[int, int]]]) -> None:
        import numpy as np

        self._ranges = ranges
        self._first = np.cumsum([0, *map(len, ranges)])
        self._sums: Any = None

    def __len__(self) -> int:
        return int(self._first[-1])

    def sums_of(self, windows: Sequence[Window], tokens: Any) -> list[tuple[int, Any]]:
        """Return what these windows add to the sums, by number of part. `tokens` are vectors, shape (windows, width,
        hidden)."""
        found = []
        for window, own in zip(windows, tokens, strict=True):
            at = window.head - window.start
            for number, (start, end) in enumerate(self._ranges[window.owner], self._first[window.owner]):
                left, right = max(start, window.start), min(end, window.end)
                if left < right:
                    found.append((number, own[left + at : right + at].sum(axis=0)))
        return found

    def add(self, sums: Sequence[tuple[int, Any]]) -> None:
        import numpy as np

        for number, more in sums:
            if self._sums is None:
                self._sums = np.zeros((len(self), len(more)), dtype=np.float32)
            self._sums[number] += more

    def means(self) -> Any:
        """Return the mean of each part, shape (parts, hidden)."""
        import numpy as np

        counts = np.array([end - start for own in self._ranges for start, end in own], dtype=np.float32)
        return self._sums / np.maximum(counts, 1.0)[:, None]


def token_ranges(offsets: Sequence[tuple[int, int]], spans: Spans) -> list[tuple[int, int]]:
    """Return the range of tokens that share a character with each span; return all tokens if no token does. Some
    tokenizers include the space before a word in its token."""
    import numpy as np

    if not spans:
        return []
    starts, ends = np.array(offsets, dtype=np.int64).reshape(-1, 2).T
    found = []
    for start, end in spans:
        inside = np.flatnonzero((ends > start) & (starts < end))
        found.append((int(inside[0]), int(inside[-1]) + 1) if len(inside) else (0, len(offsets)))
    return found


# ---------------------------------------------------------------- embedder


class Tokens(NamedTuple):
    """The tokens of a text without special ones: their numbers, and the start and end of each in the text."""

    ids: Sequence[int]
    offsets: Sequence[tuple[int, int]]


class WindowedEmbedder(ABC):
    """The embedder of a model whose tokens are known; implements ports.CountingEmbedder. The model is loaded at first
    use."""

    def __init__(self, spec: EmbedderSpec) -> None:
        self.spec, self.identity = spec, spec.identity
        self.tokens = 0

    # ------------------------------------------------------------ what a model gives

    @abstractmethod
    def load(self) -> None:
        """Load the model now, so that loading can overlap with other work."""

    @property
    @abstractmethod
    def dimension(self) -> int: ...

    @property
    @abstractmethod
    def pools(self) -> bool:
        """True if a text's vector is the mean of its tokens' vectors, so that parts of it can have vectors."""

    @property
    @abstractmethod
    def window(self) -> int: ...

    @abstractmethod
    def _prefix(self, role: str) -> str:
        """Return the text before every `passage` or `query`."""

    @abstractmethod
    def _encode(self, texts: Sequence[str]) -> Sequence[Tokens]: ...

    @property
    @abstractmethod
    def _ends(self) -> tuple[list[int], list[int]]:
        """Return the special tokens before and after each text."""

    @property
    @abstractmethod
    def _batch_limit(self) -> int:
        """Return the most tokens of a batch, padding included."""

    @abstractmethod
    def _in_lanes(self, work: Callable[[T], R], batches: Sequence[T]) -> Iterator[R]:
        """Yield the result of `work` for each batch, in order, several batches at once."""

    @abstractmethod
    def _forward(self, rows: Sequence[Sequence[int]], parts: bool) -> tuple[Vectors, Any]:
        """Return the vectors of windows, shape (rows, dimension), and with `parts` those of their tokens, in float32,
        shape (rows, width, hidden)."""

    @abstractmethod
    def _vectors_of_means(self, means: Any) -> Vectors:
        """Return the vectors of parts of texts, shape (parts, dimension), from the means of their tokens' vectors."""

    # ------------------------------------------------------------ vectors

    def passages(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Return unit vectors, shape (len(texts), dimension)."""
        return self._embed(texts, [()] * len(texts), self.prompt, progress)[0]

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, shape (len(texts), dimension)."""
        return self._embed(texts, [()] * len(texts), self._prefix("query"), None)[0]

    @property
    def prompt(self) -> str:
        return self._prefix("passage")

    def pieces(self, texts: Sequence[str]) -> list[list[WeightedText]]:
        prompt = self.prompt
        encoded, rows = self._windows(texts, prompt)
        made: list[list[WeightedText]] = [[] for _ in texts]
        for row in rows:
            text, offsets = texts[row.owner], encoded[row.owner].offsets
            left = offsets[row.start][0] if row.start else 0
            right = offsets[row.end][0] if row.end < len(offsets) else len(text)
            made[row.owner].append(WeightedText(prompt + text[left:right], len(row.ids)))
        return made

    def with_spans(
        self, texts: Sequence[str], spans: Sequence[Spans], progress: Progress | None = None
    ) -> tuple[Vectors, Vectors]:
        """Return unit vectors of the texts, equal to `passages`, and of spans of their characters, from one pass:
        shapes (len(texts), dimension) and (spans of all, dimension), in order. A text longer than the window is encoded
        in even windows. A span without a token has the mean of the whole text. Raise ModelError if the model does not
        pool by mean."""
        if not self.pools:
            raise no_parts(self.spec.name)
        return self._embed(texts, spans, self.prompt, progress)

    def _embed(
        self, texts: Sequence[str], spans: Sequence[Spans], prefix: str, progress: Progress | None
    ) -> tuple[Vectors, Vectors]:
        import numpy as np

        nothing = np.zeros((0, self.dimension), dtype=np.float32)
        if not texts:
            return nothing, nothing
        encoded, rows = self._windows(texts, prefix)
        parts = SpanSums([token_ranges(text.offsets, own) for text, own in zip(encoded, spans, strict=True)])
        made = np.empty((len(rows), self.dimension), dtype=np.float32)
        for batch, vectors, sums in self._pass_windows(rows, parts, progress):
            made[batch] = vectors
            parts.add(sums)
        whole = average_windows(made, [row.owner for row in rows], [len(row.ids) for row in rows], len(texts))
        return whole, self._vectors_of_means(parts.means()) if parts else nothing

    def _windows(self, texts: Sequence[str], prefix: str) -> tuple[Sequence[Tokens], list[Window]]:
        """Return the tokens of each text, and its windows."""
        encoded, (first, last) = self._encode([*texts, prefix]), self._ends
        head = [*first, *encoded[-1].ids]
        room = self.window - len(head) - len(last)
        return encoded[:-1], [
            Window(owner, start, end, len(head), [*head, *text.ids[start:end], *last])
            for owner, text in enumerate(encoded[:-1])
            for start, end in windows(len(text.ids), room)
        ]

    def _pass_windows(
        self, rows: Sequence[Window], parts: SpanSums, progress: Progress | None
    ) -> Iterator[tuple[list[int], Vectors, list[tuple[int, Any]]]]:
        """Yield, for each batch of windows of similar length, their numbers, their vectors, shape (len(batch),
        dimension), and their contributions to the parts of texts."""

        def pass_batch(batch: list[int]) -> tuple[list[int], Vectors, list[tuple[int, Any]]]:
            vectors, tokens = self._forward([rows[item].ids for item in batch], bool(parts))
            return batch, vectors, parts.sums_of([rows[item] for item in batch], tokens) if parts else []

        done = 0
        for made in self._in_lanes(pass_batch, list(self._batches(rows))):
            yield made
            done += len(made[0])
            if progress:
                progress(done, len(rows))
        self.tokens += sum(len(row.ids) for row in rows)

    def _batches(self, rows: Sequence[Window]) -> Iterator[list[int]]:
        order = sorted(range(len(rows)), key=lambda item: -len(rows[item].ids))
        at = 0
        while at < len(order):
            most = max(1, self._batch_limit // len(rows[order[at]].ids))
            yield order[at : at + most]
            at += most


def pad_rows(rows: Sequence[Sequence[int]], pad: int, step: int) -> tuple[Any, Any]:
    """Return the token numbers of windows, padded to a multiple of `step`, and a mask with 1 for each token, both int64
    of shape (rows, width)."""
    import numpy as np

    width = -(-max(map(len, rows)) // step) * step
    ids, mask = np.full((len(rows), width), pad, np.int64), np.zeros((len(rows), width), np.int64)
    for number, row in enumerate(rows):
        ids[number, : len(row)], mask[number, : len(row)] = row, 1
    return ids, mask
