"""Drives and wikis that other tools land: what docs/guide/sources.md says of rclone and dlt, as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipelines.settings.sources import SourceSettings
from resources.sources.folder import FolderListing, list_source
from tests.support.asgi import in_thread
from tests.support.listings import assert_same
from tests.support.places import ROOT
from tests.support.s3_server import BUCKET, ENVIRONMENT, S3Server, s3_server
from tests.support.waiting import HANG_SECONDS

pytestmark = [pytest.mark.integration, pytest.mark.faults]

_PAGE = (ROOT / "docs" / "guide" / "sources.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(heading: str) -> dict[str, str]:
    """The blocks of a section by their kind, of which it has one each."""
    found = _BLOCK.findall(_PAGE.split(f"\n### {heading}\n")[1].split("\n## ")[0].split("\n### ")[0])
    assert len(dict(found)) == len(found)
    return dict(found)


def listed(folder: Path) -> FolderListing:
    return list_source(SourceSettings(name="landed", path=str(folder), groups=("staff",)), folder)


def run(command: list[str], place: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """With `python` that of the tests and a `pincite` that says what it was asked, by which its order is seen."""
    called = place / "bin"
    called.mkdir(exist_ok=True)
    for name, text in {"python": f'exec {sys.executable} "$@"', "pincite": 'echo "$@" >>indexed'}.items():
        (called / name).write_text(f"#!/bin/sh\n{text}\n")
        (called / name).chmod(0o755)
    kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    path = f"{called}:{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=place,
        env={**kept, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )


# ---------------------------------------------------------------- rclone


@pytest.fixture
def drive() -> Iterator[S3Server]:
    with s3_server() as server:
        server.put("Handbook/HR/leave.md", "# Leave\n\nLeave is asked for by mail.\n")
        server.put("Handbook/lunch.md", "# Lunch\n\nLunch is at noon.\n")
        yield server


@pytest.mark.skipif(shutil.which("rclone") is None, reason="rclone is not installed: apt-get install rclone")
def test_a_drive_is_landed_by_rclone(drive: S3Server, tmp_path: Path) -> None:
    said = blocks("A drive, by rclone")
    (tmp_path / "side_cars.py").write_text(said["python"])
    (tmp_path / "land_drive.sh").write_text(said["bash"].replace("drive:", f"drive:{BUCKET}/"))
    assert yaml.safe_load(said["yaml"])["sources"][0] == {
        "name": "handbook",
        "path": "landed/handbook",
        "groups": ["staff"],
    }
    remote = {
        "RCLONE_CONFIG_DRIVE_TYPE": "s3",
        "RCLONE_CONFIG_DRIVE_PROVIDER": "Other",
        "RCLONE_CONFIG_DRIVE_ENDPOINT": drive.url,
        "RCLONE_CONFIG_DRIVE_ENV_AUTH": "true",
        "RCLONE_RETRIES": "1",
        "RCLONE_LOW_LEVEL_RETRIES": "1",
        **ENVIRONMENT,
    }
    ran = run(["bash", "land_drive.sh"], tmp_path, **remote)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "indexed").read_text() == "index --config pincite.yaml\n"
    found = {raw.uri: raw.groups for raw in listed(tmp_path / "landed" / "handbook").documents}
    assert found == {"HR/leave.md": ("hr",), "lunch.md": None}

    drive.delete("Handbook/HR/leave.md")
    drive.put("Handbook/Board/pay.md", "# Pay\n\nPay rises in May.\n")
    assert run(["bash", "land_drive.sh"], tmp_path, **remote).returncode == 0
    now = listed(tmp_path / "landed" / "handbook")
    assert {raw.uri: raw.groups for raw in now.documents} == {"Board/pay.md": ("board",), "lunch.md": None}
    assert not now.failures, "no side-car is left of what is gone"

    ran = run(["bash", "land_drive.sh"], tmp_path, **{**remote, "RCLONE_CONFIG_DRIVE_ENDPOINT": "http://127.0.0.1:1"})
    assert ran.returncode
    assert_same(listed(tmp_path / "landed" / "handbook"), now)
    assert len((tmp_path / "indexed").read_text().splitlines()) == 2, "what failed is not indexed"


# ---------------------------------------------------------------- dlt


def page(number: int, *readers: str) -> dict[str, object]:
    return {
        "id": f"page/{number}",
        "title": f"Page {number}: notes",
        "text": f"The text of page {number}.",
        "updated": "2026-03-01T10:00:00Z",
        "url": f"https://wiki.example.org/{number}",
        "readers": list(readers),
    }


def test_a_wiki_is_landed_by_dlt(tmp_path: Path) -> None:
    said = blocks("A wiki, by dlt")
    assert "land_wiki.py" in said["bash"]
    (tmp_path / "land_wiki.py").write_text(said["python"])
    (tmp_path / "landed").mkdir()
    pages = [[page(1, "hr"), page(2, "hr", "board")], [page(3)]]
    failing: list[int] = []

    def answer(request: Request) -> Response:
        number = int(request.query_params.get("page", "0"))
        if number in failing:
            return Response(status_code=400)
        more = f"{request.url.scheme}://{request.url.netloc}/pages?page={number + 1}"
        return JSONResponse({"results": pages[number], "next": more if number + 1 < len(pages) else None})

    with in_thread(Starlette(routes=[Route("/pages", answer)])) as port:
        told = {"WIKI_URL": f"http://127.0.0.1:{port}/", "RUNTIME__DLTHUB_TELEMETRY": "false"}
        ran = run(["python", "land_wiki.py"], tmp_path, **told)
        assert ran.returncode == 0, ran.stderr
        first = listed(tmp_path / "landed" / "wiki")
        found = {raw.uri: (raw.title, raw.groups, raw.effective_date) for raw in first.documents}
        assert found == {
            "page%2F1.md": ("Page 1: notes", ("hr",), "2026-03-01"),
            "page%2F2.md": ("Page 2: notes", ("hr", "board"), "2026-03-01"),
        }
        assert {item.uri: item.code for item in first.failures} == {"page%2F3.md": "side_car"}, "nobody may find it"
        text = (tmp_path / "landed" / "wiki" / "page%2F1.md").read_text()
        assert text == "# Page 1: notes\n\nThe text of page 1.\n"

        failing.append(1)
        pages[0].pop()
        assert run(["python", "land_wiki.py"], tmp_path, **told).returncode
        assert_same(listed(tmp_path / "landed" / "wiki"), first)  # what broke off changes nothing
        failing.clear()
        assert run(["python", "land_wiki.py"], tmp_path, **told).returncode == 0
        assert [raw.uri for raw in listed(tmp_path / "landed" / "wiki").documents] == ["page%2F1.md"]
