"""Questions and few texts embedded without torch: vectors are the same, and commands import nothing else for them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from pipelines.settings.models import EmbedderSettings
from resources.models.embedders import light, transformer
from resources.models.embedders.e5_weights import FewTexts
from resources.models.embedders.light import LightEmbedder, light_embedder
from resources.models.embedders.loaded import Embedders
from resources.models.embedders.specs import ENGLISH, MULTILINGUAL, preset_spec
from resources.models.embedders.transformer import TransformerEmbedder, model_location
from tests.support.direct_runs import quick_runs
from tests.support.places import ROOT
from tests.support.projects import DOCUMENTS, Project, make_project

pytestmark = pytest.mark.integration

TEXTS = (
    "how long are logs kept?",
    "hotel",
    "",
    "Яка температура має бути у сховищі?",
    "东京的酒店限额是多少",
    "  blanks\n\tand  lines ",
    "😀 naïve ünïcödé",
    "word " * 1200,
    "x" * 3000,
)


def embedder(name: str) -> LightEmbedder:
    made = light_embedder(preset_spec(name, EmbedderSettings()))
    assert made is not None
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", [ENGLISH, pytest.param(MULTILINGUAL, marks=pytest.mark.faults)])
def test_vectors_are_those_of_the_embedder_of_passages(name: str) -> None:
    whole, light = TransformerEmbedder(preset_spec(name, EmbedderSettings()), dtype="float32"), embedder(name)
    for wanted, found in (
        (whole.queries(TEXTS), light.queries(TEXTS)),
        (whole.passages(TEXTS), light.passages(TEXTS)),
    ):
        assert found.shape == wanted.shape == (len(TEXTS), 384)
        assert np.abs(found - wanted).max() < 1e-4
        assert np.allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-5)
    assert light.tokens == whole.tokens, "their cost is counted alike"


@pytest.mark.faults
def test_more_questions_are_divided_by_the_whole_vocabulary_and_have_the_same_vectors() -> None:
    made, asked = embedder(MULTILINGUAL), TEXTS[:5]
    first = made.queries(asked)
    with mock.patch.object(FewTexts, "ids", autospec=True, side_effect=FewTexts.ids) as divided:
        answers = [made.queries(asked) for _ in range(light.FEW_CALLS)]
    assert 0 < divided.call_count < light.FEW_CALLS
    assert all(np.array_equal(answer, first) for answer in answers)


def test_a_passage_has_the_same_vector_whatever_is_beside_it() -> None:
    made, told = embedder(ENGLISH), list[tuple[int, int]]()
    together = made.passages(TEXTS, lambda done, of: told.append((done, of)))
    assert all(np.array_equal(together[row], made.passages([text])[0]) for row, text in enumerate(TEXTS))
    assert told[-1][0] == told[-1][1] == len(told)


def test_many_texts_are_left_to_the_embedder_of_many_which_then_takes_the_few_too() -> None:
    spec, made = preset_spec(ENGLISH, EmbedderSettings()), Embedders()
    assert isinstance(made.ready_for_few(spec, EmbedderSettings()), LightEmbedder)
    with mock.patch.object(TransformerEmbedder, "load"):
        many = made.ready(spec, EmbedderSettings())
    assert isinstance(many, TransformerEmbedder)
    assert made.ready_for_few(spec, EmbedderSettings()) is many


def test_threads_get_what_one_gets() -> None:
    made, questions = embedder(ENGLISH), [[f"question {number} of many"] for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(made.queries, questions))
    assert all(np.array_equal(one, made.queries(asked)) for one, asked in zip(found, questions, strict=True))


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("config.json", {"hidden_act": "relu"}),
    ("config.json", {"model_type": "roberta"}),
    ("config.json", {"position_embedding_type": "relative_key"}),
    ("1_Pooling/config.json", {"pooling_mode_cls_token": True}),
    ("1_Pooling/config.json", {"pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": True}),
]


@pytest.mark.parametrize(("file", "change"), CHANGES)
def test_a_model_of_another_form_is_left_to_what_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, change: dict[str, Any]
) -> None:
    spec = preset_spec(ENGLISH, EmbedderSettings())
    shutil.copytree(model_location(spec), tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors", "*.md"))
    monkeypatch.setattr(transformer, "model_location", lambda _: str(tmp_path / "model"))
    assert light.light_embedder(spec) is not None
    named = tmp_path / "model" / file
    named.write_text(json.dumps(json.loads(named.read_text(encoding="utf-8")) | change), encoding="utf-8")
    assert light.light_embedder(spec) is None


# ---------------------------------------------------------------- what commands import

HEAVY = ("torch", "transformers", "sentence_transformers", "spacy", "sklearn", "openai", "scipy")
RUN = ("dagster", "polars", "sqlalchemy", "assets")
CHANGED = ("pyarrow.compute", "snowballstemmer")


@pytest.fixture(scope="module")
def project(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Project:
    made: Project = make_project(tmp_path_factory.mktemp("light"), embedder={"preset": ENGLISH})
    with quick_runs():
        made.index()
    (made.state / "dagster").mkdir()  # a state without it is one of a first run, which imports Dagster at once
    return made


def imported_by(project: Project, *arguments: str) -> tuple[Any, set[str]]:
    """Return the JSON of a command, and the names of the modules and packages that its process imports."""
    command = [sys.executable, "-X", "importtime", "-m", "pincite.cli", *arguments]
    ran = subprocess.run(
        [*command, "--json", "--config", str(project.config)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    modules = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines() if line.startswith("import time:")}
    return json.loads(ran.stdout), modules | {name.partition(".")[0] for name in modules}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["query", "ask"])
def test_a_question_by_command_loads_nothing_that_is_heavy(project: Project, command: str) -> None:
    said, imported = imported_by(project, command, "who holds the vault key")
    assert said["hits"][0]["uri"] == "archive/keys.md"
    assert "numpy" in imported and not imported & {*HEAVY, *RUN}


@pytest.mark.slow
def test_a_run_imports_what_its_changes_need(project: Project) -> None:
    said, imported = imported_by(project, "index")
    assert said["documents"]["unchanged"] == len(DOCUMENTS)
    assert not imported & {*HEAVY, *RUN, *CHANGED}, "nothing changed"

    project.write("archive/keys.md", DOCUMENTS["archive/keys.md"] + "The second key is in the safe.\n")
    said, imported = imported_by(project, "index")
    assert said["documents"]["changed"] == 1 and said["embedded"]["chunks"] == 1
    assert not imported & {*HEAVY, "dagster", "sqlalchemy", "assets"}, "few texts were embedded, and no job was run"

    (project.docs / "archive/keys.md").unlink()
    said, imported = imported_by(project, "index")
    assert said["documents"]["removed"] == 1
    assert not imported & {*HEAVY, "dagster", "sqlalchemy", "assets"}, "nothing was embedded, and no job was run"


@pytest.mark.slow
def test_golden_questions_are_embedded_by_the_first_run_that_asks_them(project: Project) -> None:
    lines = [{"id": "1", "question": "who holds the vault key", "gold": [{"uri": "archive/keys.md"}]}]
    (project.folder / "golden.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    project.configure(publish={"golden": "golden.jsonl"})
    project.write("extra.txt", "The porter locks the gate at nine in the evening, whatever the season.\n")
    project.index()
    (project.docs / "extra.txt").unlink()
    said, imported = imported_by(project, "index")
    assert said["documents"]["removed"] == 1
    assert "resources.evaluation.golden" in imported, "the question was asked"
    assert not imported & {*HEAVY, "dagster", "tokenizers", "safetensors"}, "its vector was known"
