"""Every view of documents whose elements say nothing: pages, JSON and tools open all of them."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from pincite.guard import Anybody, Asker
from pincite.serve.answers import event
from pincite.serve.application import application
from pincite.serve.mcp import Fetch, Tools
from pincite.text.reports import outline_shown
from pipelines.parsing.elements import KINDS
from pipelines.records import Cell, Element, ParsedDocument, ParsedFile
from tests.support.bare_index import URL, Bare, bare_service

PLAIN = Element("d", 0, "paragraph", None, None, "", 0, 0, None, None, (), (), 1.0, "", {})
BLANK = Cell(0, 0, 1, 1, False, 0, 0, "")
SHAPES: dict[str, dict[str, Any]] = {
    "nothing": {}, "blank": {"text": " "}, "no body": {"text": "gone", "start": 90, "end": 94},
    "level 0": {"level": 0}, "level 99": {"level": 99}, "no marker": {"marker": ""},
    "one empty cell": {"cells": (BLANK,)}, "no span": {"cells": (replace(BLANK, row_span=0, column_span=0),)},
    "empty header": {"cells": (replace(BLANK, header=True), replace(BLANK, row=3, column=2))},
    "first page": {"page_start": 1, "page_end": 1}, "no alt": {"metadata": {"alt": "", "language": ""}},
}  # fmt: skip
VIEWS = [
    "/documents", "/documents?name=a&year=x", *(f"/documents?page={page}" for page in ("0", "-1", "9" * 10, "x", "")),
    "/", "/?q=a", "/?q=a&ask=1", *(f"/?q=a&k={k}" for k in ("1", "1.0", "%201", "1_0", "0", "x", "")), "/status",
    "/passages/c", "/passages/c?q=a", "/passages/c?view=text",
    *(f"/passages/c?sentence={named}" for named in ("s", "x", "")), "/passages/x",
    *(f"/documents/d?find={words}{view}" for words in ("a", "+", "x" * 999, "(a%2B)%2B%24", "%F0%9F%99%82")
      for view in ("", "&view=text", "&q=a")),
    *(f"/documents/d?find=a&at={at}{view}" for at in ("", "0", "1", "9999999", "x") for view in ("", "&view=text")),
    "/passages/c?q=a&find=a", "/documents/d?q=a&source=s&from=2026&to=x&strategy=none", "/documents/d?page=1000000000",
    "/documents/d", "/documents/d?view=text", "/documents/x", *(f"/documents/d?view=text&part={part}" for part in
    ("0", "1", "2", "-1", "9999999", "9" * 30, "x", "")), *(f"/documents/d?page={page}" for page in
    ("0", "1", "2", "-1", "9999999", "9" * 30, "x", "")), "/api/documents", "/api/documents/d", "/api/documents/d/file",
    "/api/documents/x", "/api/passages/c", "/api/passages/x", "/api/search?q=a", "/api/ask?q=a", "/api/status",
    *(f"/api/pages/d/{page}.png{marked}" for page in ("0", "1", "2", "-1", "9999999", "9" * 30, "x", "1.5")
      for marked in ("", "?passage=c", "?passage=x")),
]  # fmt: skip


Views = Callable[..., tuple[TestClient, Tools]]


@pytest.fixture
def views_of() -> Iterator[Views]:
    """Makes the whole application, whose requests share an event loop, and the tools of agents, over an index of one
    bare document."""
    with ExitStack() as stack:

        def made(elements: Sequence[Element] | None, index: Bare | None = None) -> tuple[TestClient, Tools]:
            service = bare_service(elements, index)
            client = TestClient(application(service, Anybody(), URL), base_url=URL)
            return stack.enter_context(client), Tools(service, URL)

        yield made


def sentence_in(reply: Any) -> str:
    """What a refusal tells, of a page or in JSON."""
    if "html" in reply.headers["content-type"]:
        (told,) = re.findall(r"<p>(.*?)</p>", reply.text, re.DOTALL)
        return html.unescape(told)
    return str(reply.json()["error"]["message"])


def opens(client: TestClient, path: str) -> None:
    """Fails unless a view is shown, or refused with a sentence that says why, to people and to programs."""
    for accept in ("text/html", "application/json"):
        reply = client.get(path, headers={"Accept": accept})
        assert reply.status_code in (200, 400, 404, 409), (path, reply.text)
        if reply.status_code == 200:
            break
        assert len(sentence_in(reply).split()) >= 4, (path, reply.text)


@pytest.mark.parametrize("kind", [*sorted(KINDS), "unheard-of"])
def test_every_view_of_a_kind_of_element_that_says_nothing_opens(views_of: Views, kind: str) -> None:
    elements = [replace(PLAIN, index=at, kind=kind, **shape) for at, shape in enumerate(SHAPES.values())]
    document = ParsedDocument("d", "", False, "", "", None, None, None, None, {}, ())
    assert outline_shown(document, ParsedFile(()), elements)
    index = Bare(elements)
    client, tools = views_of(elements, index)
    for shown in (elements, *([alone] for alone in elements)):
        index.shows(shown)
        for path in ("/documents/d?view=text", "/api/documents/d"):
            opens(client, path)
        assert tools.fetch(Fetch(id="d"), Asker()).metadata["parts"] == 1
        assert tools.read("pincite://documents/d", Asker())


def test_every_view_of_elements_that_say_nothing_opens(views_of: Views) -> None:
    kinds = [*sorted(KINDS), "unheard-of"]
    shaped = [replace(PLAIN, kind=kind, **shape) for kind in kinds for shape in SHAPES.values()]
    client, _ = views_of([replace(each, index=at) for at, each in enumerate(shaped)])
    for path in VIEWS:
        opens(client, path)


def test_results_come_as_events_before_the_answer() -> None:
    """The parts of a page that waits for a language model, and the page that is sent whole all the same."""
    service = bare_service()
    client = TestClient(application(service, Anybody(), URL, answers_by_model=True), base_url=URL)
    reply = client.get("/results?q=%3Cb%3E&ask=1", headers={"Accept": "text/event-stream"})
    events = [each.partition("\ndata: ") for each in reply.text.split("\n\n") if each]
    assert [name for name, _, _ in events] == ["event: passages", "event: answer"]
    hits, answer = (json.loads(data)["html"] for _, _, data in events)
    assert 'class="hits"' in hits and 'class="cited"' in answer and "<b>" not in hits + answer
    waiting, whole = (client.get(f"/?q=a&ask=1{more}").text for more in ("", "&whole=1"))
    assert 'data-results="/results?q=a&amp;ask=1"' in waiting and 'class="hits"' not in waiting
    assert "data-results" not in whole and 'class="hits"' in whole and 'class="cited"' in whole


def test_every_reader_of_lines_finds_an_event_whole() -> None:
    """Scripts, and libraries of Python, also take other signs for the end of a line."""
    sent = event({"html": "a\n\u2028b\u2029c\x85d\x0be – є"}, "answer")
    assert [line for line in sent.splitlines() if line] == sent.split("\n")[:2]
    assert json.loads(sent.partition("data: ")[2]) == {"html": "a\n\u2028b\u2029c\x85d\x0be – є"} and "– є" in sent


def test_links_of_results_keep_the_question_and_its_filters(views_of: Views) -> None:
    """The reader steps through the same hits by them."""
    client, _ = views_of(())
    page = html.unescape(client.get("/?q=a&source=s&from=2020-01-01&to=&strategy=dense").text)
    links = re.findall(r'href="/passages/c\?([^"]*)"', page)
    assert [link.removeprefix("sentence=s&") for link in links] == ["q=a&source=s&from=2020-01-01&strategy=dense"] * 3


def test_links_of_the_reader_carry_no_more_of_a_question_than_those_of_results(views_of: Views) -> None:
    """There is one at each place of the words that are looked for, and at each heading."""
    text, index = "a " * 1_000, Bare(())
    index.says(text, (replace(PLAIN, text=text, end=len(text)),))
    client, _ = views_of((), index)
    for asked in ({"q": "x" * 10_000}, {"q": "x", **dict.fromkeys(("source", "from", "to", "strategy"), "y" * 10_000)}):
        page = client.get("/documents/d", params={"find": "a", **asked}).text
        links = re.findall(r'href="/documents/d\?find=a&amp;at=[^"]*q=x[^"]*"', page)
        assert len(links) >= 500 and max(map(len, links)) < 1_000


def test_the_reader_searches_as_the_question_was_asked(views_of: Views) -> None:
    """The strategy of the settings may ask a language model, which who asks another one does not wait for."""
    searched: list[tuple[Any, ...]] = []

    class Asked(Bare):
        def query(self, text: str, *given: Any) -> dict[str, Any]:
            searched.append((given[1], given[3]))
            return super().query(text, *given)

    client, _ = views_of((), Asked(()))
    assert client.get("/passages/c?q=a&source=s&strategy=lexical").status_code == 200
    assert searched == [("lexical", ("source=s",)), ("lexical", ["source=s", "uri=a.pdf"])]


def test_a_quotation_of_a_list_is_whole_and_keeps_its_lines(views_of: Views) -> None:
    quote = "The order is:\n" + "\n".join(f"{number}. the step of this number," for number in range(40))

    class Listed(Bare):
        def ask(self, text: str, *given: Any) -> dict[str, Any]:
            found = super().ask(text, *given)
            return {**found, "citations": [{**found["citations"][0], "quote": quote}]}

    client, _ = views_of((), Listed(()))
    assert f"<q>{quote}</q>" in client.get("/?q=a").text
    assert re.search(r"\.cited q \{[^}]*white-space: pre-line", client.get("/static/style.css").text)


def test_each_hit_takes_feedback_on_a_question_that_no_link_cuts(views_of: Views) -> None:
    client = TestClient(application(bare_service(feedback=True), Anybody(), URL), base_url=URL)
    for path in ("/", "/passages/c"):
        short, long = (client.get(path, params={"q": "a" * size}).text for size in (499, 500))
        (form,) = re.findall(r'<form class="feedback".*?</form>', short, re.DOTALL)
        assert 'name="passage" value="c"' in form and f'name="q" value="{"a" * 499}"' in form
        assert "feedback" not in long
    assert "feedback" not in views_of(())[0].get("/?q=a").text


@pytest.mark.parametrize("elements", [(), None], ids=["no element", "text moved"])
def test_every_view_of_a_document_without_elements_opens(views_of: Views, elements: Sequence[Element] | None) -> None:
    client, _ = views_of(elements)
    for path in VIEWS:
        opens(client, path)
