"""The front page and browsing over a bare index: what is shown of the documents, and to whom."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.testclient import TestClient

from pincite.guard import Anybody, Asker
from pincite.serve.application import application
from pincite.serve.pages import KIND_NAMES
from pincite.serve.service import Service
from pipelines.errors import DatabaseError, IndexStateError
from pipelines.parsing.formats import FORMATS, KIND_OF_ENDING, KINDS
from resources.evaluation.suggest import Example
from resources.search.documents import Browsed, Choice, DocumentCounts
from tests.support.bare_index import COUNTED, DOCUMENT, URL, Bare, bare_service


class Counting(Bare):
    """An index whose numbers of documents can be set, and whose one document some groups may not see."""

    total = 1
    at, count = 1, 1
    made = read = 0
    read_last: Mapping[str, datetime] = {"s": datetime(2026, 11, 27, 21, 40, tzinfo=UTC)}
    questions: tuple[Example, ...] = (Example("What is in it?", "d"),)
    run_seconds = (1.2, 119.0, 277.3)

    def __init__(self) -> None:
        super().__init__(())

    def overview(self, groups: Sequence[str], doc_ids: Sequence[str]) -> tuple[DocumentCounts, set[str]]:
        self.read += 1
        facets = {"kind": (("pdf", 1), ("sheet", 2)), "source": (("s", 1), ("t", 1))[: 1 + len(groups)]}
        counted = replace(COUNTED, total=self.total, facets={**COUNTED.facets, **facets})
        return counted, {"d"} & set(doc_ids) if "d" in groups else set()

    def browse(self, groups: Sequence[str], choice: Choice, page: int) -> Browsed:
        return Browsed(self.overview(groups, ())[0], (DOCUMENT,), self.at, self.count)

    def read_at(self) -> dict[str, datetime]:
        return dict(self.read_last)

    def asked_status(self, groups: Sequence[str], operator: bool) -> dict[str, Any]:
        runs = [{"job": "index", "status": "SUCCESS", "started": "2026-11-27T21:40:00+00:00", "seconds": seconds}
                for seconds in self.run_seconds]  # fmt: skip
        return {**super().asked_status(groups, operator), "runs": runs}

    def examples(self) -> Iterator[Example]:
        self.made += 1
        yield from self.questions


def client_of(service: Service) -> TestClient:
    return TestClient(application(service, Anybody(), URL), base_url=URL)


@pytest.mark.parametrize(
    ("total", "english", "ukrainian"),
    [
        (1, "1 document<", "1 документ<"),
        (2, "2 documents<", "2 документи<"),
        (1_205, "1,205 documents<", "документів<"),
    ],
)
def test_a_count_is_in_the_words_of_its_number(total: int, english: str, ukrainian: str) -> None:
    index = Counting()
    index.total = total
    client = client_of(bare_service(index=index))
    for path in ("/", "/documents"):
        assert english in client.get(path).text
        assert ukrainian in client.get(path, headers={"Accept-Language": "uk"}).text
    assert "27\u00a0November 2026, 21:40\u00a0UTC" in client.get("/").text


def test_long_runs_are_told_in_minutes() -> None:
    client = client_of(bare_service(index=Counting()))
    for language, told in (
        ("en", ("(1 second)", "(119 seconds)", "(5 minutes)")),
        ("uk", ("(1 секунда)", "(119 секунд)", "(5 хвилин)")),
    ):
        shown = client.get("/status", headers={"Accept-Language": language}).text
        assert [each for each in told if each in shown] == list(told)


class Repeated(Bare):
    """An index whose one hit continues a passage, and stands elsewhere too."""

    def query(self, text: str, *given: Any) -> dict[str, Any]:
        place = {"source": "s", "uri": "a.pdf", "page_start": 3, "page_end": 3}
        twins = [{**place, "chunk_id": "before", "precedes": True}, {**place, "chunk_id": "same", "precedes": False}]
        found = super().query(text, *given)
        return {**found, "hits": [{**hit, "duplicates": twins} for hit in found["hits"]]}


def test_a_passage_before_a_hit_is_not_called_the_same() -> None:
    shown = client_of(bare_service(index=Repeated(()))).get("/?q=a").text
    assert re.findall(r'class="hint">([^<]*:) <a href="/passages/(\w+)"', shown) == [
        ("The same text is also in:", "same"),
        ("It continues:", "before"),
    ]


def test_an_example_is_shown_to_those_who_may_see_its_document() -> None:
    service = bare_service(index=Counting())
    assert service.overview(Asker("a", ("d",))).examples == ()  # they are being made
    service.examples.wait()
    assert service.overview(Asker("a", ("d",))).examples == ("What is in it?",)
    assert service.overview(Asker("b", ())).examples == ()


def test_examples_are_made_once_for_each_version_of_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pincite.serve.service.STATUS_SECONDS", -1.0)
    monkeypatch.setattr("pincite.serve.service.KEPT_TIMES", 0)
    index = Counting()
    service = bare_service(index=index)
    for made, day in ((1, 27), (1, 27), (2, 28)):
        index.read_last = {"s": datetime(2026, 11, 1, tzinfo=UTC), "t": datetime(2026, 11, day, tzinfo=UTC)}
        for asker, seen in ((Asker(), 1), (Asker("a", ("d",)), day)):  # the second source is one that the other sees
            assert service.overview(asker).updated == f"2026-11-{seen:02}T00:00:00+00:00"
            service.examples.wait()
            assert index.made == made


@pytest.mark.parametrize(("seconds", "times", "read"), [(3600.0, 0, 1), (-1.0, 10**12, 1), (-1.0, 0, 3)])
def test_an_overview_is_kept_for_a_while_and_the_longer_the_more_it_cost(
    monkeypatch: pytest.MonkeyPatch, seconds: float, times: int, read: int
) -> None:
    monkeypatch.setattr("pincite.serve.service.STATUS_SECONDS", seconds)
    monkeypatch.setattr("pincite.serve.service.KEPT_TIMES", times)
    index = Counting()
    index.questions = ()  # so that none comes between
    service = bare_service(index=index)
    for _ in range(3):
        service.overview(Asker())
    assert index.read == read


def test_examples_that_cannot_be_made_leave_the_page_without_them() -> None:
    class Failing(Counting):
        def examples(self) -> Iterator[Example]:
            raise DatabaseError("gone", "database")
            yield

    client = client_of(bare_service(index=Failing()))
    for _ in range(2):
        reply = client.get("/")
        assert reply.status_code == 200 and "For example" not in reply.text


def test_nothing_is_begun_after_the_end() -> None:
    index = Counting()
    service = bare_service(index=index)
    service.examples.close()
    service.overview(Asker())
    assert index.made == 0


def test_a_page_for_a_missing_index_says_how_to_make_one() -> None:
    class Nothing(Counting):
        def overview(self, groups: Sequence[str], doc_ids: Sequence[str]) -> Any:
            raise IndexStateError("nothing is published yet", "no_index")

    reply = client_of(bare_service(index=Nothing())).get("/", headers={"Accept": "text/html"})
    assert reply.status_code == 503 and "pincite index" in reply.text


def test_pages_of_documents_lead_to_each_other_and_keep_the_choice() -> None:
    index = Counting()
    index.total, index.at, index.count = 60, 2, 3
    page = client_of(bare_service(index=index)).get("/documents?name=a%26b&kind=pdf&page=2").text
    assert '<a rel="prev" href="/documents?kind=pdf&amp;name=a%26b&amp;page=1">' in page
    assert '<a rel="next" href="/documents?kind=pdf&amp;name=a%26b&amp;page=3">' in page
    assert 'value="a&amp;b"' in page and '<input type="hidden" name="kind" value="pdf">' in page
    assert "Kind: PDF" in page and "page 2 of 3" in page


def test_every_format_is_of_a_kind_that_has_a_name() -> None:
    """XML may be anything, so that it is of the kind `other`."""
    endings = {ending for each in FORMATS for ending in each.endings}
    assert endings - KIND_OF_ENDING.keys() == {".xml"}
    assert KIND_NAMES.keys() == {*KINDS, "other"}
