"""Each thing that `pincite doctor` finds fault with, by making it so."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipelines.errors import IndexStateError
from pipelines.settings.base import Settings, settings_from
from resources.reports.doctor import examine as project
from resources.reports.doctor import machine
from resources.reports.doctor import machine as installation
from resources.reports.doctor.examine import _clocks, _server, _vector, examine
from resources.reports.doctor.finding import Finding, looked_at, ok
from resources.settings_file import locate
from resources.workers.sandbox import LAYERS
from tests.support.projects import make_project, run_command

SECRET = "not-to-be-shown"


def only(found: Iterator[Finding]) -> Finding:
    (finding,) = found
    return finding


def severities(found: Iterator[Finding]) -> list[str]:
    return [finding.severity for finding in found]


# ---------------------------------------------------------------- the installation


def test_versions_of_python() -> None:
    assert only(installation.python()).severity == "ok"
    assert only(installation.python((3, 10, 4))).severity == "failure"
    assert "3.11 to 3.13" in only(installation.python((3, 14, 0))).found


def test_a_python_without_a_module_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "_sqlite3", None)
    assert "was compiled without sqlite3" in only(installation.python()).found


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages with one installed as `pretend`, of a layer and a file of its own."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "__init__.py").write_text("")
    about = tmp_path / "pretend-1.dist-info"
    about.mkdir()
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"").digest()).rstrip(b"=").decode()
    (about / "RECORD").write_text(f"resources/__init__.py,sha256={digest},0\npretend-1.dist-info/METADATA,,\n")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pretend\nVersion: 1\n")
    return tmp_path


def needing(folder: Path, *requirements: str) -> None:
    lines = "".join(f"Requires-Dist: {each}\n" for each in requirements)
    (folder / "pretend-1.dist-info" / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: pretend\nVersion: 1\n{lines}"
    )


def test_packages_that_are_missing_or_of_another_version_are_named(distribution: Path) -> None:
    needing(distribution, "numpy>=2", "no-such-package>=1", "pyyaml>=999", "windows-only; sys_platform == 'win32'")
    found, *extras = installation.packages("pretend")
    assert found.severity == "failure" and "own" in found.remedy
    assert found.found.startswith("no-such-package is not installed; pyyaml>=999 is needed, and ")
    assert {each.severity for each in extras} == {"ok"}


def test_an_extra_that_is_missing_is_a_warning_with_its_command(distribution: Path) -> None:
    needing(distribution, "numpy", 'no-such-package; extra == "mcp"', 'pyyaml; extra == "formats"')
    found = {each.name: each for each in installation.packages("pretend")}
    assert [found[name].severity for name in ("packages", "extra formats", "extra mcp")] == ["ok", "ok", "warning"]
    assert "pip install 'pincite[mcp]'" in found["extra mcp"].remedy


def test_the_extras_of_the_settings_are_those_that_are_looked_for() -> None:
    """They are those of the project's file that are for its users; a source or setting that lacks its own says so
    itself, and so does Dagster of a launcher or a storage that its own settings name."""
    import tomllib

    from tests.support.places import ROOT

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    apart = {"compare", "ui", "dev", "gs", "az", "codes", "ocr", "distributed", "kubernetes"}
    assert declared.keys() - apart == installation.EXTRAS.keys()


def test_a_file_that_another_package_has_written_over_is_named(distribution: Path) -> None:
    assert only(installation.own_files("pretend")).severity == "ok"
    (distribution / "resources" / "__init__.py").write_text("theirs = True\n")
    found = only(installation.own_files("pretend"))
    assert found.severity == "failure" and "such as resources/__init__.py; another package" in found.found


def test_sources_that_are_not_installed_are_no_fault() -> None:
    assert only(installation.packages("no-such-package")).severity == "ok"
    assert not list(installation.own_files("no-such-package"))


@pytest.mark.parametrize(
    ("cuda", "gpu", "severity", "said"),
    [
        ("None", False, "ok", "torch 9.9, a CPU build; there is no GPU"),
        ("None", True, "warning", "cannot use"),
        ("'13.0'", False, "warning", "gigabytes for nothing"),
        ("'13.0'", True, "ok", "torch 9.9, for CUDA 13.0"),
    ],
)
def test_builds_of_torch(tmp_path: Path, cuda: str, gpu: bool, severity: str, said: str) -> None:
    (tmp_path / "version.py").write_text(
        f"__version__ = '9.9'\ndebug = False\ncuda: Optional[str] = {cuda}\nhip = None\n"
    )
    found = only(installation.torch(tmp_path, tmp_path if gpu else tmp_path / "none"))
    assert found.severity == severity and said in found.found


def test_the_build_of_torch_that_is_installed_is_told() -> None:
    assert f"torch {importlib.metadata.version('torch')}" in only(installation.torch()).found


def test_models_that_ship_are_found() -> None:
    found = list(installation.models(Settings()))
    assert [each.name for each in found] == ["model english-small", "model multilingual-small"]
    assert severities(iter(found)) == ["ok", "ok"]


def test_a_shipped_model_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "package_folder", lambda package: tmp_path)
    monkeypatch.setattr("resources.models.embedders.e5_weights.package_folder", lambda package: tmp_path)
    assert severities(installation.models(Settings())) == ["failure", "failure"]


def test_a_model_of_ones_own_is_looked_at(tmp_path: Path) -> None:
    given = settings_from({"embedder": {"model": str(tmp_path)}})
    found = only(looked_at("models", lambda: installation.models(given)))
    assert found.severity == "failure" and "the folder has no config.json" in found.found


# ---------------------------------------------------------------- the machine


@pytest.mark.parametrize(("gigabytes", "severity"), [(0.5, "failure"), (2, "warning"), (8, "ok")])
def test_memory(monkeypatch: pytest.MonkeyPatch, gigabytes: float, severity: str) -> None:
    monkeypatch.setattr(machine, "memory_bytes", lambda: int(gigabytes * machine.GB))
    assert only(machine.memory()).severity == severity


def test_the_limit_of_a_container_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "limit").write_text(f"{machine.GB // 2}\n")
    monkeypatch.setattr(machine, "_LIMITS", (str(tmp_path / "max"), str(tmp_path / "none"), str(tmp_path / "limit")))
    assert machine.memory_bytes() == machine.GB // 2


@pytest.mark.parametrize(("gigabytes", "severity"), [(0.5, "failure"), (3, "warning"), (50, "ok")])
def test_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gigabytes: float, severity: str) -> None:
    monkeypatch.setattr(machine, "free_bytes", lambda folder: int(gigabytes * machine.GB))
    found = only(machine.disk(tmp_path / "not" / "there"))
    assert found.severity == severity and f"free at {tmp_path}" in found.found


def test_a_network_disk_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.disk_kind(Path("/proc/self")) == "proc"
    monkeypatch.setattr(machine, "disk_kind", lambda folder: "nfs4")
    assert list(machine.disk(tmp_path))[-1].found.endswith("(nfs4), on which Postgres and SQLite lose data")


def test_a_state_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is a file" in only(machine.state_rights(tmp_path / "file" / "state")).found
    found = only(machine.state_rights(Path("/proc/state")))  # where nobody can make a file, root neither
    assert found.severity == "failure" and found.found.startswith("/proc cannot be written to by this user: ")
    assert only(machine.state_rights(tmp_path / "state")).severity == "ok"


def test_a_state_that_others_can_read(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert only(machine.state_rights(tmp_path)).severity == "ok"
    tmp_path.chmod(0o755)
    found = only(machine.state_rights(tmp_path))
    assert found.severity == "warning" and found.remedy.startswith(f"chmod 700 {tmp_path}")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away: run it as root")
def test_a_state_of_another_user(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)
    assert "belongs to user 12345, and this is user 0" in only(machine.state_rights(tmp_path)).found


def test_a_clock_before_this_version(monkeypatch: pytest.MonkeyPatch) -> None:
    assert only(machine.clock()).severity == "ok"
    monkeypatch.setattr(time, "time", lambda: 1_000_000_000.0)
    assert only(machine.clock()).found.startswith("2001-09-09")


def test_a_kernel_that_does_not_confine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "holds", lambda: {**dict.fromkeys(LAYERS, True), "files": False})
    found = only(machine.confinement())
    assert found.severity == "warning" and "only files that were given are read" in found.found


def test_ocr_without_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.parsers.ocr.program_path", lambda name: None)
    assert next(machine.reading(Settings())).found == "RapidOCR reads Latin, Chinese and Japanese letters"
    monkeypatch.setattr("resources.parsers.ocr.packaged_ocr", lambda: False)
    found = next(machine.reading(Settings()))
    assert found.severity == "warning" and "pincite[ocr]" in found.remedy
    wanted = settings_from({"parsing": {"ocr_languages": ["eng"]}})
    assert next(machine.reading(wanted)).severity == "failure"
    assert next(machine.reading(settings_from({"parsing": {"ocr": "off"}}))).severity == "ok"


def test_barcodes_without_their_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.parsers.installed.reads_barcodes", lambda: False)
    wanted = settings_from({"parsing": {"barcodes": True}})
    (found,) = (each for each in machine.reading(wanted) if each.name == "barcodes")
    assert found.severity == "failure" and "pincite[codes]" in found.remedy
    assert not [each for each in machine.reading(Settings()) if each.name == "barcodes"]


def test_formats_without_their_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.parsers.installed.pandoc_path", lambda: None)
    found = list(machine.reading(Settings()))[1]
    assert (found.severity, found.found) == ("warning", "files of .rtf .rst .org fail: there is no pandoc")
    assert "pincite[formats]" in found.remedy


# ---------------------------------------------------------------- the project


def test_a_source_and_questions_that_are_not_there(tmp_path: Path) -> None:
    made = make_project(tmp_path / "project", {}, publish={"golden": "none.jsonl"})
    found = locate(str(made.config))
    assert severities(project.settings_findings(found)) == ["ok", "failure"]
    (missing,) = project.source_findings(found)
    assert (missing.name, missing.severity) == ("source docs", "failure")
    made.docs.mkdir()
    assert severities(project.source_findings(found)) == ["warning"]
    made.write("note.md", "# A note\n")
    assert severities(project.source_findings(found)) == ["ok"]


def test_dagster_with_settings_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    assert only(project.dagster_findings(tmp_path)).severity == "ok"
    (tmp_path / "dagster").mkdir()
    (tmp_path / "dagster" / "dagster.yaml").write_text(f"storage: {{postgres: {SECRET}}}\n")
    found = only(project.dagster_findings(tmp_path))
    assert found.severity == "failure" and SECRET not in found.found + found.remedy
    (tmp_path / "dagster" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    assert ", 0 runs in " in only(project.dagster_findings(tmp_path)).found
    elsewhere = tmp_path / "elsewhere"
    monkeypatch.setenv("DAGSTER_HOME", str(elsewhere))
    found = only(project.dagster_findings(tmp_path))
    assert (found.severity, found.found) == ("failure", f"DAGSTER_HOME is {elsewhere}, which is no folder")
    elsewhere.mkdir()
    assert f", 0 runs in {elsewhere}" in only(project.dagster_findings(tmp_path)).found


class _Rows:
    """What a server without the extension, or with an old one, answers."""

    def __init__(self, versions: tuple[str | None, str] | None) -> None:
        self._rows = iter([versions, (True,)])

    def execute(self, statement: object) -> _Rows:
        return self

    def fetchone(self) -> object:
        return next(self._rows)


@pytest.mark.parametrize(
    ("versions", "severity"),
    [(None, "failure"), (("0.7.4", "0.8.1"), "failure"), ((None, "0.8.1"), "ok"), (("0.8.1", "0.8.1"), "ok")],
)
def test_versions_of_pgvector(versions: tuple[str | None, str] | None, severity: str) -> None:
    assert only(_vector(_Rows(versions), SimpleNamespace(superuser=False, may_create=True))).severity == severity


def test_versions_of_the_server() -> None:
    assert severities(_server(130_012, "UTF8", "answers")) == ["failure"]
    assert severities(_server(140_000, "UTF8", "answers")) == ["ok"]


def test_clocks_that_are_apart() -> None:
    now = time.time()
    assert not list(_clocks(now))
    assert severities(_clocks(now - 60)) == ["warning"] and severities(_clocks(now + 3600)) == ["failure"]


# ---------------------------------------------------------------- the whole


def test_a_check_that_breaks_keeps_no_other_from_being_made() -> None:
    def breaks() -> Iterator[Finding]:
        yield ok("first", "made")
        raise ValueError(f"at postgresql://user:{SECRET}@host")

    def refuses() -> Iterator[Finding]:
        yield ok("read", Path("/proc/none").read_text())

    def fails() -> Iterator[Finding]:
        raise IndexStateError("this is wrong: so it is; do that")
        yield

    found = [*looked_at("breaks", breaks), *looked_at("fails", fails), *looked_at("refuses", refuses)]
    assert [each.severity for each in found] == ["ok", "failure", "failure", "failure"]
    assert "ValueError" in found[1].found and SECRET not in str(found)
    assert (found[2].found, found[2].remedy) == ("this is wrong: so it is", "do that")
    assert found[3].found == "could not be looked at: /proc/none: No such file or directory"


def test_broken_settings_are_named_and_the_rest_is_looked_at(tmp_path: Path) -> None:
    made = make_project(tmp_path / "project", {}, chunkin={"max_tokens": 512})
    ran = made.run("doctor")
    found = {each["name"]: each for each in ran.json["checks"]}
    assert ran.code == 1 and not ran.json["ok"]
    assert found["settings"]["severity"] == "failure" and "did you mean 'chunking'" in str(found["settings"])
    assert found["python"]["severity"] == "ok" and "database" not in found
    shown = run_command("doctor", "--config", made.config)
    assert shown.code == 1 and "failure  settings" in shown.out
    assert shown.out.rstrip().endswith("pincite cannot work here until the failures are corrected")


def test_a_settings_file_that_is_not_there(tmp_path: Path) -> None:
    result = examine(lambda: locate(str(tmp_path / "none.yaml")))
    assert "no settings file" in result["checks"][-1]["found"]
