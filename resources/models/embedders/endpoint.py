"""The embedder behind an OpenAI-compatible endpoint: its requests, and the search for texts that the endpoint
refuses."""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipelines.errors import ModelError, RefusedText
from pipelines.indexing.embeddings import average_windows, windows
from pipelines.plural import plural
from pipelines.ports import WeightedText
from pipelines.settings.models import Fields, key_variable
from pipelines.tokens import TokenIndex
from resources.llm.endpoint import LeaveAlone, NotRead, at_most, endpoint_client, not_read, post, refusal, silent
from resources.models.embedders.specs import EmbedderSpec, WholeTexts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pipelines.ports import Progress, Vectors
    from pipelines.settings.models import EmbedderSettings


# ---------------------------------------------------------------- reply


_MOST_TOKENS = 1 << 40


def vectors_of(reply: bytes, where: str) -> tuple[dict[int, NDArray[np.float32]], int]:
    """Return (vectors by the number of their text, tokens) of a reply. Raise ModelError if it has no embeddings.

    Some endpoints send numbers even if base64 is requested.
    """
    try:
        read = json.loads(reply)
        vectors = {int(item["index"]): _vector(item["embedding"]) for item in read["data"]}
        usage = read.get("usage")
        tokens = usage.get("total_tokens") if isinstance(usage, dict) else 0
        return vectors, tokens if type(tokens) is int and 0 <= tokens < _MOST_TOKENS else 0
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        # The error's own words are left out: they repeat the reply, which may repeat the key.
        raise ModelError(
            f"{where} gave no embeddings ({type(error).__name__} in its reply); check that embedder.endpoint is the "
            "address of an OpenAI-compatible API"
        ) from None


def _vector(sent: str | Sequence[float]) -> NDArray[np.float32]:
    import numpy as np

    if isinstance(sent, str):
        vector = np.frombuffer(base64.b64decode(sent, validate=True), dtype="<f4")
    else:
        with np.errstate(over="ignore"):
            vector = np.array(sent, dtype=np.float32)
    if vector.ndim != 1 or not vector.size:
        raise ValueError("no vector")
    return vector


# ---------------------------------------------------------------- embedder


_RETRIES = 6
_RETRIES_APART = 1
"""Retries of a request after one has failed for good while the endpoint answered others."""
_MOST_APART = 32
"""Most texts that may fail when sent alone. Above this number, texts that fail together are no longer sent one by one,
which bounds the number of requests."""
_LEAST_SHARE = 1 / 8
"""Least timeout of a request, even for one text, as a share of a whole batch's timeout."""
_TIMEOUT_SECONDS = 120.0
"""Most seconds for a request of a whole batch."""
_SHOWN = 80
"""Most characters of a question that an error repeats."""
_SLACK, _NUMBER_BYTES, _MOST_DIMENSIONS = 1 << 20, 40, 1 << 14
"""Bytes of a reply in addition to its vectors, bytes of one number as text, and most dimensions of a vector."""
_OF_THE_TEXT = frozenset({400, 413, 422})
"""Statuses that refuse the text itself, rather than the sender or the address."""


@dataclass(frozen=True, slots=True)
class _NoVector:
    """The failure in place of a vector: its message and its code."""

    said: str
    code: str


class EndpointEmbedder(WholeTexts):
    """The embedder of an endpoint; implements ports.TextEmbedder. The client itself retries with back-off. If the
    endpoint answers some texts and fails for others, the latter are found in a bounded number of requests.

    A text longer than `max_tokens`, as the chunking tokenizer counts, is embedded in windows and averaged."""

    def __init__(self, spec: EmbedderSpec, settings: EmbedderSettings) -> None:
        self.spec, self.identity = spec, spec.identity
        self._batch, self._encoding = settings.batch_texts, settings.encoding_format
        self.tokens = 0
        self._size = spec.dimension
        self._apart: int | None = None
        """Number of texts that failed alone; None if none has failed yet."""

    @cached_property
    def dimension(self) -> int:
        return self.spec.dimension or int(self._queries(["dimension"]).shape[1])

    @cached_property
    def _client(self) -> Any:
        assert self.spec.endpoint is not None
        name = key_variable(self.spec.endpoint, self.spec.api_key_env)
        return endpoint_client(
            self.spec.endpoint,
            lambda: os.environ.get(name, "").strip() if name else "",
            timeout=_TIMEOUT_SECONDS,
            retries=_RETRIES,
            setting="embedder",
        )

    def load(self) -> None:
        _ = self._client

    @property
    def prompt(self) -> str:
        return self.spec.passage_prefix or ""

    @property
    def window(self) -> int:
        return self.spec.max_tokens

    def pieces(self, texts: Sequence[str]) -> list[list[WeightedText]]:
        return list(self._pieces(texts, self.prompt))

    def _pieces(self, texts: Sequence[str], prefix: str) -> Iterator[list[WeightedText]]:
        for text in texts:
            starts = [*TokenIndex(text).starts, len(text)]
            yield [
                WeightedText(
                    prefix + (text[starts[left] : starts[min(right, len(starts) - 1)]] or text), max(1, right - left)
                )
                for left, right in windows(max(1, len(starts) - 1), self.spec.max_tokens)
            ]

    def passages(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        return self._embed(texts, self.prompt, self.spec.passage_fields, progress)

    def queries(self, texts: Sequence[str]) -> Vectors:
        try:
            return self._queries(texts, asked=True)
        except RefusedText as told:
            text = next(iter(told.refused))
            begins = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
            question = f"the question {begins!r} ({len(text):,} characters)"
            if told.code_of(text) == "vector":
                raise ModelError(
                    f"{told} for {question}; check the model, or ask in other words", "bad_vector"
                ) from None
            said = f"{told}. It refused {question}: ask in other or fewer words"
            raise RefusedText(said, told.refused, told.vectors) from None

    def _queries(self, texts: Sequence[str], asked: bool = False) -> Vectors:
        return self._embed(texts, self.spec.query_prefix or "", self.spec.query_fields, None, asked)

    def _embed(
        self, texts: Sequence[str], prefix: str, fields: Fields, progress: Progress | None, asked: bool = False
    ) -> Vectors:
        """Return the vectors of texts, shape (len(texts), dimension). Raise RefusedText or ModelError.

        If a question fails (`asked`), the endpoint is not searched for faulty texts.
        """
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        divided = list(enumerate(self._pieces(texts, prefix)))
        pieces = [piece.text for _, own in divided for piece in own]
        owners = [owner for owner, own in divided for _ in own]
        weights = [piece.weight for _, own in divided for piece in own]
        made: list[NDArray[np.float32] | _NoVector] = []
        for start in range(0, len(pieces), self._batch):
            try:
                made.extend(self._ask(pieces[start : start + self._batch], fields, whole=asked))
            except ModelError as error:
                error.done = self._whole(texts, made, owners, weights)
                raise
            first = len(made) == self._batch
            if first and all(isinstance(row, _NoVector) for row in made) and not self._takes_any(fields):
                break
            if progress:
                progress(min(start + self._batch, len(pieces)), len(pieces))
        refused = {texts[owner]: row for owner, row in zip(owners, made, strict=False) if isinstance(row, _NoVector)}
        told = {text: row.said for text, row in refused.items()}, {text: row.code for text, row in refused.items()}
        if refused and (self._size is None or len(made) < len(pieces)):
            raise RefusedText(next(iter(told[0].values())), told[0], None, told[1])
        rows = [np.zeros(self._size or 0, np.float32) if isinstance(row, _NoVector) else row for row in made]
        vectors = average_windows(np.asarray(rows, dtype=np.float32), owners, weights, len(texts))
        if refused:
            vectors[[text in refused for text in texts]] = 0.0
            raise RefusedText(next(iter(told[0].values())), told[0], vectors, told[1])
        return vectors

    @staticmethod
    def _whole(
        texts: Sequence[str], made: Sequence[Any], owners: Sequence[int], weights: Sequence[int]
    ) -> dict[str, Vectors]:
        """Return the vectors of the texts whose windows are all embedded."""
        import numpy as np

        count = owners[len(made)] if len(made) < len(owners) else len(texts)
        ends = [at for at, owner in enumerate(owners[: len(made)]) if owner < count]
        poor = {owners[at] for at in ends if isinstance(made[at], _NoVector)}
        kept = [at for at in ends if owners[at] not in poor]
        if not kept:
            return {}
        rows = np.asarray([made[at] for at in kept], dtype=np.float32)
        vectors = average_windows(rows, [owners[at] for at in kept], [weights[at] for at in kept], count)
        return {texts[owner]: vectors[owner] for owner in {owners[at] for at in kept}}

    def _takes_any(self, fields: Fields) -> bool:
        return not isinstance(self._ask(["dimension"], fields)[0], _NoVector)

    def _ask(
        self, pieces: Sequence[str], fields: Fields, apart: bool = False, whole: bool = False
    ) -> list[NDArray[np.float32] | _NoVector]:
        """Return a vector for each piece, or the failure. Pieces that fail together are sent again in halves until the
        faulty ones are found. Raise ModelError, also if the endpoint does not answer at all."""
        try:
            return self._request(pieces, fields)
        except RefusedText as refused:
            failed = _NoVector(str(refused), "refused_text")
        except LeaveAlone:
            raise
        except ModelError as error:
            if whole or error.code != "unreachable" or not (apart or self._answers(fields)):
                raise
            failed = _NoVector(str(error), error.code)
            self._apart = self._apart or 0
            if len(pieces) == 1 or self._apart >= _MOST_APART:
                self._apart += len(pieces)
                return [failed] * len(pieces)
        if len(pieces) == 1:
            return [failed]
        half = len(pieces) // 2
        return self._ask(pieces[:half], fields, apart=True) + self._ask(pieces[half:], fields, apart=True)

    def _answers(self, fields: Fields) -> bool:
        """Say whether the endpoint answers a short text, even with a refusal."""
        before, self._apart = self._apart, self._apart or 0
        try:
            self._request(["dimension"], fields)
        except RefusedText:
            return True
        except ModelError:
            self._apart = before
            return False
        return True

    def _request(self, texts: Sequence[str], fields: Fields) -> list[NDArray[np.float32] | _NoVector]:
        import openai

        where = f"embeddings endpoint {self.spec.endpoint} (model {self.spec.name!r})"
        client = self._client
        if self._apart is not None:
            seconds = _TIMEOUT_SECONDS * max(_LEAST_SHARE, len(texts) / self._batch)
            client = client.with_options(max_retries=_RETRIES_APART, timeout=seconds)
        body = {"model": self.spec.name, "input": list(texts), **self._more(fields)}
        try:
            with at_most(_SLACK + len(texts) * (self._size or _MOST_DIMENSIONS) * _NUMBER_BYTES):
                # The client builds its own types number by number, which takes longer than the rest.
                reply = post(client, "/embeddings", body)
        except NotRead as error:
            raise not_read(error, where) from None
        except openai.APIStatusError as error:
            if error.status_code in _OF_THE_TEXT:
                said = f"{where} answered {error.status_code}; check the model{self._settings_text(fields)}"
                raise RefusedText(said, dict.fromkeys(texts, said)) from None
            raise refusal(error, where, "embedder") from None
        except openai.APIError as error:
            raise silent(error, where) from None
        vectors, tokens = vectors_of(reply, where)
        rows = self._check_vectors(vectors, len(texts), where)
        self.tokens += tokens
        return rows

    def _more(self, fields: Fields) -> dict[str, Any]:
        encoding = {} if self._encoding == "none" else {"encoding_format": self._encoding}
        dimensions = {"dimensions": self.spec.dimensions} if self.spec.dimensions else {}
        return {**encoding, **dimensions, **fields}

    def _settings_text(self, fields: Fields) -> str:
        """Return the settings that may be the reason for a refusal."""
        own = "passage_fields" if fields is self.spec.passage_fields else "query_fields"
        given = [name for name in ("dimensions", own) if getattr(self.spec, name)]
        return "".join(f" and embedder.{name}" for name in given)

    def _check_vectors(
        self, vectors: dict[int, NDArray[np.float32]], count: int, where: str
    ) -> list[NDArray[np.float32] | _NoVector]:
        """Return the vectors in order of their texts: each finite, not zero, and with the same dimensions as the
        others. In place of an invalid vector, return its fault. Raise ModelError if all are invalid."""
        import numpy as np

        if not set(vectors) <= set(range(count)) or not vectors:
            raise ModelError(
                f"{where} gave {plural(len(vectors), 'vector')} for {plural(count, 'text')}; check the endpoint"
            )
        sizes = Counter(len(vector) for vector in vectors.values())
        asked = self.spec.dimensions
        if asked and asked not in sizes:
            raise ModelError(
                f"{where} gave vectors of {next(iter(sizes))} dimensions, not the {asked} of embedder.dimensions; set "
                "that length, or leave the setting out if the model has only one"
            )
        size = self._size or sizes.most_common(1)[0][0]
        if size not in sizes:
            raise ModelError(
                f"{where} gave vectors of {next(iter(sizes))} dimensions, not {size} as before; check the endpoint"
            )
        self._size = size
        rows: list[NDArray[np.float32] | _NoVector] = []
        for number in range(count):
            vector, fault = vectors.get(number), ""
            if vector is None:
                fault = f"{plural(len(vectors), 'vector')} for {plural(count, 'text')}"
            elif len(vector) != size:
                fault = f"a vector of {len(vector)} dimensions, not {size} as of the others"
            elif not np.isfinite(vector).all() or not vector.any():
                fault = "a vector that is zero or not finite"
            rows.append(_NoVector(f"{where} gave {fault}", "vector") if fault or vector is None else vector)
        return rows
