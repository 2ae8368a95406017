"""Pages for people: search, reader, answer, state. They are forms and links, and work without JavaScript."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from pincite.guard import COOKIE, Access, Asker, ByToken, asker_of, inside
from pincite.serve.answers import as_events, event, telling, told_of
from pincite.serve.api import MOST_HITS, Search, checked, number_in
from pincite.serve.marked_text import Marks, ReaderPage, best_sentences, marks_of, part, parts, shown_documents
from pincite.serve.service import PageImage, Service
from pincite.serve.turns import Busy, caller_of
from pincite.text.passages import pin
from pipelines.defused_text import seen
from pipelines.errors import DocumentError, IndexStateError, PinciteError
from pipelines.settings.query import HITS
from resources.child_process import ROOT

if TYPE_CHECKING:
    from resources.search.documents import FoundDocument

# ---------------------------------------------------------------- reader


MOST_PAGES = 6
"""Most pages of one passage that are shown below each other."""
OTHER_HITS = 9


@dataclass(frozen=True, slots=True)
class Rect:
    """A box in points from the top left of its page."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A page and what is marked on it; `width` and `height` in points."""

    number: int
    width: float
    height: float
    passage: tuple[Rect, ...] = ()
    sentence: tuple[Rect, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentView:
    """The view of a document: pages, else a part of its text. `notice` says what could not be shown as it should be.
    `before` and `after` are the pages beside those that are shown."""

    document: FoundDocument
    pages: tuple[ShownPage, ...] = ()
    text: ReaderPage | None = None
    notice: str = ""
    before: int | None = None
    after: int | None = None
    passage: Mapping[str, Any] | None = None
    sentence: str = ""
    """Text of the passage's sentence that is set off."""
    sentence_id: str = ""


class Reader:
    """Reader of documents for one answer. If `draw` is false it shows pages that are kept already, and raises NotDrawn
    for others."""

    def __init__(self, service: Service, draw: bool = True) -> None:
        self._service, self._draw = service, draw

    def passage(
        self, named: str, asker: Asker, question: str, sentence: str, as_text: bool, number: int | None
    ) -> DocumentView:
        """Return a passage with its place marked, and in it the sentence of this id, else the one that best matches the
        question.

        `number` is the part of the text to show. Raises PinciteError."""
        shown = self._service.passage(named, asker)
        document = self._service.found(shown["doc_id"], asker)
        said, boxes, name = self._sentence(shown, asker, question, sentence)
        reading = DocumentView(document, passage=shown, sentence=said, sentence_id=name)
        notice = ""
        if shown["boxes"] and not as_text:
            try:
                return self._on_pages(reading, shown["boxes"], boxes)
            except DocumentError as error:
                notice = _notice(error)
        return self._in_text(reading, number, notice)

    def document(self, doc_id: str, asker: Asker, page: int, as_text: bool, number: int | None) -> DocumentView:
        """Return a page of a document, or a part of its text, without marks. Raises PinciteError."""
        document = self._service.found(doc_id, asker)
        reading, notice = DocumentView(document), ""
        if document.pages and not as_text:
            try:
                return _around(reading, (self._shown(document, page),))
            except DocumentError as error:
                notice = _notice(error)
        return self._in_text(reading, number, notice)

    def others(self, reading: DocumentView, asker: Asker, question: str) -> list[dict[str, Any]]:
        """Return the document's other hits for the question, in the order of its pages."""
        if not question:
            return []
        document = reading.document
        filters = [f"source={document.source}", f"uri={document.uri}"]
        try:
            hits = self._service.search(question, asker, OTHER_HITS, filters=filters)["hits"]
        except PinciteError:
            return []
        own = reading.passage["chunk_id"] if reading.passage else None
        found = [hit for hit in hits if hit["chunk_id"] != own]
        return sorted(found, key=lambda hit: (hit["page_start"] or 0, hit["rank"]))

    # ------------------------------------------------------------ within

    def _sentence(
        self, shown: Mapping[str, Any], asker: Asker, question: str, named: str
    ) -> tuple[str, Sequence[Mapping[str, Any]], str]:
        """Return the sentence to set off, its boxes and its id: the one that was asked for, else the best match."""
        if shown["sentence"]:
            return shown["sentence"]["text"], shown["sentence"]["boxes"], ""
        if not question and not named:
            return "", (), ""
        own = self._service.sentences([shown["chunk_id"]], asker).get(shown["chunk_id"], [])
        found = next((item for item in own if item.sentence_id == named), None)
        best = found or best_sentences(question, {"": own}).get("")
        return (best.text, best.boxes, best.sentence_id) if best else ("", (), "")

    def _on_pages(
        self, reading: DocumentView, passage: Sequence[Mapping[str, Any]], sentence: Sequence[Mapping[str, Any]]
    ) -> DocumentView:
        numbers = sorted({box["page"] for box in passage})[:MOST_PAGES]
        pages = tuple(self._shown(reading.document, number, passage, sentence) for number in numbers)
        return _around(reading, pages)

    def _shown(
        self,
        document: FoundDocument,
        number: int,
        passage: Sequence[Mapping[str, Any]] = (),
        sentence: Sequence[Mapping[str, Any]] = (),
    ) -> ShownPage:
        image: PageImage = self._service.page(document, number, self._draw)
        return ShownPage(number, image.width, image.height, _rects(passage, number), _rects(sentence, number))

    def _in_text(self, reading: DocumentView, number: int | None, notice: str) -> DocumentView:
        document, shown = reading.document, reading.passage
        told = "The document's text is being indexed anew, so that only the passage is shown."
        try:
            text = self._service.text(document)
        except IndexStateError as error:  # a file of Parquet that is damaged or gone
            text, told = None, f"The document's text cannot be read ({error.code}), so that only the passage is shown."
        if text is None:
            return _with(reading, None, notice or told)
        marks: Marks | None = Marks()
        if shown:
            spans = [(start, end) for start, end in shown["spans"]]
            marks = marks_of(text.body, spans, f"{shown['overlap']}\n{shown['text']}", reading.sentence)
            if marks is None:
                notice = notice or "Where the passage stands in the text is not known word by word; it is shown beside."
        return _with(reading, part(parts(text.elements, text.body, marks or Marks()), number), notice)


def _with(reading: DocumentView, text: ReaderPage | None, notice: str) -> DocumentView:
    return replace(reading, text=text, notice=notice)


def _around(reading: DocumentView, pages: tuple[ShownPage, ...]) -> DocumentView:
    first, last = pages[0].number, pages[-1].number
    count = reading.document.pages or last
    before, after = first - 1 if first > 1 else None, last + 1 if last < count else None
    return replace(reading, pages=pages, before=before, after=after)


def _rects(boxes: Sequence[Mapping[str, Any]], number: int) -> tuple[Rect, ...]:
    places = [[box[side] for side in ("x0", "y0", "x1", "y1")] for box in boxes if box["page"] == number]
    return tuple(Rect(min(x0, x1), min(y0, y1), abs(x1 - x0), abs(y1 - y0)) for x0, y0, x1, y1 in places)


def _notice(error: DocumentError) -> str:
    """Return why no pages are shown; nothing for a format that has no pages, which is shown as text."""
    told = told_of(error)
    if error.code == "no_pages":
        return ""
    return f"{told[:1].upper()}{told[1:].rstrip('.')}. Below is the text as it was indexed."


# ---------------------------------------------------------------- words
#
# Templates are written in English. They say `t("Search")`, or `tn("{n} document", "{n} documents", count)` where they
# count. The English text is the key of the Ukrainian one in ukrainian.toml. A text that Python hands to a template is
# `marked("...")` here, and `t(notice)` there. A test compares the file with all these calls.


HERE = Path(ROOT, "pincite", "serve")
ENGLISH, UKRAINIAN = "en", "uk"
LONGEST_HEADER = 1_000
"""Characters of an Accept-Language header that are read; browsers send fewer than 100."""
_SPACE = "\u00a0"
_MONTHS = {
    ENGLISH: (
        *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
        *("November", "December"),
    ),
    UKRAINIAN: (
        *("січня", "лютого", "березня", "квітня", "травня", "червня", "липня", "серпня", "вересня", "жовтня"),
        *("листопада", "грудня"),
    ),
}


def marked(text: str) -> str:
    """Return a text unchanged; it is found by this name, and translated where it is shown."""
    return text


@dataclass(frozen=True, slots=True)
class Words:
    """The texts, numbers and dates of one language, en or uk."""

    language: str = ENGLISH

    def t(self, text: str, /, **values: Any) -> str:
        """Return a text in this language, with `{name}` replaced by values. It is markup if a value is markup, and then
        all else in it is escaped."""
        found = ukrainian().get(text, text) if self.language == UKRAINIAN else text
        return _filled(found if isinstance(found, str) else text, values)

    def tn(self, one: str, many: str, n: int, /, **values: Any) -> str:
        """Return the text for this count, which `{n}` in it stands for."""
        found = ukrainian().get(one) if self.language == UKRAINIAN else None
        chosen = found[_form(n)] if isinstance(found, list) else one if n == 1 else many
        return _filled(chosen, {**values, "n": self.number(n)})

    def number(self, value: int) -> str:
        """Return a whole number with its thousands set apart."""
        return f"{value:,}" if self.language == ENGLISH else f"{value:,}".replace(",", _SPACE)

    def day(self, value: str | None) -> str:
        """Return a date in ISO form as people write it, and anything else unchanged."""
        try:
            found = date.fromisoformat((value or "")[:10])
        except ValueError:
            return value or ""
        return f"{found.day}{_SPACE}{_MONTHS[self.language][found.month - 1]} {found.year}"

    def moment(self, value: str | None) -> str:
        """Return a time in ISO form as a date and time of UTC, and anything else unchanged."""
        try:
            found = datetime.fromisoformat(value or "")
        except ValueError:
            return value or ""
        found = found.astimezone(UTC) if found.tzinfo else found
        return f"{self.day(found.date().isoformat())}, {found:%H:%M}{_SPACE}UTC"


def words_of(accepted: str) -> Words:
    """Return the words for an Accept-Language header: of the language that it prefers, English if it names neither."""
    best, weight = ENGLISH, 0.0
    for entry in accepted[:LONGEST_HEADER].split(","):
        name, _, quality = entry.partition(";")
        language = name.strip().partition("-")[0].lower()
        given = _weight(quality)
        if given > weight and language in _MONTHS:
            best, weight = language, given
    return Words(best)


def _weight(quality: str) -> float:
    name, _, value = quality.partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return min(float(value), 1.0)
    except ValueError:
        return 0.0


def _form(n: int) -> int:
    """Return which of the three Ukrainian forms goes with a count: 0 as with 1, 1 as with 2, 2 as with 5."""
    if n % 10 == 1 and n % 100 != 11:
        return 0
    return 1 if n % 10 in (2, 3, 4) and n % 100 not in (12, 13, 14) else 2


def _filled(text: str, values: Mapping[str, Any]) -> str:
    if any(isinstance(value, Markup) for value in values.values()):
        shown = {
            name: seen(value) if isinstance(value, str) and not isinstance(value, Markup) else value
            for name, value in values.items()
        }
        return Markup(escape(text)).format(**shown)
    return text.format(**values) if values else text


@cache
def ukrainian() -> dict[str, str | list[str]]:
    """Return the Ukrainian texts by the English ones, those that are counted as lists."""
    return tomllib.loads((HERE / "ukrainian.toml").read_text(encoding="utf-8"))


# ---------------------------------------------------------------- pages


PRIVATE = {"Cache-Control": "private, no-store", "Vary": "Accept-Language"}
LONGEST_LINKED = 500
"""Characters of a question that the links of its results carry on to the reader: a page has dozens of them."""
MORE_HITS = 10


def environment() -> Environment:
    """Return the templates. They escape every value, and drop characters of texts that reorder what a reader sees."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_seen,
    )  # fmt: skip
    made.filters.update(seen=seen, pin=pin)
    made.globals.update(query=_query)
    return made


def _seen(value: Any) -> Any:
    """Return a value as every page shows it; markup that a template made of other values stays as it is."""
    return seen(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _query(**values: Any) -> str:
    """Return a query string of the values that are not empty."""
    return urlencode([(name, value) for name, value in values.items() if value not in (None, "", False)])


class Pages:
    def __init__(self, service: Service, access: Access, answers_by_model: bool) -> None:
        self._service, self._access, self._by_model = service, access, answers_by_model
        self._turns, self._templates = service.turns, environment()
        self._readers = {draw: Reader(service, draw) for draw in (False, True)}

    def routes(self) -> list[Route | Mount]:
        return [
            Route("/", self.search),
            Route("/results", self.results),
            Route("/passages/{chunk_id}", self.passage),
            Route("/documents/{doc_id}", self.document),
            Route("/status", self.status),
            Route("/login", self.login, methods=["GET", "POST"]),
            Route("/logout", self.logout, methods=["POST"]),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ]

    def html(self, request: Request, name: str, status: int = 200, /, **values: Any) -> Response:
        return HTMLResponse(self._rendered(request, name, **values), status, PRIVATE)

    def _rendered(self, request: Request, name: str, /, **values: Any) -> str:
        asker = request.scope["state"].get("asker") or Asker()
        words = words_of(request.headers.get("accept-language", ""))
        given = {
            "asker": asker, "signs_in": self._access.signs_in, "q": "", "title": "", "language": words.language,
            "t": words.t, "tn": words.tn, "number": words.number, "day": words.day, "moment": words.moment, **values,
        }  # fmt: skip
        return self._templates.get_template(name).render(given)

    # ------------------------------------------------------------ search and answer

    async def search(self, request: Request) -> Response:
        """Answer with the front page; with a question, its answer and hits too. A language model answers only on
        request.

        The page that waits for a language model comes empty, and its script asks for the rest by `results`; without a
        script it is loaded again, whole."""
        asker, caller = asker_of(request), caller_of(request)
        asked = _Asked.of(request, self._by_model)
        status = await self._turns.reading.run(caller, lambda: self._service.status(asker))
        if status["live"] is None:
            return self.html(request, "first.html", 503)
        values = {"status": status, "asked": asked, "by_model": self._by_model}
        if not asked.question.strip():
            listed = await self._turns.reading.run(caller, lambda: self._service.documents(asker, "", 12))
            return self.html(request, "front.html", documents=listed, **values)
        told = asked.told()
        if asked.by_model and not asked.whole:
            return self.html(request, "search.html", q=told.q, found=None, **values)
        turns = self._service.turns_of(told.strategy, told.rerank, answering=asked.answering)
        ask = self._service.ask if asked.answering else self._service.search

        def work() -> dict[str, Any]:
            found = ask(told.q, asker, told.k, told.strategy, told.rerank, told.filter)
            return self._shown(found, asker)

        found = await turns.run(caller, work)
        return self.html(request, "search.html", q=told.q, found=found, **values)

    async def results(self, request: Request) -> Response:
        """Send the parts of a page of results as events: `passages` as soon as they are found, then `answer`, or
        `error`."""
        asker, asked = asker_of(request), _Asked.of(request, self._by_model)
        told = asked.told()
        turns = self._service.turns_of(told.strategy, told.rerank, answering=True)

        def work(tell: Callable[[tuple[str, str]], None]) -> tuple[str, str]:
            def passages(found: dict[str, Any]) -> None:
                tell(("passages", self._rendered(request, "hits.html", asked=asked, q=told.q,
                                                 found=self._shown(found, asker))))  # fmt: skip

            found = self._service.ask(told.q, asker, told.k, told.strategy, told.rerank, told.filter, found=passages)
            return "answer", self._rendered(request, "answer.html", asked=asked, q=told.q, found=found, later=True)

        return as_events(
            await telling(turns, caller_of(request), work), lambda item: event({"html": item[1]}, item[0]),
            lambda problem: event(problem, "error"),
        )  # fmt: skip

    def _shown(self, found: dict[str, Any], asker: Asker) -> dict[str, Any]:
        """Return results with their documents as the page shows them."""
        sentences = self._service.sentences([hit["chunk_id"] for hit in found["hits"]], asker)
        return {**found, "shown": shown_documents(found, sentences)}

    # ------------------------------------------------------------ reader

    async def passage(self, request: Request) -> Response:
        asker, question, as_text, number = _asked_of_reader(request)
        named, sentence = request.path_params["chunk_id"], request.query_params.get("sentence", "")
        reading = await self._turns.drawn(
            caller_of(request),
            lambda draw: self._readers[draw].passage(named, asker, question, sentence, as_text, number),
        )
        return await self._read(request, reading, asker, question, as_text)

    async def document(self, request: Request) -> Response:
        asker, question, as_text, number = _asked_of_reader(request)
        page = number_in(request.query_params.get("page")) or 1
        doc_id = request.path_params["doc_id"]
        reading = await self._turns.drawn(
            caller_of(request), lambda draw: self._readers[draw].document(doc_id, asker, page, as_text, number)
        )
        return await self._read(request, reading, asker, question, as_text)

    async def _read(
        self, request: Request, reading: DocumentView, asker: Asker, question: str, as_text: bool
    ) -> Response:
        others: list[dict[str, Any]] = []
        if question:
            with suppress(Busy):  # the passage is shown without them
                others = await self._service.turns_of().run(
                    caller_of(request), lambda: self._readers[False].others(reading, asker, question)
                )
        return self.html(request, "reader.html", reading=reading, others=others, q=question, as_text=as_text,
                         sentence=reading.sentence_id)  # fmt: skip

    # ------------------------------------------------------------ state and signing in

    async def status(self, request: Request) -> Response:
        asker = asker_of(request)
        status = await self._turns.reading.run(caller_of(request), lambda: self._service.status(asker))
        return self.html(request, "status.html", status=status, dagster=self._service.settings.dagster)

    async def login(self, request: Request) -> Response:
        """Exchange a token for a cookie."""
        if not isinstance(self._access, ByToken):
            return RedirectResponse("/", 303)
        there = inside(request.query_params.get("next", ""))
        if request.method == "GET":
            return self.html(request, "login.html", there=there, wrong=False)
        body = (await request.body()).decode("utf-8", "replace")
        token = dict(parse_qsl(body)).get("token", "").strip()
        if self._access.of(token) is None:
            return self.html(request, "login.html", 403, there=there, wrong=True)
        answer = RedirectResponse(there, 303)
        secure = request.url.scheme == "https" or (self._service.settings.url or "").startswith("https:")
        self._access.remember(answer, token, secure)
        return answer

    async def logout(self, request: Request) -> Response:
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE, path="/")
        return answer

    def failed(self, request: Request, status: int, code: str, message: str) -> Response:
        """Return an error as a page."""
        return self.html(request, "message.html", status, code=code, message=message, status=status)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The question of a page of results, from its address. `by_model` says that a language model answers; `whole` that
    the page is sent in one piece all the same. `narrowed` are the fields of the form, by name."""

    question: str
    narrowed: Mapping[str, str]
    answering: bool
    by_model: bool
    whole: bool
    given: Mapping[str, str]

    @classmethod
    def of(cls, request: Request, answers_by_model: bool) -> _Asked:
        given = {key: value for key, value in request.query_params.items() if value}
        on_request, whole = given.pop("ask", "") == "1", given.pop("whole", "") == "1"
        narrowed = {name: given.pop(name, "") for name in ("source", "from", "to")}
        return cls(
            given.get("q", ""), narrowed, on_request or not answers_by_model, on_request and answers_by_model, whole,
            given,
        )  # fmt: skip

    def told(self) -> Search:
        """Return the search. Raise UsageError if it cannot be asked."""
        filters = tuple(f"{name}={value}" for name, value in self.narrowed.items() if value)
        return checked(Search, {"k": HITS, **self.given, "filter": filters})

    @property
    def linked(self) -> str:
        """Return the question as links carry it on."""
        return self.question[:LONGEST_LINKED]

    def address(self, **more: Any) -> str:
        """Return the query string that asks this again, with other values."""
        return _query(**{**self.given, **self.narrowed, "ask": "1" if self.by_model else "", **more})

    def more(self, found: Mapping[str, Any]) -> str:
        """Return the query string that asks for more hits than were found; "" if there are none, or too many."""
        most = int(self.given.get("k", HITS))
        wanted = min(most + MORE_HITS, MOST_HITS)
        return self.address(k=wanted, ask="") if len(found["hits"]) >= most and wanted > most else ""


def _asked_of_reader(request: Request) -> tuple[Asker, str, bool, int | None]:
    given = request.query_params
    return asker_of(request), given.get("q", "")[:10_000], given.get("view") == "text", number_in(given.get("part"))
