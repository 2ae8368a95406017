"""The wheel, built and unpacked into a folder of its own, does what the checkout does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.places import LIBRARY, ROOT

pytestmark = pytest.mark.integration

NAMES = {"pincite", "assets", "resources", "pipelines"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip would put into site-packages."""
    built, installed = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)]
    made = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    return installed


def run(installed: Path, *arguments: str | Path, folder: Path) -> str:
    """Output of the command of that folder's packages, from another one."""
    code = "import sys; from pincite.cli import main; sys.argv[0] = 'pincite'; main()"
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code, *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_it_claims_no_name_but_those_of_the_layers(installed: Path) -> None:
    found = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert found == NAMES


def test_it_has_every_file_of_the_packages_and_folders(installed: Path) -> None:
    def files(folder: Path) -> set[str]:
        found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {str(path.relative_to(folder)) for path in found}

    for name in NAMES - {"pincite"}:
        assert files(installed / name) == files(ROOT / name)
    within = {name for name in files(installed / "pincite") if not name.startswith("shipped/")}
    assert within == files(ROOT / "pincite")
    shipped = installed / "pincite" / "shipped"
    assert files(shipped / "sql") == files(ROOT / "sql")
    assert files(shipped / "prompts") == files(ROOT / "prompts")
    assert files(shipped / "example" / "library") == files(LIBRARY)


def test_its_licence_and_languages_are_told(installed: Path) -> None:
    (about,) = installed.glob("pincite-*.dist-info")
    told = (about / "METADATA").read_text(encoding="utf-8")
    assert "License-Expression: Apache-2.0" in told and (about / "licenses" / "LICENSE").is_file()
    assert "Programming Language :: Python :: 3.11" in told


def test_dagster_loads_its_code_location_in_any_folder(installed: Path, tmp_path: Path) -> None:
    code = "import pincite.definitions as found; print(found.__file__, found.defs().resolve_job_def('index').name)"
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert ran.stdout.split() == [str(installed / "pincite" / "definitions.py"), "index"], ran.stderr


def test_prompts_and_statements_are_read_from_it(installed: Path, tmp_path: Path) -> None:
    code = (
        "from resources import prompts; from resources.postgres import statements\n"
        "from resources.evaluation import matrix\n"
        "print(len(prompts.read_prompts()), len(statements.migrations()), prompts._FOLDER, matrix._code())"
    )
    run_code = [sys.executable, "-P", "-c", code]
    environments = [{**os.environ, "PYTHONPATH": str(path)} for path in (installed, ROOT)]
    wheel, checkout = (
        subprocess.run(run_code, cwd=tmp_path, env=each, capture_output=True, text=True).stdout.split()
        for each in environments
    )
    assert wheel[2] == str(installed / "pincite" / "shipped" / "prompts")
    assert checkout[2] == str(ROOT / "prompts")
    assert [wheel[0], wheel[1], wheel[3]] == [checkout[0], checkout[1], checkout[3]]


def test_the_command_runs_from_it(installed: Path, tmp_path: Path) -> None:
    assert run(installed, "--version", folder=tmp_path).startswith("pincite, version ")


@pytest.mark.faults
def test_the_example_library_is_indexed_asked_and_served_from_it(installed: Path, tmp_path: Path) -> None:
    made = json.loads(run(installed, "demo", "--json", folder=tmp_path))
    assert made["written"] and made["index"]["published"] and made["index"]["documents"]["added"] == 10
    hits = [hit for answer in made["answers"] for hit in answer["hits"]]
    assert [(hit["uri"], hit["page_start"]) for hit in hits] == [
        ("proposals/harbour-records-proposal.docx", None),
        ("policies/travel-policy-2026.pdf", 2),
        ("matrices/retention-matrix.xlsx", None),
        ("ukrainian/rules-of-storage.md", None),
    ]
    assert made["serve"] == "pincite serve --config pincite-demo/pincite.yaml"
    assert {path.name for path in tmp_path.iterdir()} == {"pincite-demo"}
    again = json.loads(run(installed, "demo", "--json", folder=tmp_path))
    assert not again["written"] and again["index"]["documents"]["unchanged"] == 10
    folder = tmp_path / "pincite-demo"
    own = json.loads(run(installed, "index", "--source", folder / "library" / "notes", "--json", folder=tmp_path))
    assert own["published"] and (tmp_path / ".pincite").is_dir()
