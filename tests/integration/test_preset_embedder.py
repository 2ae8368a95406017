"""The shipped presets without torch, and what commands import."""

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

from pipelines.errors import ModelError
from pipelines.settings.models import EmbedderSettings
from resources.models.embedders import preset
from resources.models.embedders.e5_weights import FewTexts
from resources.models.embedders.loaded import make_embedder
from resources.models.embedders.preset import PresetEmbedder, native_bfloat16, preset_embedder, preset_folder
from resources.models.embedders.specs import ENGLISH, MULTILINGUAL, preset_spec
from resources.models.embedders.transformer import TransformerEmbedder
from tests.support.direct_runs import quick_runs
from tests.support.places import ROOT
from tests.support.projects import DOCUMENTS, Project, make_project, new_database
from tests.support.varied_texts import TEXTS

pytestmark = pytest.mark.integration


def embedder(name: str, dtype: str = "float32") -> PresetEmbedder:
    made = preset_embedder(preset_spec(name, EmbedderSettings()), dtype)
    assert made is not None
    return made


@pytest.fixture(scope="module")
def english() -> PresetEmbedder:
    return embedder(ENGLISH)


@pytest.mark.faults
def test_more_questions_are_divided_by_the_whole_vocabulary_and_have_the_same_vectors() -> None:
    made, asked = embedder(MULTILINGUAL), TEXTS[:5]
    first = made.queries(asked)
    with mock.patch.object(FewTexts, "encode", autospec=True, side_effect=FewTexts.encode) as divided:
        answers = [made.queries(asked) for _ in range(preset.FEW_CALLS)]
    assert 0 < divided.call_count < preset.FEW_CALLS
    assert all(np.allclose(answer, first, atol=1e-6) for answer in answers)


@pytest.mark.faults
def test_many_characters_are_divided_by_the_whole_vocabulary_at_once() -> None:
    with mock.patch.object(FewTexts, "encode", side_effect=AssertionError("it is slow for many")):
        embedder(MULTILINGUAL).pieces(["слово " * (preset.FEW_CHARACTERS // 5)])


def test_a_passage_has_the_same_vector_whatever_is_beside_it(english: PresetEmbedder) -> None:
    told = list[tuple[int, int]]()
    together = english.passages(TEXTS, lambda done, of: told.append((done, of)))
    alone = np.concatenate([english.passages([text]) for text in TEXTS])
    assert np.allclose(together, alone, atol=1e-5)
    assert told[-1][0] == told[-1][1] >= len(TEXTS)


def test_threads_get_what_one_gets(english: PresetEmbedder) -> None:
    questions = [[f"question {number} of many"] for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(english.queries, questions))
    assert all(np.allclose(one, english.queries(asked), atol=1e-6) for one, asked in zip(found, questions, strict=True))


def test_a_batch_that_fails_leaves_its_request_to_the_next() -> None:
    made = embedder(ENGLISH)
    too_long = [[1] * (made.window + preset.BATCH_TOKENS)]
    for _ in range(preset.threads() + 1):
        with pytest.raises(ValueError, match="broadcast"):
            made._forward(too_long, False)
    assert len(made.queries(["a question"])) == 1


@pytest.mark.parametrize("broken", ["missing", "cut"])
def test_weights_that_cannot_be_read_are_told_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    shutil.copytree(preset_folder(ENGLISH), tmp_path / "model")
    weights = tmp_path / "model" / preset.WEIGHTS
    weights.unlink() if broken == "missing" else os.truncate(weights, 1000)
    monkeypatch.setattr(preset, "preset_folder", lambda _: tmp_path / "model")
    with pytest.raises(ModelError, match=r"'english-small' cannot be loaded: .*install pincite's packages again"):
        embedder(ENGLISH).load()


def test_half_precision_is_never_asked_of_a_processor_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preset, "native_bfloat16", lambda: False)
    assert not embedder(ENGLISH, "bfloat16")._bfloat16


@pytest.mark.slow
def test_half_precision_gives_almost_the_same_vectors(english: PresetEmbedder) -> None:
    full, half = english.passages(TEXTS), embedder(ENGLISH, "bfloat16").passages(TEXTS)
    assert (np.sum(full * half, axis=1) > 0.999).all()


@pytest.mark.parametrize(
    ("flags", "limit", "native"),
    [("avx2 avx512_bf16", "", True), ("amx_bf16", "", True), ("avx512f", "", False), ("avx512_bf16", "AVX2", False),
     ("avx512_bf16", "avx512_core_bf16", True)],
)  # fmt: skip
def test_half_precision_is_taken_where_the_processor_has_it(
    monkeypatch: pytest.MonkeyPatch, flags: str, limit: str, native: bool
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda self, encoding: f"model name: x\nflags : fpu {flags}\n")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert native_bfloat16() is native


def test_the_presets_need_no_torch_unless_there_is_a_graphics_card(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = preset_spec(ENGLISH, EmbedderSettings())
    for card, kind in ((False, PresetEmbedder), (True, TransformerEmbedder)):
        monkeypatch.setattr(preset, "_has_card", lambda card=card: card)
        assert isinstance(make_embedder(spec, EmbedderSettings()), kind)


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
    ignored = shutil.ignore_patterns("*.safetensors", "*.md")
    shutil.copytree(preset_folder(spec.name), tmp_path / "model", ignore=ignored)
    monkeypatch.setattr(preset, "preset_folder", lambda _: tmp_path / "model")
    assert preset_embedder(spec) is not None
    named = tmp_path / "model" / file
    named.write_text(json.dumps(json.loads(named.read_text(encoding="utf-8")) | change), encoding="utf-8")
    assert preset_embedder(spec) is None


# ---------------------------------------------------------------- what commands import

HEAVY = ("torch", "transformers", "sentence_transformers", "spacy", "sklearn", "openai", "scipy")
RUN = ("dagster", "polars", "sqlalchemy", "assets")
WORK = (
    *("pipelines.indexing", "pipelines.ports", "resources.documents", "resources.llm", "resources.workers"),
    *("resources.stages.embeddings", "resources.stages.enrichment", "resources.stages.in_worker"),
)
"""Modules that make documents."""
CHANGED = (
    *("numpy", "pyarrow", "snowballstemmer", "resources.checks", "resources.generations.publish"),
    *("resources.generations.direct_run", "resources.dagster_instance.run_history", "resources.postgres.postings"),
    *("resources.models.embedders.loaded", "resources.state.access"),
)
"""Modules that compare, check and publish a change."""


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
    assert "openvino" in imported and not imported & {*HEAVY, *RUN}
    assert not imported & {"openvino_telemetry", "openvino.tools"}, "it sends nothing"


@pytest.mark.slow
def test_a_run_imports_what_its_changes_and_golden_questions_need(project: Project) -> None:
    said, imported = imported_by(project, "index")
    assert said["documents"]["unchanged"] == len(DOCUMENTS)
    assert imported & {*HEAVY, *RUN, *WORK, *CHANGED} == set(), "nothing changed"

    lines = [{"id": "1", "question": "who holds the vault key", "gold": [{"uri": "archive/keys.md"}]}]
    (project.folder / "golden.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    project.configure(publish={"golden": "golden.jsonl"})
    project.write("archive/keys.md", DOCUMENTS["archive/keys.md"] + "The second key is in the safe.\n")
    said, imported = imported_by(project, "index")
    assert said["documents"]["changed"] == 1 and said["embedded"]["chunks"] == 1
    assert not imported & {*HEAVY, *RUN}, "few texts were embedded, and no job was run"

    (project.docs / "suppliers.csv").unlink()
    said, imported = imported_by(project, "index")
    assert said["documents"]["removed"] == 1
    unused = {*HEAVY, *RUN, *WORK} - {"pipelines.indexing", "pipelines.ports", "resources.stages.embeddings"}
    assert imported & {*unused, "tokenizers", "safetensors"} == set(), "neither texts nor the question were embedded"
    assert "resources.evaluation.golden" in imported, "it was asked"


@pytest.mark.slow
def test_a_first_run_needs_no_torch(server_url: str, tmp_path: Path) -> None:
    with new_database(server_url) as url:
        few = {"keys.md": DOCUMENTS["archive/keys.md"]}
        said, imported = imported_by(make_project(tmp_path, few, database=url, embedder={"preset": ENGLISH}), "index")
    assert said["documents"]["added"] == 1 and said["published"]
    assert "dagster" in imported and not imported & set(HEAVY)
