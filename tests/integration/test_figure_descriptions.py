"""Pictures described by a model on loopback that sees, through the command: found by what they show."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.embedding_server import EmbeddingServer
from tests.support.llm_server import Call, LlmServer, llm_server, says, status
from tests.support.pictures import Colour, colour_of, data_url, illustrated_pdf, picture
from tests.support.places import ROOT
from tests.support.projects import Project, make_project, run_command

PROMPT = ROOT / "prompts" / "figure.en.md"

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

RED, BLUE = (200, 30, 30), (30, 30, 200)
SEEN = {"red": "A chart of the harvest of crimson lanterns.", "blue": "A map of the northern harbour."}


def shown(call: Call) -> Colour:
    return colour_of(base64.b64decode(call.images[0].partition(",")[2]))


def described(call: Call) -> str:
    red, _, blue = shown(call)
    return SEEN["red" if red > blue else "blue"]


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with llm_server() as started:
        yield started


@pytest.fixture
def project(fresh_url: str, endpoint: EmbeddingServer, server: LlmServer, tmp_path: Path) -> Project:
    made = make_project(
        tmp_path / "project",
        {
            "report.md": f"# Report\n\nWhat grew this year.\n\n![]({data_url(picture(RED))})\n",
            "again.md": f"# Again\n\nThe same picture.\n\n![]({data_url(picture(RED))})\n",
        },
        database=fresh_url,
        embedder={"endpoint": endpoint.url, "model": "first"},
        llm={"roles": {"figure": {"base_url": server.url, "model": "seeing"}}, "retries": 0},
    )
    illustrated_pdf(
        made.docs / "harbour.pdf", ([(picture(BLUE), 100, 200, 240, 160)], [(100, 100, "Ships arrive at the pier.")])
    )
    return made


@pytest.mark.faults
def test_a_picture_is_bought_once_found_by_what_it_shows_and_marked(
    project: Project, server: LlmServer, endpoint: EmbeddingServer
) -> None:
    server.next(*[lambda call: says(described(call))] * 9)
    planned = project.run("plan").json
    assert not server.calls
    result = project.index()
    assert result["llm"]["calls"] == len(server.calls) == 2 == planned["calls"]
    hit = project.hits("map of the northern harbour", "--strategy", "lexical")[0]
    assert (hit["uri"], hit["page_start"], hit["text"]) == ("harbour.pdf", 1, SEEN["blue"])
    (box,) = hit["boxes"]
    assert [round(box[name]) for name in ("x0", "y0", "x1", "y1")] == [100, 200, 340, 360]
    assert "text" in hit["generated"]
    lanterns = [hit for hit in project.hits("crimson lanterns", "--strategy", "lexical") if hit["text"] == SEEN["red"]]
    assert {hit["uri"] for hit in lanterns} == {"report.md", "again.md"}
    sentences = project.rows("SELECT text, source FROM g0001.sentences WHERE source = 'figure_description'")
    assert sorted({text for text, _ in sentences}) == sorted(SEEN.values())
    server.forget()
    assert project.index()["llm"]["calls"] == 0
    ran = project.run("verify")
    assert (ran.code, ran.json["problems"]) == (0, [])
    ran = project.run("explain", hit["chunk_id"])
    assert ran.code == 0, ran.err
    assert re.search(r'"kind": "figure"', ran.out)
    stages = {stage["stage"]: stage for stage in ran.json["stages"]}
    (figure,) = stages["figure_descriptions"]["figures"]
    assert (figure["text"], figure["method"], figure["model"]) == (SEEN["blue"], "llm", "seeing")
    cost = stages["figure_descriptions"]["cost"]
    (paid,) = [item for item in project.run("status").json["costs"] if item["stage"] == "figure_descriptions"]
    assert cost["calls"] == paid["calls"] == 2 and cost["cost"] == paid["cost"]
    assert cost["tokens"] == paid["prompt_tokens"] + paid["completion_tokens"] > 0
    shown = run_command("explain", hit["chunk_id"], "--config", project.config).out
    assert "2 calls" in shown and SEEN["blue"] in shown
    other = project.hits("boats ships arrive pier", "--strategy", "lexical")[0]["chunk_id"]
    stages = {stage["stage"]: stage for stage in project.run("explain", other).json["stages"]}
    assert stages["figure_descriptions"]["figures"] == []


@pytest.mark.faults
def test_a_model_that_does_not_answer_leaves_the_text_searchable_and_is_asked_again(
    project: Project, server: LlmServer
) -> None:
    server.next(lambda call: says(described(call)))
    assert project.index()["llm"]["calls"] == 2
    (project.docs / "harbour.pdf").unlink()
    blue = f"# Harbour\n\nBoats come in.\n\n![]({data_url(picture(BLUE, (180, 140)))})\n"
    project.write("harbour.md", blue)
    server.reply = lambda prompt: status(500)  # type: ignore[assignment,return-value]
    result = project.index("--allow-deletions", code=3)
    assert [(item["uri"], item["stage"]) for item in result["documents"]["failed"]] == [
        ("harbour.md", "figure_descriptions")
    ]
    assert project.hits("boats come in", "--strategy", "lexical")[0]["uri"] == "harbour.md"
    server.forget()
    server.next(lambda call: says(described(call)))
    assert project.index()["documents"]["failed"] == []
    assert project.hits("northern harbour", "--strategy", "lexical")[0]["uri"] == "harbour.md"


def test_status_counts_figures_and_names_those_that_nobody_could_be_shown(project: Project, server: LlmServer) -> None:
    repeated = PROMPT.read_text(encoding="utf-8").partition("---")[0]
    server.reply = lambda prompt: repeated  # type: ignore[assignment]
    project.write("torn.md", f"# Torn\n\nHalf of it.\n\n![]({data_url(picture(BLUE)[:90])})\n")
    said = project.index()["documents"]["warnings"]
    found = project.run("status").json
    assert found["enrichment"]["figure_descriptions"] == {"fallback": 3, "unseen": 1}
    (warning,) = [item for item in found["warnings"] if item["uri"] == "torn.md"]
    assert warning["source"] == "docs" and "torn.md: figure 2" in warning["message"]
    assert warning in said
    assert project.index()["documents"]["warnings"] == []
    assert "figure_descriptions" in run_command("status", "--config", project.config).out


@pytest.mark.faults
def test_other_pages_under_the_map_that_they_had_are_looked_at_again(project: Project, server: LlmServer) -> None:
    """The extractor's map stays; the PDF beside it is exchanged."""
    box = {"page": 1, "x0": 100, "y0": 200, "x1": 340, "y1": 360}
    figure = {"kind": "figure", "runs": [{"text": "", "box": box}]}
    structure = {"version": 1, "elements": [{"kind": "paragraph", "text": "Ships arrive."}, figure]}
    project.write("harbour.pdf.elements.json", json.dumps(structure))
    server.next(*[lambda call: says(described(call))] * 9)
    project.index()
    assert project.hits("northern harbour", "--strategy", "lexical")[0]["uri"] == "harbour.pdf"
    illustrated_pdf(project.docs / "harbour.pdf", ([(picture(RED), 100, 200, 240, 160)], []))
    server.forget()
    server.next(*[lambda call: says(described(call))] * 9)
    assert project.index()["llm"]["calls"] == 1
    lanterns = [hit for hit in project.hits("crimson lanterns", "--strategy", "lexical") if hit["uri"] == "harbour.pdf"]
    assert [hit["text"] for hit in lanterns] == [SEEN["red"]]
