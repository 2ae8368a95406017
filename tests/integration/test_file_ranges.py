"""Files cover ranges of documents. They are split and joined as these come and go, and nothing is made again for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pipelines.fingerprint import document_id
from pipelines.ranges import bucket_of, bucket_range
from pipelines.stages import STAGE_OF_TABLE
from resources.reports.run_result import SHARDS_IGNORED
from resources.settings_file import locate
from resources.stages.part_rows import read_part
from resources.state.state import State
from tests.support.direct_runs import quick_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.llm_server import LlmServer
from tests.support.projects import Project, content, make_project, new_database, project_copy

pytestmark = pytest.mark.integration

LEAVE = "Staff receive leave of {0} days. A request of number {0} is answered within a week by the head."


def texts(count: int) -> dict[str, str]:
    return {f"rule-{n:02d}.md": f"# Rule {n}\n\n{LEAVE.format(n)}\n\n## Keys\n\nKey {n} is held." for n in range(count)}


@pytest.fixture(scope="module")
def made(
    server_url: str, migrated: str, tmp_path_factory: pytest.TempPathFactory, endpoint: EmbeddingServer
) -> Iterator[Project]:
    """Indexed with a file a bucket; one document fails."""
    documents = {**texts(24), "broken.docx": "no archive"}
    folder = tmp_path_factory.mktemp("ranges") / "project"
    with quick_runs(), new_database(server_url, migrated) as url:
        embedder = {"endpoint": endpoint.url, "model": "fake"}
        project = make_project(folder, documents, database=url, buckets=4, embedder=embedder)
        project.index(code=3)
        yield project


@pytest.fixture
def project(made: Project, server_url: str, tmp_path: Path, endpoint: EmbeddingServer) -> Iterator[Project]:
    with project_copy(made, server_url, tmp_path / "copy") as copy:
        endpoint.forget()
        yield copy


def committed(project: Project, table: str) -> dict[tuple[str, str], str]:
    """File by range of a table under the keys of the live generation."""
    ((keys,),) = project.rows("SELECT keys FROM pincite.generations NATURAL JOIN pincite.live")
    rows = project.rows(
        "SELECT first, after, file FROM pincite.manifest WHERE table_name = %s AND key = ANY (%s) ORDER BY first",
        table, list(keys.values()),
    )  # fmt: skip
    return {(first, after): file for first, after, file in rows}


def require_sound_ranges(project: Project) -> None:
    """Require that ranges of a table do not overlap, and that files hold the documents of their range alone."""
    with closing(State(locate(str(project.config)))) as state:
        live = state.parts.catalog.live()
        assert live is not None
        engine = state.of_generation(live).engine
        for table, stage in STAGE_OF_TABLE.items():
            rows = state.catalog.manifest_of(table, engine.key(stage.name))
            assert all(one.after <= next_.first for one, next_ in pairwise(rows)), table
            for row in rows if stage.parted else ():
                ids = list(state.parts.tables.documents(row.file))
                own = [doc_id for doc_id in ids if row.first <= doc_id < row.after]
                assert own == ids if row.whole else set(own) < set(ids), row
                assert own == sorted(own)


def unparted(project: Project) -> dict[str, list[tuple[Any, ...]]]:
    """All that is served, but in which bucket."""
    found = content(project)
    names = [name for (name,) in project.rows(
        "SELECT column_name FROM information_schema.columns WHERE (table_schema, table_name) = "
        "((SELECT 'g' || lpad(generation::text, 4, '0') FROM pincite.live), 'documents') ORDER BY ordinal_position"
    )]  # fmt: skip
    at = names.index("bucket")
    documents = sorted((row[:at] + row[at + 1 :] for row in found["documents"]), key=repr)
    return {
        **{name: found[name] for name in ("chunks", "sentences", "sentence_links", "terms")},
        "documents": documents,
    }


def embedded(endpoint: EmbeddingServer) -> list[str]:
    """Texts that were asked for, but for the one that tells an embedder's dimension."""
    return [text for text in endpoint.texts if text != "dimension"]


def stands(project: Project, code: int = 3) -> None:
    """The next run changes nothing, and `verify` finds nothing but the file that fails."""
    ran = project.run("verify")
    assert (ran.code, ran.json["problems"]) == (0, []), ran.out
    before = project.rows("SELECT max(committed_at), count(*) FROM pincite.manifest")
    project.index(code=code)
    assert project.rows("SELECT max(committed_at), count(*) FROM pincite.manifest") == before


@contextmanager
def small_files(most: int, fewest: int = 0) -> Iterator[None]:
    """Files are split above so many documents, and joined up to so many."""
    with mock.patch("pipelines.ranges.MOST_IN_FILE", most), mock.patch("pipelines.ranges.FEWEST_IN_FILES", fewest):
        yield


@contextmanager
def nothing_made() -> Iterator[None]:
    """No document is parsed, and not all sentences are compared."""
    with (
        mock.patch("resources.documents.protocol.parse_task", side_effect=AssertionError("parsed")),
        mock.patch("resources.stages.sentence_links.LinkedSentences", side_effect=AssertionError("all compared")),
    ):
        yield


STAGE_TABLES = sorted(table for table, stage in STAGE_OF_TABLE.items() if stage.parted)


# ---------------------------------------------------------------- other buckets


@pytest.mark.parametrize("buckets", [3, *(pytest.param(count, marks=pytest.mark.faults) for count in (1, 8, 26))])
def test_with_another_number_of_buckets_nothing_is_made_again(
    project: Project, endpoint: EmbeddingServer, buckets: int
) -> None:
    before, failures = unparted(project), project.run("status").json["failures"]
    assert len(failures) == 1
    project.configure(buckets=buckets)
    with nothing_made():
        result = project.index(code=3)
    assert embedded(endpoint) == []
    assert (result["generation"], result["published"]) == (2, True)
    assert result["embedded"] == {"chunks": 0, "sentences": 0}
    assert unparted(project) == before
    assert project.run("status").json["failures"] == failures
    require_sound_ranges(project)
    stands(project)
    project.write("rule-07.md", "# Rule 7\n\nIt says something else by now.")
    endpoint.forget()
    result = project.index(code=3)
    assert (result["documents"]["changed"], result["documents"]["unchanged"]) == (1, 23)
    assert "Rule 8" not in " ".join(endpoint.texts)
    require_sound_ranges(project)


@pytest.mark.faults
def test_overlap_floors_stay_those_of_the_corpus_that_they_were_taken_from(project: Project) -> None:
    for n in range(12):
        project.write(f"more-{n}.md", f"# More {n}\n\n" + "\n\n".join(LEAVE.format(n) * 9 for _ in range(3)))
    project.index(code=3)
    project.configure(buckets=8)
    project.index(code=3)
    first, second = project.rows("SELECT statistics->'overlap' FROM pincite.generations ORDER BY generation")
    assert first == second
    ((packed,), (later,)) = project.rows(
        "SELECT statistics->'packed_chunks' FROM pincite.generations ORDER BY generation"
    )
    assert packed < later
    stands(project)


@pytest.mark.faults
def test_only_changes_since_the_last_run_are_computed(project: Project, endpoint: EmbeddingServer) -> None:
    project.write("rule-03.md", "# Rule 3\n\nOnly this sentence is new.")
    project.write("new.md", "# New\n\nAnother document came meanwhile.")
    (project.docs / "rule-05.md").unlink()
    project.configure(buckets=5)
    with small_files(2, 1):
        result = project.index(code=3)
    assert (result["documents"]["added"], result["documents"]["changed"], result["documents"]["removed"]) == (1, 1, 1)
    asked = " ".join(endpoint.texts)
    assert "Only this sentence is new." in asked
    assert "Another document came meanwhile." in asked
    assert "Rule 7" not in asked
    require_sound_ranges(project)
    stands(project)


@pytest.mark.faults
def test_a_generation_of_other_buckets_is_kept_beside(project: Project, endpoint: EmbeddingServer) -> None:
    """Runs that serve one number of buckets while another is kept up to date do not write each other's files anew."""
    project.configure(buckets=6)
    project.index(code=3)
    assert project.run("generations rollback").code == 0
    project.write("rule-01.md", "# Rule 1\n\nChanged for both.")
    project.index(code=3)
    files = {table: committed(project, table) for table in STAGE_TABLES}
    before = project.rows("SELECT max(committed_at), count(*) FROM pincite.manifest")
    project.index(code=3)
    assert {table: committed(project, table) for table in STAGE_TABLES} == files
    assert project.rows("SELECT max(committed_at), count(*) FROM pincite.manifest") == before
    require_sound_ranges(project)
    assert project.run("verify").json["problems"] == []


@pytest.mark.faults
def test_a_file_that_spans_two_buckets_is_cut_with_both_looked_at(project: Project) -> None:
    """The buckets are 6, then 4 again, whose generation stands: a change in one of its buckets cuts a file of two."""
    ids = {f"rule-{n:02d}.md": document_id("docs", f"rule-{n:02d}.md") for n in range(24)}

    def edit(first: str, after: str, text: str) -> None:
        name = next(name for name, doc_id in ids.items() if first <= doc_id < after)
        project.write(name, f"# Edit\n\n{text} of {name}.")

    project.configure(buckets=6)
    project.index(code=3)
    edit("aaaa", "c0", "The first edit")
    edit("2aab", "40", "The first edit")
    project.index(code=3)
    assert project.run("generations rollback").code == 0
    edit("00", "2aaa", "The second edit")
    project.index(code=3)
    project.configure(buckets=4)
    project.index(code=3)
    edit("c0", "d5", "The third edit")
    project.index(code=3)
    require_sound_ranges(project)
    stands(project)


# ---------------------------------------------------------------- split and joined


def test_files_are_split_where_documents_come_and_joined_where_they_go(
    project: Project, endpoint: EmbeddingServer
) -> None:
    whole = committed(project, "chunks")
    assert len(whole) == 4
    project.write("rule-07.md", "# Rule 7\n\nIt says something else by now.")
    with small_files(1):
        planned = project.run("plan")
        assert planned.code == 0, planned.err
        result = project.index(code=3)
        assert (result["generation"], result["documents"]["changed"]) == (1, 1)
        assert "Rule 8" not in " ".join(embedded(endpoint))
        bucket = bucket_of(document_id("docs", "rule-07.md"), 4)
        for table in STAGE_TABLES:
            split = {ends: file for ends, file in committed(project, table).items() if ends not in whole}
            assert all(bucket_of(first, 4) == bucket for first, _ in split), table
            assert len(split) > 1, table
        require_sound_ranges(project)
        before = unparted(project)
    project.write("rule-07.md", "# Rule 7\n\nIt says a third thing.")
    endpoint.forget()
    project.index(code=3)  # files of few documents are joined
    assert committed(project, "chunks").keys() == committed(project, "raw_documents").keys() == whole.keys()
    assert "Rule 8" not in " ".join(embedded(endpoint))
    assert len(unparted(project)["documents"]) == len(before["documents"])
    require_sound_ranges(project)
    stands(project)


@pytest.mark.faults
def test_an_edit_rewrites_one_file_of_each_table(project: Project) -> None:
    with small_files(1):
        project.write("rule-07.md", "# Rule 7\n\nIt says something else by now.")
        project.index(code=3)
        before = {table: committed(project, table) for table in STAGE_TABLES}
        project.write("rule-07.md", "# Rule 7\n\nIt says a third thing.")
        with mock.patch("resources.stages.part_rows.read_part", wraps=read_part) as read:
            project.index(code=3)
        assert read.call_count == 1, "only the part that changed is read for the rows in Postgres"
        doc_id = document_id("docs", "rule-07.md")
        for table in STAGE_TABLES:
            after = committed(project, table)
            assert after.keys() == before[table].keys()
            changed = [ends for ends, file in after.items() if before[table][ends] != file]
            assert all(first <= doc_id < end for first, end in changed), table
            assert len(changed) == 1, table
        stands(project)


@pytest.mark.faults
def test_a_first_index_of_many_documents_has_small_files_from_the_beginning(
    server_url: str, tmp_path: Path, endpoint: EmbeddingServer
) -> None:
    embedder = {"endpoint": endpoint.url, "model": "fake"}
    with quick_runs(), new_database(server_url) as url, small_files(2, 1):
        project = make_project(tmp_path / "project", texts(20), database=url, embedder=embedder, buckets=2)
        assert project.index()["generation"] == 1
        assert len(committed(project, "chunks")) > 9
        rows = project.rows("SELECT max(documents) FROM pincite.manifest WHERE table_name = 'chunks'")
        assert rows == [(2,)]
        require_sound_ranges(project)
        stands(project, code=0)


@pytest.mark.faults
def test_another_model_changes_no_file_of_the_text(project: Project, endpoint: EmbeddingServer) -> None:
    project.configure(buckets=5)
    with small_files(3):
        project.index(code=3)
        chunks = committed(project, "chunks")
        project.configure(embedder={"endpoint": endpoint.url, "model": "other"})
        endpoint.forget()
        assert project.index(code=3)["generation"] == 3
        assert embedded(endpoint)
        assert committed(project, "chunks") == chunks
        stands(project)
        project.write("rule-01.md", "# Rule 1\n\nChanged for both.")
        assert project.index(code=3)["generation"] == 3
        stands(project)
        assert project.run("generations rollback").code == 0
        project.index(code=3)
        assert project.run("verify").json["problems"] == []


@pytest.mark.faults
def test_paid_replies_are_not_paid_for_again(
    server_url: str, tmp_path: Path, endpoint: EmbeddingServer, server: LlmServer
) -> None:
    server.reply = lambda prompt: f"Part number {sum(map(ord, prompt)) % 9973} of the rules."
    llm = {"base_url": server.url, "model": "writer", "prices": {"writer": {"prompt": 2.0, "completion": 4.0}}}
    with quick_runs(), new_database(server_url) as url:
        project = make_project(
            tmp_path / "project", texts(6), database=url, buckets=4, llm=llm,
            enrichment={"context": "llm"}, embedder={"endpoint": endpoint.url, "model": "fake"},
        )  # fmt: skip
        project.index()
        asked, before = len(server.calls), unparted(project)
        assert asked
        project.rows("DELETE FROM pincite.llm_replies")
        project.configure(buckets=3)
        planned = project.run("plan").json
        assert planned["calls"] == 0, json.dumps(planned)
        project.index()
        assert len(server.calls) == asked
        assert unparted(project) == before


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize(
    "table",
    ["raw_documents", *(pytest.param(name, marks=pytest.mark.faults)
                        for name in ("parsed_elements", "chunks", "sentence_links"))],
)  # fmt: skip
def test_a_damaged_file_is_made_again_under_other_bounds(
    project: Project, endpoint: EmbeddingServer, table: str
) -> None:
    before = unparted(project)
    file = sorted((project.state / "parquet" / table).glob("*/*.parquet"))[0]
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    project.configure(buckets=5)
    project.index(code=3)
    assert embedded(endpoint) == []
    assert unparted(project) == before
    require_sound_ranges(project)
    stands(project)


@pytest.mark.faults
def test_a_listing_that_lost_files_is_listed_again_for_all_sources(project: Project) -> None:
    other = project.folder / "other"
    project.write("extra.md", "# Extra\n\nFrom another folder.", docs=other)
    project.index("--source", f"more={other}", code=3)
    before = unparted(project)
    first, after = bucket_range(0, 4)
    for file in (project.state / "parquet" / "raw_documents").glob(f"*/{first}-{after}-*.parquet"):
        file.unlink()
    project.configure(buckets=2)
    project.index("--source", f"docs={project.docs}", code=3)
    found = unparted(project)
    # Terms are counted anew for a new generation, and it has one document more than the first one began with.
    assert {**found, "terms": before["terms"]} == before
    stands(project)


@pytest.mark.faults
def test_a_removed_source_does_not_come_back_with_other_buckets(project: Project) -> None:
    other = project.folder / "other"
    project.write("extra.md", "# Extra\n\nFrom another folder.", docs=other)
    project.index("--source", f"more={other}", code=3)
    project.configure(buckets=2)
    assert project.run("sources remove", "more").code == 0
    assert project.index("--allow-deletions", code=3)["documents"]["listed"] == 25
    assert not [row for row in unparted(project)["documents"] if "extra.md" in row]
    stands(project)


# ---------------------------------------------------------------- the setting that was


def test_the_number_of_shards_is_ignored_with_a_note(project: Project) -> None:
    before = project.rows("SELECT max(committed_at), count(*) FROM pincite.manifest")
    project.configure(shards=4)
    result = project.index(code=3)
    assert result["generation"] == 1
    (note,) = [note for note in result["notes"] if "`shards`" in note]
    assert note == f"{project.config}: {SHARDS_IGNORED}"
    assert project.rows("SELECT max(committed_at), count(*) FROM pincite.manifest") == before
