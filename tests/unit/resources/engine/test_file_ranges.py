"""Files are split and joined, and buckets renumbered, while documents come and go: no document is computed again for
it, none is lost, and none is there twice."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from pipelines import ranges
from pipelines.errors import WITHHELD
from pipelines.increments import DocumentState
from pipelines.ranges import Range, bucket_of, bucket_range, overlap
from pipelines.records import (
    OFF,
    Element,
    Failure,
    FigureDescription,
    ParsedDocument,
    RawDocument,
    Span,
    StructuralChunk,
)
from pipelines.schemas import to_table
from pipelines.settings.base import Settings, settings_from
from pipelines.stages import STAGE_OF_TABLE, STAGES, Frozen
from resources.engine import Engine, Outcomes, StageReport, Work, Works
from resources.engine.memory import MemoryFiles, MemoryManifest
from resources.engine.tables import ParquetTables, is_empty
from resources.postgres.catalog import ManifestRow
from resources.sources.listed_documents import AllListed
from resources.state.listing import commit_listing
from resources.state.run import Run

LISTING, PARSED, FIGURES, CHUNKS = "raw_documents", "parsed_elements", "figure_descriptions", "structural_chunks"
MADE = (PARSED, FIGURES, CHUNKS)
CORRUPT, FLAKY = "corrupt", "unreachable"
"""Codes of failures, which the contents of documents begin with that fail; the second may pass."""
MOST, FEWEST = 8, 4


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_files(monkeypatch, MOST, FEWEST)


def limit_files(monkeypatch: pytest.MonkeyPatch, most: int, fewest: int) -> None:
    monkeypatch.setattr(ranges, "MOST_IN_FILE", most)
    monkeypatch.setattr(ranges, "FEWEST_IN_FILES", fewest)


# ---------------------------------------------------------------- documents and what is made of them


Contents = dict[str, str]
"""The content of documents, by id."""


def doc_at(eighth: float, ending: int = 0) -> str:
    """The id of a document at a place in all ids, which are eight wide."""
    return f"{int(eighth * (1 << 29)):08x}{ending:024x}"


def raw(doc_id: str, content: str) -> RawDocument:
    return RawDocument(doc_id, "docs", doc_id, content, 1, "text/plain", None, None, None, None, (), {})


class Documents:
    """A listing of these documents."""

    def __init__(self, contents: Mapping[str, str]) -> None:
        self._contents = contents

    def documents_between(self, first: str, after: str) -> pa.Table:
        own = sorted(doc_id for doc_id in self._contents if first <= doc_id < after)
        return to_table(RawDocument, [raw(doc_id, self._contents[doc_id]) for doc_id in own])

    def sources(self) -> Collection[str]:
        return {"docs"}


def parsed(work: Work, doc_id: str) -> Any:
    content = work.one(LISTING, doc_id).content_hash
    for code in (CORRUPT, FLAKY):
        if content.startswith(code):
            return Failure(doc_id, "docs", doc_id, PARSED, code, content)
    document = ParsedDocument(doc_id, "", True, "en", content, None, None, None, None, {}, ())
    lines = [
        Element(doc_id, at, "paragraph", None, None, content, 0, 1, None, None, (), (), 1.0, "parse", {})
        for at in range(2)
    ]
    return {"parsed_documents": [document], "parsed_elements": lines}


def figured(work: Work, doc_id: str) -> Any:
    """No figure where the content says so, so that some documents have a state and no rows."""
    body = work.one("parsed_documents", doc_id).body
    return {FIGURES: [] if "plain" in body else [FigureDescription(doc_id, 0, 0, "", body, OFF)]}


def chunked(work: Work, doc_id: str) -> Any:
    body = work.one("parsed_documents", doc_id).body
    text = "/".join([body, *(figure.text for figure in work.all(FIGURES, doc_id))])
    return {CHUNKS: [StructuralChunk(doc_id, 0, "", (), "paragraph", text, Span(0, 1), 0, None, None, (), 1, {})]}


MAKE = {PARSED: parsed, FIGURES: figured, CHUNKS: chunked}


class Noting(MemoryManifest):
    """A manifest that notes the rows that were committed, and checks what it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[ManifestRow] = []

    def commit(self, rows: Sequence[ManifestRow], stage: str, key: str, *more: Any, **named: Any) -> None:
        super().commit(rows, stage, key, *more, **named)
        self.rows += rows
        for table in STAGES[stage].tables:
            held = self.manifest_of(table, key)
            assert all(row.first < row.after for row in held)
            assert all(one.after <= other.first for one, other in pairwise(held)), "no document is in two commits"


@cache
def settings_of(buckets: int) -> Settings:
    return settings_from({"buckets": buckets})


class Corpus:
    """Documents, and tables made of them under any number of buckets."""

    def __init__(self, contents: Contents, buckets: int = 1) -> None:
        self.contents, self.buckets, self.run = dict(contents), buckets, "a run"
        self.manifest, self.tables = Noting(), ParquetTables(MemoryFiles())
        self.computed: dict[str, list[str]] = {}
        self.reports: dict[str, StageReport] = {}
        self._engines: dict[tuple[int, str, bool], Engine] = {}

    def engine(self, retry_failed: bool = False) -> Engine:
        """An engine under the present settings. It holds nothing that a run changes."""
        key = self.buckets, self.run, retry_failed
        if key not in self._engines:
            run = Run(self.run, retry_failed=retry_failed)
            self._engines[key] = Engine(settings_of(self.buckets), self.tables, self.manifest, run, Frozen(), {})
        return self._engines[key]

    def listed(self, buckets: Collection[int] | None = None) -> None:
        commit_listing(self.engine(), Documents(self.contents), ["docs"], buckets=buckets)

    def made(
        self, stages: Iterable[str] = MADE, buckets: Collection[int] | None = None, retry_failed: bool = False
    ) -> dict[str, set[str]]:
        """Bring stages up to date. Return the documents that were computed, by stage, of the stages with some."""
        self.computed.clear()
        for stage in stages:
            wanted = range(self.buckets) if buckets is None else buckets
            engine = self.engine(retry_failed)
            self.reports[stage] = engine.run(stage, wanted, partial(self._compute, stage))
        for stage, doc_ids in self.computed.items():
            assert len({*doc_ids}) == len(doc_ids) == self.reports[stage].computed
        return {stage: {*doc_ids} for stage, doc_ids in self.computed.items()}

    def _compute(self, stage: str, works: Works) -> Outcomes:
        for work in works:
            self.computed.setdefault(stage, []).extend(work.doc_ids)
            yield work, {doc_id: MAKE[stage](work, doc_id) for doc_id in work.doc_ids}

    def update(self) -> dict[str, set[str]]:
        """List all documents, and bring all stages up to date."""
        self.listed()
        return self.made()

    # ------------------------------------------------------------ what there is

    def commits(self, table: str) -> list[ManifestRow]:
        return self.manifest.manifest_of(table, self.engine().key(STAGE_OF_TABLE[table].name))

    def ranges(self, table: str) -> list[Range]:
        return [row.range for row in self.commits(table)]

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [row for piece in self.engine().table(table).pieces() for row in piece.to_pylist()]

    def states(self, table: str) -> list[tuple[str, DocumentState]]:
        return list(self.engine().table(table).states())

    def everything(self) -> dict[str, Any]:
        """All rows of all tables, with what the states of their documents say of the rows, in order."""
        tables = [table for stage in (LISTING, *MADE) for table in STAGES[stage].tables]
        return {
            table: (self.rows(table), [(name, state.fingerprint, state.output) for name, state in self.states(table)])
            for table in tables
        }

    def written(self) -> list[tuple[str, Range]]:
        """The tables and ranges that were committed since this was last asked."""
        rows, self.manifest.rows = self.manifest.rows, []
        return [(row.table, row.range) for row in rows]


@lru_cache(maxsize=4)
def made_from_nothing(contents: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """Return what one run makes of these documents, in one file for each table."""
    fresh = Corpus(dict(contents))
    with pytest.MonkeyPatch.context() as patch:
        limit_files(patch, 1000, 500)
        fresh.update()
    return fresh.everything()


def check(corpus: Corpus, of: Contents | None = None) -> None:
    """Everything is as it is made from nothing; and another run finds nothing to do."""
    found, wanted = corpus.everything(), made_from_nothing(tuple((corpus.contents if of is None else of).items()))
    for table, (rows, states) in wanted.items():
        if table == LISTING and of is not None:
            continue
        assert found[table][0] == rows
        assert [state for state in found[table][1] if state[2]] == states
    assert not any(corpus.engine().due(stage) for stage in MADE)
    for stage in MADE:
        report = corpus.reports[stage]
        assert (report.total, report.seen) == (
            corpus.engine().table(next(iter(STAGES[stage].tables))).rows,
            len(corpus.engine().parts(())),
        )


def spread(count: int, content: str = "text") -> Contents:
    return {doc_at(8 * at / count, at): f"{content} {at}" for at in range(count)}


def everywhere(*doc_ids: str) -> dict[str, set[str]]:
    return {stage: {*doc_ids} for stage in MADE}


# ---------------------------------------------------------------- files are split and joined


@pytest.mark.parametrize(
    ("count", "before", "after", "counts"),
    [
        (16, (16, 8), (4, 2), [4, 4, 4, 4]),
        (16, (8, 4), (32, 16), [16]),
        (16, (4, 2), (16, 8), [8, 8]),
        (12, (3, 1), (6, 3), [3, 3, 3, 3]),
    ],
    ids=["split", "joined to one", "joined to two", "left as they are"],
)
def test_files_of_all_tables_follow_those_of_the_listing_and_nothing_is_computed(
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    before: tuple[int, int],
    after: tuple[int, int],
    counts: list[int],
) -> None:
    limit_files(monkeypatch, *before)
    corpus = Corpus(spread(count))
    assert corpus.update() == everywhere(*corpus.contents)
    everything, own = corpus.everything(), corpus.ranges(LISTING)
    states = {table: corpus.states(table) for table in everything}
    corpus.run = "a later run"
    limit_files(monkeypatch, *after)
    assert corpus.update() == {}
    assert [row.documents for row in corpus.commits(LISTING)] == counts
    for table in everything:
        assert corpus.ranges(table) == corpus.ranges(LISTING)
        assert all(row.whole and row.rows >= 0 for row in corpus.commits(table))
    assert (corpus.ranges(LISTING) == own) is (len(counts) == len(own))
    assert corpus.everything() == everything
    assert {table: corpus.states(table) for table in everything} == states, "with the run that made each"
    check(corpus)
    corpus.written()
    assert (corpus.update(), corpus.written()) == ({}, [])


def test_a_document_that_makes_a_file_too_large_is_the_only_one_computed() -> None:
    corpus = Corpus(spread(8))
    corpus.update()
    assert len(corpus.ranges(LISTING)) == 1
    new = doc_at(3.3)
    corpus.contents[new] = "new"
    assert corpus.update() == everywhere(new)
    assert len(corpus.ranges(LISTING)) == len(corpus.ranges(CHUNKS)) == 2
    check(corpus)
    corpus.written()
    changed = doc_at(6, 6)
    corpus.contents[changed] = "changed"
    assert corpus.update() == everywhere(changed)
    assert {ends for _, ends in corpus.written()} == {corpus.ranges(LISTING)[1]}, "the other half is not rewritten"
    for gone in list(spread(8))[:5]:
        del corpus.contents[gone]
    assert corpus.update() == {}
    assert len(corpus.ranges(LISTING)) == len(corpus.ranges(CHUNKS)) == 1
    check(corpus)


# ---------------------------------------------------------------- buckets are renumbered


@pytest.mark.parametrize(("before", "after"), [(4, 3), (2, 4), (1, 3), (4, 1)])
def test_other_buckets_compute_nothing_and_write_only_what_lies_in_two(
    monkeypatch: pytest.MonkeyPatch, before: int, after: int
) -> None:
    limit_files(monkeypatch, 1000, 0)  # nothing is joined
    corpus = Corpus(spread(24), before)
    corpus.update()
    everything, own = corpus.everything(), corpus.ranges(CHUNKS)
    corpus.written()
    corpus.buckets = after
    assert not any(corpus.engine().due(stage) for stage in MADE)
    assert (corpus.made(), corpus.written()) == ({}, [])
    assert [corpus.reports[stage].kept for stage in MADE] == [24] * 3
    assert sorted(corpus.reports[CHUNKS].buckets) == list(range(after))
    assert sum(each["rows"] for each in corpus.reports[CHUNKS].buckets.values()) == 24
    assert corpus.ranges(CHUNKS) == own and corpus.everything() == everything
    assert corpus.engine().unmade(CHUNKS) == []
    check(corpus)
    assert corpus.update() == {}, "a new listing gives each bucket files of its own"
    assert {ends for _, ends in corpus.written()} == {*corpus.ranges(LISTING)} - {*own}
    for table in everything:
        assert corpus.ranges(table) == corpus.ranges(LISTING)
        for row in corpus.commits(table):
            assert row.whole and len(ranges.buckets_over(row.range, after)) == 1
    assert corpus.everything() == everything
    assert (corpus.update(), corpus.written()) == ({}, [])
    check(corpus)


@pytest.mark.parametrize(("before", "after", "joined"), [(4, 3, 0), (1, 3, 0), (2, 3, 500)])
def test_a_change_under_other_buckets_computes_its_document_alone(
    monkeypatch: pytest.MonkeyPatch, before: int, after: int, joined: int
) -> None:
    limit_files(monkeypatch, 1000, joined)
    corpus = Corpus(spread(24), before)
    corpus.update()
    corpus.buckets = after
    changed, new, gone = (list(corpus.contents)[at] for at in (4, 12, 23))
    corpus.contents[changed] = "changed"
    assert corpus.update() == everywhere(changed)
    check(corpus)
    corpus.contents[f"{new[:-1]}f"] = "new"
    del corpus.contents[gone]
    assert corpus.update() == everywhere(f"{new[:-1]}f")
    assert corpus.reports[PARSED].gone == 1
    check(corpus)
    corpus.buckets = before
    assert corpus.update() == {}
    check(corpus)


def test_files_that_other_buckets_join_are_written_once_and_nothing_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit_files(monkeypatch, 10, 5)
    corpus = Corpus(spread(16), 6)
    corpus.update()
    everything = corpus.everything()
    corpus.written()
    corpus.buckets = 4
    assert corpus.update() == {}
    assert corpus.written() != [] and corpus.ranges(CHUNKS) == corpus.ranges(LISTING)
    assert corpus.ranges(LISTING) == [bucket_range(bucket, 4) for bucket in range(4)]
    assert corpus.everything() == everything
    assert (corpus.update(), corpus.written()) == ({}, [])
    check(corpus)


# ---------------------------------------------------------------- a commit in a wider one


@pytest.mark.parametrize(
    ("before", "after", "bucket"),
    [(1, 3, 0), (1, 3, 1), (1, 3, 2), (2, 3, 1), (6, 4, 1)],
    ids=["its-beginning", "its-middle", "its-end", "of-two-files", "of-one-file-and-another-whole"],
)
def test_the_rest_of_a_wider_commit_stays_readable(
    monkeypatch: pytest.MonkeyPatch, before: int, after: int, bucket: int
) -> None:
    """One bucket alone is made anew, in files that were made under other buckets."""
    limit_files(monkeypatch, 1000, 0)
    corpus = Corpus(spread(24), before)
    corpus.update()
    everything, files = corpus.everything(), {row.file for row in corpus.commits(CHUNKS)}
    corpus.buckets, (first, after_all) = after, bucket_range(bucket, after)
    inside = [doc_id for doc_id in corpus.contents if first <= doc_id < after_all]
    changed = inside[len(inside) // 2]
    corpus.contents[changed] = "changed"
    corpus.listed([bucket])
    assert corpus.made(buckets=[bucket]) == everywhere(changed)
    for table in (LISTING, *MADE):
        rows = corpus.commits(table)
        assert all(one.after == other.first for one, other in pairwise(rows)), "nothing is uncommitted"
        cut = [row for row in rows if not row.whole]
        assert all(overlap(row.range, (first, after_all)) is None and row.documents == -1 for row in cut)
        assert cut or before == after
        for own in corpus.engine().parts([table], require=True):
            assert list(own.states(table)) == [doc_id for doc_id in corpus.contents if own.first <= doc_id < own.after]
            assert own.rows(table) == own.read(table).num_rows == own.stored_rows(table)
    cut = [row for row in corpus.commits(CHUNKS) if not row.whole]
    assert cut and {row.file for row in cut} <= files
    found = corpus.everything()
    for table, (rows, _) in everything.items():
        assert [row for row in found[table][0] if row["doc_id"] != changed] == [
            row for row in rows if row["doc_id"] != changed
        ]
    assert corpus.made() == {}, "the rest is written anew, but not computed"
    assert corpus.update() == {}
    assert all(row.whole for table in MADE for row in corpus.commits(table))
    check(corpus)


def test_a_run_of_some_buckets_leaves_the_others_as_they_are() -> None:
    corpus = Corpus(spread(24), 6)
    corpus.update()
    corpus.buckets = 4
    corpus.contents = {doc_id: f"{content} anew" for doc_id, content in corpus.contents.items()}
    corpus.listed()
    own = {doc_id for doc_id in corpus.contents if bucket_of(doc_id, 4) in (1, 3)}
    assert corpus.made(buckets=[1, 3]) == everywhere(*own)
    assert {row["doc_id"] for row in corpus.rows(CHUNKS) if "anew" in row["text"]} == own
    assert len(corpus.rows(CHUNKS)) == 24
    assert corpus.made() == everywhere(*(corpus.contents.keys() - own))
    check(corpus)


# ---------------------------------------------------------------- lost files


def documents_of(corpus: Corpus, file: str, table: str) -> set[str]:
    rows = [row for row in corpus.commits(table) if row.file == file]
    return {doc_id for doc_id in corpus.contents for row in rows if row.first <= doc_id < row.after}


@pytest.mark.parametrize(
    ("table", "before", "after"),
    [
        ("parsed_documents", 3, 3), ("parsed_elements", 3, 4), (FIGURES, 4, 3), (CHUNKS, 3, 4), (CHUNKS, 4, 3),
    ],
)  # fmt: skip
def test_documents_of_a_lost_file_are_computed_again_and_no_others(
    monkeypatch: pytest.MonkeyPatch, table: str, before: int, after: int
) -> None:
    limit_files(monkeypatch, 1000, 0)
    corpus = Corpus(spread(24), before)
    corpus.update()
    corpus.buckets = after
    file = corpus.commits(table)[1].file
    lost = documents_of(corpus, file, table)
    assert 0 < len(lost) < 24
    corpus.tables.delete([file])
    stage = STAGE_OF_TABLE[table].name
    assert corpus.engine().table(table).lost_buckets(after) == {bucket_of(doc_id, after) for doc_id in lost}
    assert {doc_id for doc_id in corpus.contents if corpus.engine().table(table).is_lost(doc_id)} == lost
    assert corpus.made() == {stage: lost}
    check(corpus)


def test_the_rest_of_a_lost_file_with_a_cut_row_is_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bucket that was made anew has a file of its own."""
    limit_files(monkeypatch, 1000, 0)
    corpus = Corpus(spread(24), 1)
    corpus.update()
    (file,) = {row.file for row in corpus.commits(CHUNKS)}
    corpus.buckets = 4
    corpus.contents[doc_at(3, 9)] = "changed"
    corpus.listed([1])
    corpus.made(buckets=[1])
    corpus.tables.delete([file])
    assert corpus.made() == {CHUNKS: {doc_id for doc_id in corpus.contents if bucket_of(doc_id, 4) != 1}}
    check(corpus)


@pytest.mark.parametrize("after", [3, 4])
def test_a_lost_file_of_the_listing_is_listed_again_and_nothing_is_computed(after: int) -> None:
    corpus = Corpus(spread(16), 3)
    corpus.update()
    corpus.buckets = after
    corpus.tables.delete([corpus.commits(LISTING)[1].file])
    assert corpus.update() == {}
    check(corpus)


def test_documents_of_a_lost_listing_file_stay_unknown_until_sources_are_listed() -> None:
    """Restrictions are committed, and a source is removed, without a listing: no document goes for a lost file."""
    corpus = Corpus(spread(16), 3)
    corpus.update()
    file = corpus.commits(LISTING)[1].file
    hidden = min(documents_of(corpus, file, LISTING))
    corpus.tables.delete([file])
    engine = corpus.engine()
    why = Failure(hidden, "docs", hidden, "raw_documents", sorted(WITHHELD)[0], "its restrictions are unknown")
    commit_listing(engine, AllListed(), [], [why], listed=False)
    assert engine.table(LISTING).lost == (file,)
    assert [item.doc_id for item in engine.failures()] == [hidden]
    assert corpus.update() == {}
    check(corpus)


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize(("buckets", "most"), [(3, 100), (2, 4)], ids=["other buckets", "split"])
def test_failures_and_the_last_good_rows_stay_when_files_change(
    monkeypatch: pytest.MonkeyPatch, buckets: int, most: int
) -> None:
    limit_files(monkeypatch, 100, 50)
    corpus = Corpus(spread(16), 2)
    corpus.update()
    good = dict(corpus.contents)
    never, later = doc_at(0.1), list(good)[9]
    corpus.contents |= {never: CORRUPT, later: f"{CORRUPT} since"}
    assert corpus.update() == {PARSED: {never, later}}
    before, rows = corpus.engine().failures(), corpus.rows("parsed_documents")
    assert {item.doc_id for item in before} == {never, later}
    assert {row["doc_id"]: row["body"] for row in rows}[later] == good[later]
    limit_files(monkeypatch, most, most // 2)
    corpus.buckets = buckets
    assert corpus.update() == {}
    assert corpus.engine().failures() == before and corpus.rows("parsed_documents") == rows
    assert dict(corpus.states("parsed_documents"))[never].failed
    check(corpus, good)
    assert corpus.made(retry_failed=True) == {PARSED: {never, later}}
    corpus.contents[later] = "whole again"
    assert corpus.update() == everywhere(later)
    assert [item.doc_id for item in corpus.engine().failures()] == [never]


@pytest.mark.parametrize("buckets", [2, 3])
def test_a_failure_that_may_pass_is_tried_again_alone_under_any_buckets(
    monkeypatch: pytest.MonkeyPatch, buckets: int
) -> None:
    limit_files(monkeypatch, 1000, 0)
    corpus = Corpus(spread(16), 2)
    flaky = list(corpus.contents)[7]
    corpus.contents[flaky] = FLAKY
    corpus.update()
    corpus.buckets = buckets
    assert corpus.update() == {PARSED: {flaky}}
    corpus.written()
    assert corpus.update() == {PARSED: {flaky}}
    assert all(first <= flaky < after for _, (first, after) in corpus.written()), "no other file is written"
    monkeypatch.setitem(MAKE, PARSED, lambda work, doc_id: parsed_as(doc_id))
    assert corpus.made() == everywhere(flaky)
    assert corpus.engine().failures() == [] and len(corpus.rows(CHUNKS)) == 16
    assert corpus.made() == {}


def parsed_as(doc_id: str) -> Any:
    document = ParsedDocument(doc_id, "", True, "en", "at last", None, None, None, None, {}, ())
    return {"parsed_documents": [document], "parsed_elements": []}


# ---------------------------------------------------------------- any sequence


class Expected:
    """A model of what each stage knows of each document: what it was made from last, and what came of it."""

    def __init__(self) -> None:
        self.listed: Contents = {}
        self.used: dict[str, dict[str, Any]] = {stage: {} for stage in MADE}
        self.out: dict[str, Contents] = {stage: {} for stage in MADE}
        self.failing: dict[str, str] = {}

    def _inputs(self, stage: str) -> dict[str, Any]:
        if stage == PARSED:
            return dict(self.listed)
        if stage == FIGURES:
            return dict(self.out[PARSED])
        return {doc_id: (body, self.out[FIGURES][doc_id]) for doc_id, body in self.out[PARSED].items()
                if doc_id in self.out[FIGURES]}  # fmt: skip

    def made(self, stage: str, within: Any) -> set[str]:
        """Bring a stage up to date for the documents that are `within`. Return those that are computed."""
        used, out, computed = self.used[stage], self.out[stage], set()
        inputs = {doc_id: value for doc_id, value in self._inputs(stage).items() if within(doc_id)}
        for doc_id in [each for each in used if within(each) and each not in inputs]:
            del used[doc_id]
            out.pop(doc_id, None)
            if stage == PARSED:
                self.failing.pop(doc_id, None)
        for doc_id, value in inputs.items():
            again = stage == PARSED and self.failing.get(doc_id) == FLAKY
            if used.get(doc_id) == value and not again:
                continue
            computed.add(doc_id)
            used[doc_id] = value
            code = next((code for code in (CORRUPT, FLAKY) if stage == PARSED and value.startswith(code)), None)
            if stage == PARSED:
                self.failing.pop(doc_id, None)
            if code:
                self.failing[doc_id] = code
            else:
                out[doc_id] = str(value)
        return computed

    def lose(self, stage: str, doc_ids: Iterable[str]) -> None:
        for doc_id in doc_ids:
            self.used[stage].pop(doc_id, None)
            self.out[stage].pop(doc_id, None)


def run_of(corpus: Corpus, expected: Expected, stages: Iterable[str], buckets: Collection[int]) -> None:
    def within(doc_id: str) -> bool:
        return bucket_of(doc_id, corpus.buckets) in buckets

    for stage in stages:
        wanted = expected.made(stage, within)
        assert corpus.made([stage], buckets).get(stage, set()) == wanted


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.faults) for seed in range(6, 16))])
def test_whatever_happens_every_document_is_there_once_as_if_made_from_nothing(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance, number = Random(seed), 0
    corpus, expected = Corpus({}, chance.choice([1, 3, 8])), Expected()

    def relist(buckets: Collection[int]) -> None:
        corpus.listed(buckets)
        for doc_id in {*expected.listed, *corpus.contents}:
            if bucket_of(doc_id, corpus.buckets) in buckets:
                expected.listed.pop(doc_id, None)
                if doc_id in corpus.contents:
                    expected.listed[doc_id] = corpus.contents[doc_id]

    def everything() -> range:
        return range(corpus.buckets)

    relist(everything())
    run_of(corpus, expected, MADE, everything())
    for _ in range(8):
        step = chance.choice(["add", "add", "remove", "change", "buckets", "files", "some", "lose", "lose listing"])
        ids = sorted(corpus.contents)
        if step == "add":
            near = chance.choice([8.0, 8.0, 1e-6])
            for _ in range(chance.randrange(1, 16)):
                number += 1
                corpus.contents[doc_at(chance.random() * near, number)] = content(chance, number)
        elif step == "remove":
            share = chance.random()
            corpus.contents = {each: corpus.contents[each] for each in ids if chance.random() > share}
        elif step == "change":
            for doc_id in chance.sample(ids, min(len(ids), 3)):
                number += 1
                corpus.contents[doc_id] = content(chance, number)
        elif step == "buckets":
            corpus.buckets = chance.choice([1, 2, 3, 7, 10])
        elif step == "files":
            most = chance.choice([4, 8, 20])
            limit_files(monkeypatch, most, most // 2)
        elif step == "some":
            own = set(chance.sample(everything(), chance.randrange(1, corpus.buckets + 1)))
            relist(own)
            run_of(corpus, expected, MADE[: chance.randrange(4)], own)
        elif step == "lose" and ids:
            table = chance.choice(["parsed_documents", "parsed_elements", FIGURES, CHUNKS])
            there = sorted({row.file for row in corpus.commits(table) if not is_empty(row.file)})
            if there:
                file = chance.choice(there)
                rows = [row for row in corpus.commits(table) if row.file == file]
                stage = STAGE_OF_TABLE[table].name
                lost = {each for each in expected.used[stage] for row in rows if row.first <= each < row.after}
                corpus.tables.delete([file])
                expected.lose(stage, lost)
        elif step == "lose listing":
            there = sorted({row.file for row in corpus.commits(LISTING) if not is_empty(row.file)})
            corpus.tables.delete(there[:1])
        relist(everything())
        run_of(corpus, expected, MADE, everything())
        check(corpus, expected.out[PARSED])
        assert {item.doc_id: item.code for item in corpus.engine().failures()} == expected.failing
        assert [row["doc_id"] for row in corpus.rows(LISTING)] == sorted(corpus.contents)
        assert all(row.documents <= max(ranges.MOST_IN_FILE, 1) for row in corpus.commits(LISTING) if row.whole)


def content(chance: Random, number: int) -> str:
    return chance.choice(["text", "text", "plain", "text", CORRUPT, FLAKY]) + f" {number}"
