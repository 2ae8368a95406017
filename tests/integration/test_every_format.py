"""A folder with one file of each format that a library reads: indexed, found, told by name what cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pipelines.fingerprint import document_id
from resources.settings_file import locate
from resources.state.state import State
from tests.support import other_formats
from tests.support.embedding_server import EmbeddingServer
from tests.support.old_office import OFFICE
from tests.support.projects import Project, make_project, new_database
from tests.support.views import shown

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]
_TEXTS = "SELECT uri, string_agg(text, ' ') FROM g0001.chunks JOIN g0001.documents USING (doc_id) GROUP BY uri"


@pytest.fixture
def project(server_url: str, migrated: str, endpoint: EmbeddingServer, tmp_path: Path) -> Iterator[Project]:
    with new_database(server_url, migrated) as url:
        made = make_project(
            tmp_path / "project", {}, database=url, embedder={"endpoint": endpoint.url, "model": "fake"}
        )
        made.docs.mkdir()
        other_formats.write_all(made.docs)
        yield made


def parsed_by(project: Project) -> dict[str, str]:
    """The run that parsed each document, by its uri."""
    with closing(State(locate(str(project.config)))) as state:
        uris = {raw.doc_id: raw.uri for raw in state.listing.raw_documents()}
        files = state.engine.table("parsed_documents").files
        tables = [state.parts.tables.documents(file) for file in files]
        return {uris[doc_id]: str(known.run) for table in tables for doc_id, known in table.items()}


def test_one_of_each_is_indexed_and_found(project: Project) -> None:
    project.write("header.html", "<html><body><header>The bell rings at noon.</header></body></html>")
    (project.docs / "old.doc").write_bytes(other_formats.compound_file({"WordDocument": b"x" * 100}))
    result = project.index(code=3)
    said, warned = result["documents"], result["documents"]["warnings"][0]
    assert warned["uri"] == "header.html" and "read by unstructured, since pincite's own reader" in warned["message"]
    assert said["added"] == 10 and said["skipped"] == []
    (failed,) = said["failed"]
    wanted = "corrupt" if OFFICE else "unsupported"
    assert (failed["uri"], failed["code"]) == ("old.doc", wanted)
    served = dict(project.rows(_TEXTS))
    assert "bell rings" in served.pop("header.html")
    assert len(served) == 9 and all(other_formats.CLAIMS in text for text in served.values())
    assert project.hits(other_formats.LEAVE)[0]["uri"] in served
    with shown(project) as views:
        for uri in served:
            views.opens(f"/documents/{document_id('docs', uri)}?find=receipt")
            assert views.opens(f"/api/documents/{document_id('docs', uri)}/file").status_code == 200
        for uri in (min(served), "header.html", "old.doc"):  # a format of its own reader, of another, and one refused
            views.every_view(uri)


@pytest.mark.faults
def test_another_reader_parses_its_own_format_anew_and_no_other(project: Project) -> None:
    for name in ("a.html", "b.html"):
        (project.docs / name).write_text(f"<html><body>{other_formats.HTML}</body></html>")
    project.index()
    before = parsed_by(project)
    project.configure(parsing={"workers": 1, "readers": {".html": "unstructured"}})
    project.index()
    now = parsed_by(project)
    assert {uri for uri in before if now[uri] != before[uri]} == {"a.html", "b.html"}
    assert {uri for uri in before if uri.endswith(".html")} < before.keys()


@pytest.mark.faults
def test_another_reader_of_one_source_parses_its_format_anew_and_no_other(project: Project) -> None:
    page = f"<html><body>{other_formats.HTML}</body></html>"
    for place, names in (("docs", ("a.html", "a.txt")), ("more", ("b.html", "b.txt"))):
        for name in names:
            project.write(name, page if name.endswith("html") else other_formats.LEAVE, project.folder / place)
    own, more = ({"name": name, "path": str(project.folder / name)} for name in ("docs", "more"))
    project.configure(sources=[own, more])
    project.index()
    before = parsed_by(project)
    project.configure(sources=[own, {**more, "readers": {".html": "unstructured"}}])
    assert project.index()["documents"]["failed"] == []
    now = parsed_by(project)
    assert {uri for uri in before if now[uri] != before[uri]} == {"b.html"}
    project.configure(
        sources=[own, {**more, "readers": {".html": "auto"}}], parsing={"readers": {".html": "unstructured"}}
    )
    project.index()
    assert {uri for uri in now if parsed_by(project)[uri] != now[uri]} == {"a.html", "b.html"}
