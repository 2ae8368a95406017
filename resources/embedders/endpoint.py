"""Embeddings from any OpenAI-compatible endpoint."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipelines.endpoint_keys import key_variable
from pipelines.errors import ModelError, RefusedText
from pipelines.indexing.embeddings import averaged, windows
from pipelines.tokens import TokenIndex
from resources.embedders.specs import EmbedderSpec
from resources.embedders.whole_texts import WholeTexts
from resources.endpoint_client import NotRead, at_most, endpoint_client
from resources.llm.endpoint import retry_after

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from openai import APIStatusError

    from pipelines.ports import Progress, Vectors

_BATCH = 64
_RETRIES = 6
_TIMEOUT_SECONDS = 120.0
_SHOWN = 80
"""Characters of a question that an error repeats."""
_SLACK, _NUMBER_BYTES, _MOST_DIMENSIONS = 1 << 20, 40, 1 << 14
"""What a reply may have besides its vectors, for each of their numbers as text, and how many those are at most."""
_MOST_TOKENS = 1 << 40
_OF_THE_TEXT = frozenset({400, 413, 422})
"""Statuses by which an endpoint refuses what it was sent, and not who sent it or where."""


class EndpointEmbedder(WholeTexts):
    """Implements ports.TextEmbedder. Retries with back-off are the client's own.

    Texts longer than `max_tokens`, as the chunking tokenizer counts, go in averaged windows."""

    def __init__(self, spec: EmbedderSpec) -> None:
        self.spec, self.identity = spec, spec.identity
        self.tokens = 0
        self._size = spec.dimension

    @cached_property
    def dimension(self) -> int:
        return self.spec.dimension or int(self._embed(["dimension"], self.spec.query_prefix or "", None).shape[1])

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

    def passages(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        return self._embed(texts, self.spec.passage_prefix or "", progress)

    def queries(self, texts: Sequence[str]) -> Vectors:
        try:
            return self._embed(texts, self.spec.query_prefix or "", None)
        except RefusedText as told:
            text = next(iter(told.refused))
            begins = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
            said = f"{told}. It refused the question {begins!r} ({len(text):,} characters): ask in other or fewer words"
            raise RefusedText(said, told.refused, told.vectors) from None

    def _embed(self, texts: Sequence[str], prefix: str, progress: Progress | None) -> Vectors:
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        pieces, owners, weights = [], [], []
        for owner, text in enumerate(texts):
            starts = [*TokenIndex(text).starts, len(text)]
            for left, right in windows(max(1, len(starts) - 1), self.spec.max_tokens):
                piece = text[starts[left] : starts[min(right, len(starts) - 1)]] or text
                pieces.append(prefix + piece)
                owners.append(owner)
                weights.append(max(1, right - left))
        made: list[NDArray[np.float32] | str] = []
        for start in range(0, len(pieces), _BATCH):
            made.extend(self._asked(pieces[start : start + _BATCH]))
            if len(made) == _BATCH and all(isinstance(row, str) for row in made) and not self._takes_any():
                break
            if progress:
                progress(min(start + _BATCH, len(pieces)), len(pieces))
        refused = {texts[owner]: said for owner, said in zip(owners, made, strict=False) if isinstance(said, str)}
        if refused and (self._size is None or len(made) < len(pieces)):
            raise RefusedText(next(iter(refused.values())), refused)
        rows = [np.zeros(self._size or 0, np.float32) if isinstance(row, str) else row for row in made]
        vectors = averaged(np.asarray(rows, dtype=np.float32), owners, weights, len(texts))
        if refused:
            vectors[[text in refused for text in texts]] = 0.0
            raise RefusedText(next(iter(refused.values())), refused, vectors)
        return vectors

    def _takes_any(self) -> bool:
        return not isinstance(self._asked(["dimension"])[0], str)

    def _asked(self, pieces: Sequence[str]) -> list[NDArray[np.float32] | str]:
        """A vector of each piece, or what was said when it was refused. What is refused together is asked for by
        halves, until it is known which of them are at fault. Raises ModelError."""
        try:
            return list(self._request(pieces))
        except RefusedText as refused:
            if len(pieces) == 1:
                return [str(refused)]
        half = len(pieces) // 2
        return self._asked(pieces[:half]) + self._asked(pieces[half:])

    def _request(self, texts: Sequence[str]) -> Vectors:
        import numpy as np
        import openai

        where = f"embeddings endpoint {self.spec.endpoint} (model {self.spec.name!r})"
        # The raw reply: the client's own types are made number by number, which takes longer than all else.
        create = self._client.embeddings.with_raw_response.create
        try:
            with at_most(_SLACK + len(texts) * (self._size or _MOST_DIMENSIONS) * _NUMBER_BYTES):
                reply = create(model=self.spec.name, input=list(texts), encoding_format="base64").content
        except NotRead as error:
            raise ModelError(
                f"{where} cannot be asked: {error}", "model" if error.kind == "moved" else "unreachable"
            ) from None
        except openai.APIStatusError as error:
            if error.status_code in _OF_THE_TEXT:
                said = f"{where} answered {error.status_code}; check the model"
                raise RefusedText(said, dict.fromkeys(texts, said)) from None
            raise _refusal(error, where) from None
        except openai.APIError as error:
            raise ModelError(
                f"{where} did not answer: {type(error).__name__}; check that it runs", "unreachable"
            ) from None
        vectors, tokens = _vectors(reply, where)
        if sorted(vectors) != list(range(len(texts))):
            raise ModelError(f"{where} gave {len(vectors)} vectors for {len(texts)} texts")
        sizes = {len(vector) for vector in vectors.values()}
        if len(sizes) != 1:
            raise ModelError(f"{where} gave vectors of different dimensions")
        if self._size not in (None, *sizes):
            raise ModelError(f"{where} gave vectors of {sizes.pop()} dimensions, not {self._size} as before")
        (self._size,) = sizes
        self.tokens += tokens
        return np.stack([vectors[item] for item in range(len(texts))])


def _refusal(error: APIStatusError, where: str) -> ModelError:
    """Of who asked, or of everybody for now."""
    said, wait = f"{where} answered {error.status_code}", retry_after(error.response.headers, time.time())
    if error.status_code != 429 and error.status_code < 500:
        return ModelError(f"{said}; check the address, model and key")
    busy = ", too many requests" if error.status_code == 429 else ""
    asks = f", and asks to be left alone for {wait:,.0f} s" if wait and wait >= 1 else ""
    return ModelError(f"{said}{busy}{asks}; run again later", "unreachable")


def _vectors(reply: bytes, where: str) -> tuple[dict[int, NDArray[np.float32]], int]:
    """(Vectors by the number of their text, tokens) of a reply. Some endpoints send numbers though asked for base64."""
    try:
        read = json.loads(reply)
        vectors = {int(item["index"]): _vector(item["embedding"]) for item in read["data"]}
        usage = read.get("usage")
        tokens = usage.get("total_tokens") if isinstance(usage, dict) else 0
        return vectors, tokens if isinstance(tokens, int) and 0 <= tokens < _MOST_TOKENS else 0
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        # Not what the error says: it repeats the reply, which may repeat the key.
        raise ModelError(
            f"{where} gave no embeddings ({type(error).__name__} in its reply); check that the address is of an "
            "OpenAI-compatible API"
        ) from None


def _vector(sent: str | Sequence[float]) -> NDArray[np.float32]:
    import numpy as np

    if isinstance(sent, str):
        vector = np.frombuffer(base64.b64decode(sent, validate=True), dtype="<f4")
    else:
        vector = np.array(sent, dtype=np.float32)
    if vector.ndim != 1 or not vector.size:
        raise ValueError("no vector")
    return vector
