"""`pincite show`: a passage or a sentence by its id, and its pages with it marked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from resources.documents.page_pictures import AROUND, HIT, HIT_EDGE, opened_pages
from tests.support.direct_runs import quick_runs
from tests.support.documents import pdf_of
from tests.support.embedding_server import embedding_server
from tests.support.projects import Project, make_project, new_database, project_copy

pytestmark = pytest.mark.integration

NOTES = "# Lamps\n\nThe lamp oil is kept in the cellar. Wicks are trimmed on Mondays.\n"
MINUTES = "The council adopted the budget of the observatory. Members approved the telescope repairs.\n"


def spanning_report(path: Path) -> bytes:
    """Two pages; a paragraph in the middle of a sentence crosses from the first to the second."""
    body = [
        (72, 700 - 14 * line, f"Ballast line {line} of the tide report goes on with many plain words")
        for line in range(6)
    ]
    end = [
        (72, 780, "until the harbour master closes the ledger of the ballast."),
        (72, 740, "Barges wait outside. The pilots rest."),
    ]
    return pdf_of(path, [body, end]).read_bytes()


@pytest.fixture(scope="module")
def indexed(server_url: str, migrated: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("shown")
    with quick_runs(), embedding_server() as server, new_database(server_url, migrated) as url:
        project = make_project(
            folder / "project", {"lamps.md": NOTES}, database=url, embedder={"endpoint": server.url, "model": "fake"}
        )
        project.write("report.pdf", spanning_report(folder / "report.pdf"))
        project.write("board/minutes.pdf", pdf_of(folder / "m.pdf", [[(72, 700, MINUTES.strip())]]).read_bytes())
        project.write("board/minutes.pdf.meta.yaml", "groups: [board]\n")
        project.index()
        yield project


@pytest.fixture
def project(indexed: Project, server_url: str, tmp_path: Path) -> Iterator[Project]:
    with project_copy(indexed, server_url, tmp_path / "project") as copy:
        yield copy


def hit_of(project: Project, text: str, *arguments: str) -> dict[str, Any]:
    return project.hits(text, "--strategy", "lexical", *arguments)[0]


BY_SEARCH = {"rank", "score", "scores", "ranks", "name"}
"""What only a search knows of a hit."""


def error_of(project: Project, *arguments: str | Path) -> tuple[int, str, str]:
    ran = project.run("show", *arguments)
    return ran.code, ran.json["error"]["code"], ran.json["error"]["message"]


def test_a_hit_can_be_shown_by_its_id_and_by_the_beginning_of_it(indexed: Project) -> None:
    hit = hit_of(indexed, "lamp oil")
    for chunk in (hit["chunk_id"], hit["chunk_id"][:6]):
        shown = indexed.run("show", chunk).json
        assert {key: value for key, value in shown.items() if key not in BY_SEARCH} == {
            **{key: value for key, value in hit.items() if key not in BY_SEARCH},
            "spans": [[7, 72]],
            "sentence": None,
            "generation": 1,
            "images": [],
        }
        assert (shown["rank"], shown["score"], shown["scores"]) == (None, None, {})


def test_query_prints_ids_that_show_takes(indexed: Project) -> None:
    from tests.support.projects import run_command

    ran = run_command("query", "lamp oil", "--strategy", "lexical", "--config", indexed.config)
    chunk = ran.out.splitlines()[0].split(" chunk ")[1]
    shown = run_command("show", chunk, "--config", indexed.config)
    assert (shown.code, len(chunk)) == (0, 10), shown.err
    lines = shown.out.splitlines()
    assert lines[0].startswith("lamps.md  [docs]") and lines[1].startswith(f"chunk {chunk}") and lines[2] == "Lamps"
    assert "   The lamp oil is kept in the cellar. Wicks are trimmed on Mondays." in lines


# ---------------------------------------------------------------- sentences


def sentence_of(project: Project, text: str) -> str:
    """The id of the one sentence with this text in it."""
    [[sentence_id]] = project.rows("SELECT sentence_id FROM g0001.sentences WHERE position(%s IN text) > 0", text)
    return str(sentence_id)


def test_a_sentence_is_shown_in_its_paragraph(indexed: Project) -> None:
    sentence = sentence_of(indexed, "Wicks are trimmed")
    for named in (sentence, sentence[:8]):
        shown = indexed.run("show", named).json
        assert shown["sentence"]["sentence_id"] == sentence and shown["sentence"]["source"] == "paragraph"
        assert shown["text"] == "The lamp oil is kept in the cellar. Wicks are trimmed on Mondays."
        assert shown["text"][shown["sentence"]["start"] :] == shown["sentence"]["text"]
        assert shown["chunk_id"] == hit_of(indexed, "lamp oil")["chunk_id"] and shown["images"] == []


def test_a_sentence_is_marked_where_people_read_it(indexed: Project) -> None:
    from tests.support.projects import run_command

    ran = run_command("show", sentence_of(indexed, "Wicks are")[:10], "--config", indexed.config)
    assert "   The lamp oil is kept in the cellar. >>Wicks are trimmed on Mondays.<<" in ran.out.splitlines()
    assert f"sentence {sentence_of(indexed, 'Wicks are')}, paragraph" in ran.out.splitlines()


def coloured(image: str, colour: tuple[int, int, int]) -> tuple[int, int, int, int] | None:
    """Left, top, right and bottom of what has a colour in a picture, in pixels."""
    drawn = np.asarray(Image.open(image).convert("RGB")).astype(int)
    rows, columns = np.nonzero(np.abs(drawn - np.array(colour)).max(axis=2) < 6)
    return (columns.min(), rows.min(), columns.max(), rows.max()) if len(rows) else None


def test_a_sentence_is_marked_in_its_tinted_paragraph(indexed: Project, tmp_path: Path) -> None:
    """The first of two sentences of one line, and one that goes on from page 1 to page 2."""
    shown = indexed.run("show", sentence_of(indexed, "Barges wait"), "--image", tmp_path / "a.png").json
    [box], whole = shown["sentence"]["boxes"], shown["boxes"]
    with opened_pages(indexed.docs / "report.pdf") as pages:
        scale = pages.picture(2).scale
    left, top, right, bottom = coloured(shown["images"][0], HIT) or (0, 0, 0, 0)
    edges = (left - box["x0"] * scale, right - box["x1"] * scale, top - box["y0"] * scale, bottom - box["y1"] * scale)
    assert max(map(abs, edges)) <= 3 and len(shown["images"]) == 1
    beside = coloured(shown["images"][0], AROUND)
    assert beside is not None and len(whole) == 2 and beside[0] > right

    spanning = indexed.run("show", sentence_of(indexed, "harbour master"), "--image", tmp_path / "b.png").json
    assert spanning["images"] == [str(tmp_path / "b.png"), str(tmp_path / "b-2.png")]
    assert all(coloured(image, HIT) for image in spanning["images"])


def test_a_sentence_of_a_restricted_document_is_shown_to_its_groups_only(indexed: Project) -> None:
    sentence = sentence_of(indexed, "telescope repairs")
    assert error_of(indexed, sentence)[:2] == error_of(indexed, sentence[:8], "--group", "staff")[:2]
    assert error_of(indexed, sentence)[:2] == (1, "unknown_chunk")
    assert "telescope" in indexed.run("show", sentence, "--group", "board").json["sentence"]["text"]


def test_a_beginning_that_a_chunk_and_a_sentence_share_is_ambiguous(project: Project) -> None:
    chunk, sentence = hit_of(project, "lamp oil")["chunk_id"], sentence_of(project, "Wicks are")
    project.rows("UPDATE g0001.chunks SET chunk_id = 'abcdef0' WHERE chunk_id = %s", chunk)
    project.rows("UPDATE g0001.sentences SET chunk_id = 'abcdef0' WHERE chunk_id = %s", chunk)
    project.rows("UPDATE g0001.sentences SET sentence_id = 'abcdef1' WHERE sentence_id = %s", sentence)
    code, name, message = error_of(project, "abcdef")
    assert (code, name) == (1, "ambiguous_chunk") and "abcdef0, abcdef1" in message
    assert project.run("show", "abcdef1").json["sentence"]["text"].startswith("Wicks")


def test_a_sentence_of_an_older_generation_is_shown_in_its_chunk(project: Project) -> None:
    project.rows("UPDATE g0001.sentences SET paragraph_length = 0, paragraph_start = 0")
    shown = project.run("show", sentence_of(project, "Wicks are")).json
    assert shown["text"][shown["sentence"]["start"] :].startswith("Wicks are")


# ---------------------------------------------------------------- pages


def test_every_page_of_a_passage_is_drawn_with_its_boxes_marked(indexed: Project, tmp_path: Path) -> None:
    hit = hit_of(indexed, "ballast ledger")
    assert (hit["page_start"], hit["page_end"]) == (1, 2)
    shown = indexed.run("show", hit["chunk_id"], "--image", tmp_path / "page.png").json
    assert shown["images"] == [str(tmp_path / "page.png"), str(tmp_path / "page-2.png")]
    with opened_pages(indexed.docs / "report.pdf") as pages:
        for number, image in enumerate(shown["images"], start=1):
            picture = pages.picture(number)
            drawn = np.asarray(Image.open(image).convert("RGB")).astype(int)
            assert drawn.shape[:2] == picture.image.size[::-1]
            marked = np.zeros(drawn.shape[:2], bool)
            for box in (box for box in hit["boxes"] if box["page"] == number):
                x0, y0, x1, y1 = (round(box[key] * picture.scale) for key in ("x0", "y0", "x1", "y1"))
                marked[y0 - 3 : y1 + 4, x0 - 3 : x1 + 4] = True
            blue = drawn[:, :, 2]
            assert marked.any() and (blue[~marked & (np.asarray(picture.image)[:, :, 2] == 255)] > 240).all()
            colours = (np.abs(drawn - np.array(colour)).max(axis=2) < 24 for colour in (HIT, HIT_EDGE))
            assert np.logical_or.reduce(list(colours))[marked].mean() > 0.5


def test_a_chunk_of_a_restricted_document_is_shown_to_its_groups_only(indexed: Project, tmp_path: Path) -> None:
    chunk = hit_of(indexed, "telescope", "--group", "board")["chunk_id"]
    for asked in ((), ("--group", "staff")):
        for beginning in (chunk, chunk[:8]):
            code, name, message = error_of(indexed, beginning, "--image", tmp_path / "a.png", *asked)
            assert (code, name) == (1, "unknown_chunk")
            absent = error_of(indexed, "0" * len(beginning), *asked)[2]
            assert message.replace(beginning, "") == absent.replace("0" * len(beginning), "")
    assert not (tmp_path / "a.png").exists()
    shown = indexed.run("show", chunk, "--group", "board", "--image", tmp_path / "a.png").json
    assert "telescope" in shown["text"] and (tmp_path / "a.png").exists()


def test_a_hidden_chunk_does_not_make_a_beginning_ambiguous(project: Project) -> None:
    open_, hidden = (
        hit_of(project, "lamp oil")["chunk_id"],
        hit_of(project, "telescope", "--group", "board")["chunk_id"],
    )
    project.rows("UPDATE g0001.chunks SET chunk_id = 'abcdef0' WHERE chunk_id = %s", open_)
    project.rows("UPDATE g0001.chunks SET chunk_id = 'abcdef01' WHERE chunk_id = %s", hidden)
    assert project.run("show", "abcdef").json["chunk_id"] == "abcdef0"
    code, name, message = error_of(project, "abcdef", "--group", "board")
    assert (code, name) == (1, "ambiguous_chunk") and "abcdef0, abcdef01" in message
    assert project.run("show", "abcdef0", "--group", "board").json["chunk_id"] == "abcdef0"


@pytest.mark.parametrize("chunk", ["abcde", "", "not an id", "abc%def", "абвгде"])
def test_an_invalid_chunk_id_is_a_usage_error(indexed: Project, chunk: str) -> None:
    assert error_of(indexed, chunk)[:2] == (2, "usage")


def test_other_refusals(indexed: Project, tmp_path: Path) -> None:
    lamps, report = hit_of(indexed, "lamp oil")["chunk_id"], hit_of(indexed, "ballast")["chunk_id"]
    assert error_of(indexed, lamps, "--image", tmp_path / "a.png")[:2] == (1, "no_pages")
    assert error_of(indexed, report, "--image", tmp_path / "a.jpg")[:2] == (2, "usage")
    assert error_of(indexed, report, "--image", tmp_path / "nowhere" / "a.png")[:2] == (1, "unwritable")
    for number in ("7", "9" * 30, "-1"):
        assert error_of(indexed, report, "--generation", number)[:2] == (1, "no_generation")
    assert list(tmp_path.glob("a.*")) == []


def test_a_page_is_not_drawn_from_another_file_than_was_indexed(project: Project, tmp_path: Path) -> None:
    chunk, image = hit_of(project, "ballast")["chunk_id"], tmp_path / "a.png"
    path = project.docs / "report.pdf"
    original = path.read_bytes()
    path.write_bytes(original + b"\n% edited")
    code, name, message = error_of(project, chunk, "--image", image)
    assert (code, name) == (1, "changed") and "pincite index" in message
    path.unlink()
    code, name, message = error_of(project, chunk, "--image", image)
    assert (code, name) == (1, "gone") and str(path) in message
    assert not image.exists()
    assert "ballast" in project.run("show", chunk).json["text"].lower()
    path.write_bytes(original)
    assert project.run("show", chunk, "--image", image).json["images"] == [str(image), str(tmp_path / "a-2.png")]


@pytest.fixture(scope="module")
def second_day(indexed: Project, server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The same project after a run in which the report failed, and maps were added to a restricted and an open PDF."""
    with quick_runs(), project_copy(indexed, server_url, tmp_path_factory.mktemp("second") / "project") as copy:
        copy.write("report.pdf", b"%PDF-1.7\ntorn")
        box = {"page": 1, "x0": 70, "y0": 70, "x1": 500, "y1": 100}
        for folder in ("board", "open"):
            place = {"kind": "paragraph", "text": f"Lanterns of the {folder} pier.", "boxes": [box]}
            copy.write(f"{folder}/minutes.elements.json", json.dumps({"version": 1, "elements": [place]}))
        copy.write("open/minutes.pdf", (copy.docs / "board" / "minutes.pdf").read_bytes())
        copy.index(code=3)
        yield copy


def test_a_map_draws_no_pages_of_a_document_for_other_groups(second_day: Project, tmp_path: Path) -> None:
    """A map that is a document of its own, public beside a restricted PDF."""
    chunks = {hit["uri"]: hit["chunk_id"] for hit in second_day.hits("lanterns pier", "--strategy", "lexical")}
    assert chunks.keys() == {"board/minutes.elements.json", "open/minutes.elements.json"}
    refused = error_of(second_day, chunks["board/minutes.elements.json"], "--image", tmp_path / "a.png")
    assert refused[:2] == (1, "no_pages") and "not served to the same groups" in refused[2]
    assert not (tmp_path / "a.png").exists()
    drawn = second_day.run("show", chunks["open/minutes.elements.json"], "--image", tmp_path / "b.png")
    assert drawn.json["images"] == [str(tmp_path / "b.png")]


def test_a_stale_document_is_not_drawn(second_day: Project, tmp_path: Path) -> None:
    """What stands in the file has since failed; the passage is of the version before it."""
    chunk = hit_of(second_day, "ballast")["chunk_id"]
    assert error_of(second_day, chunk, "--image", tmp_path / "a.png")[:2] == (1, "changed")
    assert "ballast" in second_day.run("show", chunk).json["text"].lower()
