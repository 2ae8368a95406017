"""examples/Dockerfile, followed step by step, and what its image does. Takes minutes and gigabytes:
`make test-image`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.image.dockerfile import Stage, follow, instructions
from tests.support.places import ROOT

FILE = ROOT / "examples" / "Dockerfile"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("roots of their own are root's to mount: run it as root, where unshare --mount is allowed")
    stages: list[Stage] = []
    try:
        yield follow(FILE, ROOT, tmp_path_factory.mktemp("image"), stages)
    finally:
        for stage in reversed(stages):
            stage.unmount()


def test_it_ends_as_a_user_who_is_not_root_and_has_no_compiler_put_in(image: Stage) -> None:
    last = [rest for name, rest in instructions(FILE.read_text()) if name in ("FROM", "RUN", "USER")]
    final = last[len(last) - 1 - last[::-1].index(next(rest for rest in last[::-1] if rest.startswith("python:"))) :]
    assert not any(word in rest for rest in final for word in ("apt", "pip", "gcc", "g++", "make"))
    assert image.run(["id", "-u"]).stdout.strip() == "10001"
    assert image.run(["touch", "/opt/pincite/written"]).returncode != 0


def test_the_command_tells_its_version(image: Stage) -> None:
    ran = image.run(["pincite", "--version"])
    assert ran.stdout.startswith("pincite, version "), ran.stderr


def test_the_demo_is_indexed_and_asked_in_it(image: Stage) -> None:
    ran = image.run(["pincite", "demo", "--json"])
    assert ran.returncode == 0, ran.stderr
    made = json.loads(ran.stdout)
    assert made["index"]["published"] and made["index"]["documents"]["added"] == 10


def test_the_doctor_finds_nothing_wrong_in_it(image: Stage) -> None:
    ran = image.run(["pincite", "doctor", "--json"])
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_image_contains_the_programs_the_manifests_start(image: Stage) -> None:
    for command in ("dagster-daemon", "dagster-webserver", "celery", "pincite"):
        ran = image.run([command, "--version"])
        assert ran.returncode == 0, command + ran.stderr
    loads = "import dagster_k8s, dagster_celery, dagster_postgres\nfrom pincite.definitions import defs\n"
    ran = image.run(["python", "-c", loads + "print(defs().resolve_job_def('index').name)"])
    assert ran.stdout.strip().endswith("index"), ran.stderr
