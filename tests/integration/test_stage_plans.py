"""A stage plans its parts one at a time: a run holds the plans of those only that are worked on, whatever comes of
them."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pipelines.errors import IndexStateError
from pipelines.fingerprint import document_id
from pipelines.records import OFF, DocumentSummary, Failure
from pipelines.stages import STAGES
from resources.engine import Outcomes, StageReport, Work, Works
from resources.postgres.catalog import Catalog
from resources.settings_file import locate
from resources.stages.make import list_documents, make
from resources.state.run import Run
from resources.state.state import State
from tests.support.direct_runs import quick_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.llm_server import LlmServer, llm_server
from tests.support.projects import Project, make_project, new_database, project_copy

pytestmark = pytest.mark.integration

BUCKETS, WHOLE, BROKEN = 8, 20, 2
HELD = 4
"""Plans that may be held at once where little is given out ahead; the last that was handed back, too."""
PARTITIONED = [name for name in STAGES if name not in ("raw_documents", "sentence_links")]
SUMMARIES = "document_summaries"

Told = dict[str, list[tuple[int, int]]]
"""Progress that was told, by stage."""


def text(number: int, more: str = "") -> str:
    return f"# Rule {number}\n\nStaff receive leave of {number} days. Key {number} is held by the head.{more}"


def documents() -> dict[str, str]:
    broken = {f"broken-{number}.docx": f"no archive {number}" for number in range(BROKEN)}
    return {**{f"rule-{number:02}.md": text(number) for number in range(WHOLE)}, **broken}


@pytest.fixture(scope="module")
def server() -> Iterator[LlmServer]:
    with llm_server() as started:
        started.reply = lambda prompt: "A rule of leave and keys."
        yield started


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    with quick_runs():
        yield


@pytest.fixture
def listed(server_url: str, endpoint: EmbeddingServer, tmp_path: Path) -> Iterator[Project]:
    with new_database(server_url) as url:
        embedder = {"endpoint": endpoint.url, "model": "fake"}
        yield make_project(tmp_path / "listed", documents(), database=url, buckets=BUCKETS, embedder=embedder)


@pytest.fixture(scope="module")
def indexed(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("plans") / "project"
    with new_database(server_url) as url:
        embedder = {"endpoint": endpoint.url, "model": "fake"}
        project = make_project(folder, documents(), database=url, buckets=BUCKETS, embedder=embedder)
        project.index(code=3)
        yield project


@pytest.fixture
def project(indexed: Project, server_url: str, tmp_path: Path) -> Iterator[Project]:
    with project_copy(indexed, server_url, tmp_path / "copy") as copy:
        yield copy


def made(project: Project, told: Told | None = None, **run: Any) -> dict[str, StageReport]:
    """What each partitioned stage did."""

    def tell(stage: str, done: int, total: int) -> None:
        if told is not None and total:
            told[stage].append((done, total))

    with closing(State(locate(str(project.config)), Run("plans", tell, **run))) as state:
        list_documents(state, range(BUCKETS), (), allow_deletions=True)
        return {name: make(state, name, range(BUCKETS)) for name in PARTITIONED}


def in_small_windows() -> ExitStack:
    """Give out as little ahead as with parts of a thousand documents."""
    stack = ExitStack()
    for name, size in {
        "resources.stages.make.WINDOW": 2,
        "resources.stages.enrichment.WINDOW": 2,
        "resources.documents.pool.MOST_DOCUMENTS": 2,
        "resources.llm.model.AT_ONCE": 1,
    }.items():
        stack.enter_context(mock.patch(name, size))
    return stack


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """How many plans there are whenever a part is committed, by stage."""
    seen: list[weakref.ref[Work]] = []
    counts: dict[str, list[int]] = defaultdict(list)
    begin, commit = Work.__init__, Catalog.commit

    def begun(work: Work, *arguments: Any, **named: Any) -> None:
        begin(work, *arguments, **named)
        seen.append(weakref.ref(work))

    def committed(catalog: Catalog, rows: Any, stage: str, *arguments: Any, **named: Any) -> None:
        commit(catalog, rows, stage, *arguments, **named)
        counts[stage].append(sum(work() is not None for work in seen))

    monkeypatch.setattr(Work, "__init__", begun)
    monkeypatch.setattr(Catalog, "commit", committed)
    return counts


def right(told: Told, reports: dict[str, StageReport]) -> None:
    """Nobody is told that more is done than there is, nor of another number at the end than was done."""
    for name, report in reports.items():
        if name in told and not name.endswith("embeddings"):  # which count texts
            assert all(done <= total for done, total in told[name]), name
            assert told[name][-1] == (report.computed, report.computed), name


@pytest.mark.parametrize(
    "bought", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["by rules", "by a model"]
)
def test_a_first_index_holds_the_plans_of_few_parts_and_is_told_of_all_documents(
    listed: Project, held: dict[str, list[int]], server: LlmServer, bought: bool
) -> None:
    told: Told = defaultdict(list)
    if bought:
        llm = {"base_url": server.url, "model": "writer", "concurrency": 1}
        listed.configure(enrichment={"summary": "llm", "context": "llm"}, llm=llm)
    with in_small_windows():
        reports = made(listed, told)
    for name in PARTITIONED:
        assert len(held[name]) == len(reports[name].buckets) == BUCKETS, name
        assert max(held[name]) <= HELD, (name, held[name])
    assert {name: report.computed for name, report in reports.items()} == {
        name: WHOLE + BROKEN if name == "parsed_elements" else WHOLE for name in PARTITIONED
    }
    right(told, reports)
    assert told["parsed_elements"] == [(done, WHOLE + BROKEN) for done in range(1, WHOLE + BROKEN + 1)]
    assert len(told["chunks"]) == WHOLE
    assert max(total for _, total in told["chunks"]) <= WHOLE + BROKEN


def test_a_run_over_changed_documents_is_told_of_these(project: Project) -> None:
    changed = 5
    for number in range(changed):
        project.write(f"rule-{number:02}.md", text(number, " It was changed."))
    told: Told = defaultdict(list)
    with in_small_windows():
        reports = made(project, told)
    right(told, reports)
    for name in ("parsed_elements", "structural_chunks", "packed_chunks", "chunks", "sentences", "chunk_contexts"):
        assert told[name] == [(done, changed) for done in range(1, changed + 1)], name


@pytest.mark.faults
def test_the_same_documents_in_other_files_are_told_of_nothing(project: Project) -> None:
    project.configure(buckets=BUCKETS - 1)
    told: Told = defaultdict(list)
    with closing(
        State(locate(str(project.config)), Run("plans", lambda *said: told[said[0]].append(said[1:])))
    ) as state:
        list_documents(state, range(BUCKETS - 1), (), allow_deletions=False)
        reports = [make(state, name, range(BUCKETS - 1)) for name in PARTITIONED]
    assert [report.computed for report in reports] == [0] * len(PARTITIONED)
    assert reports[1].kept == WHOLE
    assert all(said == [(0, 0)] for said in told.values()), told


@pytest.mark.faults
def test_parts_that_only_lose_documents_lie_between_others(project: Project, held: dict[str, list[int]]) -> None:
    with closing(State(locate(str(project.config)))) as state:
        bucket_of = state.engine.bucket_of
        own: dict[int, list[str]] = defaultdict(list)
        for number in range(WHOLE):
            uri = f"rule-{number:02}.md"
            own[bucket_of(document_id("docs", uri))].append(uri)
    lessened, *emptied = [bucket for bucket in sorted(own) if len(own[bucket]) > 1]
    changed, emptied = [emptied[0], emptied[-1]], emptied[1:-1]
    gone = [own[lessened][0], *(uri for bucket in emptied for uri in own[bucket])]
    assert len(emptied) > HELD
    for uri in gone:
        (project.docs / uri).unlink()
    for bucket in changed:
        project.write(own[bucket][0], text(99, f" It was changed in {bucket}."))
    told: Told = defaultdict(list)
    with in_small_windows():
        reports = made(project, told)
    for name in PARTITIONED[1:]:
        assert (reports[name].computed, reports[name].gone) == (len(changed), len(gone)), name
        assert len(held[name]) == len(changed) + len(emptied) + 1 and max(held[name]) <= HELD, (name, held[name])
    right(told, reports)
    project.index("--allow-deletions", code=3)
    assert project.run("verify").json["problems"] == []


# ---------------------------------------------------------------- whatever a compute does


@pytest.fixture
def state(project: Project) -> Iterator[State]:
    """Made as far as the stage before summaries, which are off."""
    project.configure(enrichment={"summary": "off", "context": "off"})
    project.rows("DELETE FROM pincite.manifest WHERE table_name = %s", SUMMARIES)
    with closing(State(locate(str(project.config)), Run("plans"))) as state:
        list_documents(state, range(BUCKETS), (), allow_deletions=False)
        for name in PARTITIONED[: PARTITIONED.index(SUMMARIES)]:
            make(state, name, range(BUCKETS))
        yield state


def summaries(work: Work) -> dict[str, Any]:
    return {doc_id: {SUMMARIES: [DocumentSummary(doc_id, "", OFF)]} for doc_id in work.doc_ids}


def committed(state: State) -> dict[int, tuple[int, str]]:
    rows = state.engine.commits(SUMMARIES).rows
    return {state.engine.bucket_of(row.first): (row.documents, row.output) for row in rows}


def test_a_compute_may_look_twice_and_hand_back_in_any_order(state: State) -> None:
    passes: list[list[tuple[int, list[str]]]] = []

    def compute(works: Works) -> Outcomes:
        passes.append([(work.part.bucket, work.doc_ids) for work in works])
        every = list(works)
        passes.append([(work.part.bucket, work.doc_ids) for work in every])
        assert works.documents == WHOLE
        for work in reversed(every):
            yield work, summaries(work)

    report = state.run_stage(SUMMARIES, range(BUCKETS), compute)
    assert passes[0] == passes[1] and [bucket for bucket, _ in passes[0]] == list(range(BUCKETS))
    assert (report.computed, report.kept, report.total) == (WHOLE, 0, WHOLE)
    assert list(report.buckets) == list(range(BUCKETS))
    found = committed(state)
    again = make(state, SUMMARIES, range(BUCKETS))
    assert (again.computed, again.kept, again.total) == (0, WHOLE, WHOLE)
    assert committed(state) == found


def test_earlier_commits_stay_when_a_compute_or_a_commit_fails(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Works] = []

    def compute(works: Works) -> Outcomes:
        try:
            for number, work in enumerate(works):
                if number == 3 and not ended:
                    raise ZeroDivisionError
                yield work, summaries(work)
        finally:
            ended.append(works)

    with pytest.raises(ZeroDivisionError):
        state.run_stage(SUMMARIES, range(BUCKETS), compute)
    assert list(committed(state)) == [0, 1, 2]

    def full(*_: Any) -> None:
        raise IndexStateError("no room", "disk")

    with monkeypatch.context() as patched, pytest.raises(IndexStateError, match="no room") as raised:
        patched.setattr(state.engine.catalog, "commit", full)
        state.run_stage(SUMMARIES, range(BUCKETS), compute)
    assert len(ended) == 2, "the compute has ended though the error is still held"
    assert raised.value.code == "disk" and list(committed(state)) == [0, 1, 2]
    report = state.run_stage(SUMMARIES, range(BUCKETS), compute)
    assert len(report.buckets) == BUCKETS and report.computed + report.kept == WHOLE
    assert report.computed == WHOLE - sum(documents for documents, _ in list(committed(state).values())[:3])


def test_all_documents_may_fail_and_be_tried_again(state: State) -> None:
    expected: list[int] = []

    def failing(works: Works) -> Outcomes:
        expected.append(works.documents)
        for work in works:
            yield (
                work,
                {doc_id: Failure(doc_id, "docs", doc_id, SUMMARIES, "crashed", "it broke") for doc_id in work.doc_ids},
            )

    report = state.run_stage(SUMMARIES, range(BUCKETS), failing)
    assert len(report.failures) == report.computed == WHOLE and report.total == 0
    assert state.run_stage(SUMMARIES, range(BUCKETS), failing).kept == WHOLE
    state.run.retry_failed = True
    assert state.run_stage(SUMMARIES, range(BUCKETS), failing).computed == WHOLE
    assert expected == [WHOLE, WHOLE]
    state.run.retry_failed = False
    assert len(state.engine.failures()) == WHOLE + BROKEN


def test_nothing_is_computed_where_an_input_is_missing(state: State) -> None:
    row = state.engine.commits("chunks").rows[-1]
    state.parts.tables.delete([row.file])
    asked = mock.Mock(side_effect=AssertionError("computed"))
    with pytest.raises(
        IndexStateError, match=f"chunks has not been made with these settings for bucket {BUCKETS - 1:02}"
    ) as raised:
        state.run_stage(SUMMARIES, range(BUCKETS), asked)
    assert raised.value.code == "missing_input" and committed(state) == {}


def test_nothing_is_asked_of_a_compute_where_all_stands(state: State) -> None:
    make(state, SUMMARIES, range(BUCKETS))
    told: list[tuple[str, int, int]] = []
    state.run.progress = lambda *said: told.append(said)
    report = state.run_stage(SUMMARIES, range(BUCKETS), mock.Mock(side_effect=AssertionError("computed")))
    assert (report.kept, told) == (WHOLE, [])
