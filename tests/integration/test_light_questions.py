"""Questions embedded without torch: vectors are those of the passages, and a command loads nothing else for them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.settings.models import EmbedderSettings
from resources.models.embedders import light, transformer
from resources.models.embedders.light import LightEmbedder, light_embedder
from resources.models.embedders.specs import ENGLISH, MULTILINGUAL, preset_spec
from resources.models.embedders.transformer import TransformerEmbedder, model_location
from tests.support.direct_runs import quick_runs
from tests.support.places import ROOT
from tests.support.projects import Project, make_project

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
HEAVY = ("torch", "transformers", "sentence_transformers", "dagster", "polars", "spacy", "sklearn", "openai", "scipy")


def embedder(name: str) -> LightEmbedder:
    made = light_embedder(preset_spec(name, EmbedderSettings()))
    assert made is not None
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", [ENGLISH, pytest.param(MULTILINGUAL, marks=pytest.mark.faults)])
def test_vectors_are_those_of_the_embedder_of_passages(name: str) -> None:
    wanted = TransformerEmbedder(preset_spec(name, EmbedderSettings()), dtype="float32").queries(TEXTS)
    found = embedder(name).queries(TEXTS)
    assert found.shape == wanted.shape == (len(TEXTS), 384)
    assert np.abs(found - wanted).max() < 1e-4
    assert np.allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-5)


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


@pytest.mark.slow
def test_a_question_by_command_loads_nothing_that_is_heavy(server_url: str, tmp_path: Path) -> None:
    with quick_runs():
        project: Project = make_project(tmp_path / "project", embedder={"preset": ENGLISH})
        project.index()
    for command in ("query", "ask"):
        arguments = [command, "who holds the vault key", "--json", "--config", str(project.config)]
        ran = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "pincite.cli", *arguments],
            capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr[-2000:]
        assert json.loads(ran.stdout)["hits"][0]["uri"] == "archive/keys.md"
        imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in ran.stderr.splitlines()}
        assert "numpy" in imported and not imported & set(HEAVY)
