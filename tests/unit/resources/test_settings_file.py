"""Folders that settings name are the settings file's neighbours, whatever the current folder holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import ModelError, SettingsError
from resources.models.embedders.specs import named_spec
from resources.models.safe_weights import model_place
from resources.settings_file import Project, locate, misspelt_variables

NAME = "sentences/fine-model"


def make_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def settings(folder: Path, embedder: str, reranker: str = "{}") -> Project:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pincite.yaml"
    file.write_text(f"embedder: {embedder}\nquery: {{cross_encoder: {reranker}}}\n")
    return locate(config=str(file))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: documents, one of them a folder with the name of the model."""
    make_model(tmp_path / "docs" / NAME)
    monkeypatch.chdir(tmp_path / "docs")
    return tmp_path / "docs"


@pytest.mark.parametrize("written", [NAME, f"./{NAME}"])
def test_a_relative_model_is_beside_the_settings_file(tmp_path: Path, elsewhere: Path, written: str) -> None:
    own = make_model(tmp_path / "project" / NAME)
    found = settings(tmp_path / "project", f"{{model: {written}}}", f"{{model: {written}}}").settings
    assert found.embedder.model == found.query.cross_encoder.model == str(own)
    assert model_place(str(own), None, "embedder", "embedder") == str(own)


def test_a_folder_of_the_current_folder_is_no_model(tmp_path: Path, elsewhere: Path) -> None:
    found = settings(tmp_path / "project", f"{{model: {NAME}}}").settings.embedder
    assert found.model == NAME
    with pytest.raises(SettingsError, match="is not a folder beside the settings file"):
        model_place(NAME, found.revision, "embedder", "embedder")


def test_a_name_on_a_hub_is_not_read_from_the_current_folder(tmp_path: Path, elsewhere: Path) -> None:
    revision = "0123456789abcdef"
    named = f"{{model: {NAME}, revision: {revision}}}"
    found = settings(elsewhere, named, named).settings
    assert found.embedder.model == found.query.cross_encoder.model == NAME
    with pytest.raises(ModelError, match="the current folder has something of that name"):
        model_place(NAME, revision, "embedder", "embedder")


def test_a_name_on_a_hub_has_the_same_identity_everywhere(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = settings(tmp_path / "project", f"{{model: {NAME}, revision: abc}}").settings.embedder
    here = named_spec(found).identity
    monkeypatch.chdir(tmp_path)
    assert named_spec(found).identity == here
    assert model_place(NAME, "abc", "embedder", "embedder") == NAME


def test_an_error_of_yaml_names_its_line_and_column_and_shows_it(tmp_path: Path) -> None:
    file = tmp_path / "pincite.yaml"
    file.write_text("sources:\n - name: a\n  path: b\n")
    with pytest.raises(SettingsError) as raised:
        locate(config=str(file))
    assert str(raised.value).startswith(f"{file}, line 3, column 3: not valid YAML (")
    assert str(raised.value).endswith("): path: b")
    file.write_text("sources: [")
    with pytest.raises(SettingsError, match=r"line 1, column 11: not valid YAML .*: the end of the file|sources: \["):
        locate(config=str(file))


def test_a_wrong_time_zone_names_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "pincite.yaml"
    file.write_text("schedule: {timezone: Europe/Kiyv}\n")
    with pytest.raises(
        SettingsError, match=r"'schedule.timezone': unknown time zone 'Europe/Kiyv'; did you mean 'Europe/Kyiv'"
    ):
        locate(config=str(file))


def test_settings_under_another_ending_are_not_left_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pincite.yml").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=r"pincite.yml is not read; rename it to pincite.yaml"):
        locate(variables={})
    assert locate(config=str(tmp_path / "pincite.yml")).file == tmp_path / "pincite.yml"


def test_a_folder_is_no_settings_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is a folder; name a file with --config"):
        locate(config=str(tmp_path))


def test_a_variable_that_is_nearly_one_of_ours_is_named() -> None:
    (note,) = misspelt_variables({"PINCITE_CONFG": "", "PINCITE_STATE": "", "PINCITE_API_KEY": "", "PING": ""})
    assert note == "the environment variable PINCITE_CONFG is not read; did you mean PINCITE_CONFIG?"
