from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from resources.models import text_models
from resources.models.text_models import FEW_CALLS, TextModels, detect_language, map_languages
from tests.support.places import ROOT

TEXT = "Records go to P.O. Box 12. They are kept in the U.S. Treasury. She has hepatitis B. Medicare pays for that."


LANGUAGES = {
    "en": "Records are kept for seven years, and the board approves each exception.",
    "uk": "Правила зберігання документів в архіві затверджує щороку рада.",
    "de": "Der Antrag ist bis zum Monatsende beim Amt einzureichen.",
    "ja": "就業規則 第一条 この規則は社員に適用する。",
    "": "hi",
}


@contextmanager
def refused() -> Iterator[None]:
    raise AssertionError("a model was loaded")
    yield


Loading = Callable[[], AbstractContextManager[None]]


def counting(loads: list[str]) -> Loading:
    """Return a context that notes in `loads` that it was entered."""

    @contextmanager
    def loading() -> Iterator[None]:
        loads.append("begun")
        yield

    return loading


@pytest.fixture(scope="module")
def english() -> tuple[TextModels, list[str]]:
    """Models that all tests here share, with what they have loaded."""
    loads: list[str] = []
    return TextModels(counting(loads)), loads


@pytest.mark.slow
def test_a_model_is_asked_where_the_rules_are_in_doubt_and_loaded_once(english: tuple[TextModels, list[str]]) -> None:
    models, loads = english
    for _ in range(2):
        (spans,) = models.split([TEXT], "en")
        assert [TEXT[start:end] for start, end in spans][:2] == [
            "Records go to P.O. Box 12.",
            "They are kept in the U.S. Treasury.",
        ]
    assert loads == ["begun"]


def test_static_vectors_of_few_texts_are_those_of_the_whole_vocabulary_which_more_texts_load() -> None:
    loads: list[str] = []
    loading = counting(loads)
    models, texts = TextModels(loading), [TEXT, "Строк зберігання — 5 років."]
    made = [models.watching(loading).passages(texts) for _ in range(FEW_CALLS)]
    assert len(loads) == 1
    made += [models.watching(loading).passages(texts) for _ in range(2)]
    assert len(loads) == 2
    assert np.array_equal(made[0], made[-1]) and made[0].any()


@pytest.mark.slow
def test_a_model_divides_text_without_capital_letters(english: tuple[TextModels, list[str]]) -> None:
    text = "The food is mediocre at best. the waitress took my name and then left. Lee et al. agree."
    assert english[0].split([text], "en") == [[(0, 29), (30, 70), (71, 88)]]


def test_a_language_without_a_model_is_divided_by_rule() -> None:
    models = TextModels(refused)
    assert models.split(["Строк зберігання — 5 років. Див. ст. 12 Порядку."], "uk") == [[(0, 27), (28, 48)]]


def test_no_model_is_asked_where_the_rules_can_tell_or_the_text_is_in_another_script() -> None:
    models = TextModels(refused)
    assert models.split(["It is kept by Acme Inc. Leeds. It is old."], "en") == [[(0, 30), (31, 41)]]
    text = "Пацієнти з вірусом гепатиту С. Загострення можливі."
    assert models.split([text], "en") == [[(0, len(text))]]


@pytest.mark.slow
def test_torch_and_commands_are_not_imported_for_a_segmenter_and_can_be_later(tmp_path: Path) -> None:
    """A module stands in for torch, whose import takes seconds."""
    (tmp_path / "torch.py").write_text("tensor = list\n")
    said = (
        "import sys; from resources.models.text_models import TextModels; "
        f"TextModels().split([{TEXT!r}], 'en'); "
        "assert 'spacy' in sys.modules and not {'torch', 'spacy.cli', 'typer'} & sys.modules.keys(); "
        "import torch; torch.tensor([1]); import spacy.cli; spacy.cli.info()"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    subprocess.run([sys.executable, "-c", said], cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=True)


# ---------------------------------------------------------------- the language of a text


@pytest.fixture(scope="module")
def packaged() -> Any:
    """The model as py3langid loads it, which takes a second."""
    return text_models._packaged_identifier()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packaged: Any) -> Iterator[Path]:
    """An empty cache of the user, and a process that has unpacked nothing."""
    monkeypatch.setenv("PINCITE_CACHE", str(tmp_path))
    monkeypatch.setattr(text_models, "_mapped", {})
    monkeypatch.setattr(text_models, "_packaged_identifier", lambda: packaged)
    text_models._identifier.cache_clear()
    yield tmp_path
    text_models._identifier.cache_clear()


def test_the_unpacked_model_of_languages_tells_what_the_packaged_one_does(
    cache: Path, packaged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    map_languages()
    assert not any(cache.iterdir()), "only who loads all models unpacks it"
    map_languages(make=True)
    monkeypatch.setattr(text_models, "_packaged_identifier", refused)
    assert {code: detect_language(text) for code, text in LANGUAGES.items()} == {code: code for code in LANGUAGES}
    own = text_models._identifier()
    assert own is not packaged
    assert all(own.rank(text) == packaged.rank(text) for text in [*LANGUAGES.values(), "", TEXT * 50])


DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": lambda file: file.unlink(),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-9]),
    "empty": lambda file: file.write_bytes(b""),
    "in an empty folder": lambda file: list(map(Path.unlink, file.parent.iterdir())),
}


def test_an_unpacked_model_that_is_damaged_is_left_until_it_is_made_again(cache: Path) -> None:
    map_languages(make=True)
    for name, damage in DAMAGE.items():
        text_models._mapped.clear()
        (moves,) = cache.rglob("tk_nextmove.npy")
        damage(moves)
        map_languages()
        assert text_models._mapped == {} and detect_language(LANGUAGES["uk"]) == "uk", name
        map_languages(make=True)
        assert text_models._mapped, name


def test_arrays_that_do_not_fit_one_another_are_left(cache: Path) -> None:
    map_languages(make=True)
    text_models._mapped["nb_pc"] = text_models._mapped["nb_pc"][:-1]
    assert detect_language(LANGUAGES["uk"]) == "uk"


def test_a_user_without_a_home_reads_documents_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_models, "_mapped", {})
    monkeypatch.setattr("resources.models.user_cache.cache_folder", Mock(side_effect=RuntimeError("no home")))
    map_languages(make=True)
    assert text_models._mapped == {}


def test_the_next_unpacking_removes_what_a_killed_one_left(cache: Path) -> None:
    old, young = cache / "models" / "unpacking-old", cache / "models" / "unpacking-young"
    for folder in (old, young):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    map_languages(make=True)
    assert not old.exists() and young.exists()
