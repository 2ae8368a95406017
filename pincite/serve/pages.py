"""The web pages for people: search, reader, answer and state. They consist of forms and links, and work without
JavaScript."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from pydantic import BaseModel, ConfigDict, Field, field_validator
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from pincite.guard import COOKIE, Access, Anybody, Asker, ByToken, asker_of, inside_site
from pincite.serve.answers import as_events, event, telling
from pincite.serve.api import MOST_HITS, Search, check_values, number_in, require_text
from pincite.serve.marked_text import LONGEST_SOUGHT, shown_documents
from pincite.serve.reader import DocumentView, HitsOfQuestion, Reader, Wanted
from pincite.serve.service import Service
from pincite.serve.turns import Busy, caller_of
from pincite.text.passages import pin
from pipelines.defused_text import visible_text
from pipelines.errors import IndexStateError, UsageError
from pipelines.records import UNKNOWN_LANGUAGE
from pipelines.settings.query import HITS
from resources.child_process import ROOT
from resources.search.documents import FACETS, Choice
from resources.search.passages import document_format

# ---------------------------------------------------------------- words
#
# Templates are written in English. They say `t("Search")`, or `tn("{n} document", "{n} documents", count)` where they
# count. The English text is the key of the Ukrainian one in ukrainian.toml. A text that Python hands to a template is
# `marked("...")` here, and `t(notice)` there. A test compares the file with all these calls.


HERE = Path(ROOT, "pincite", "serve")
ENGLISH, UKRAINIAN = "en", "uk"
LONGEST_HEADER = 1_000
"""Most characters of an Accept-Language header that are read; browsers send fewer than 100."""
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


def translatable(text: str) -> str:
    """Return a text unchanged. The name of this function marks texts for translation, which happens where they are
    shown."""
    return text


@dataclass(frozen=True, slots=True)
class Words:
    """The texts, numbers and dates of one language, en or uk."""

    language: str = ENGLISH

    def t(self, text: str, /, **values: Any) -> str:
        """Return a text in this language, with `{name}` replaced by values. If a value is markup, the result is markup,
        and everything else in it is escaped."""
        found = ukrainian().get(text, text) if self.language == UKRAINIAN else text
        return _fill(found if isinstance(found, str) else text, values)

    def tn(self, one: str, many: str, n: int, /, **values: Any) -> str:
        """Return the text for this count; `{n}` in it is replaced by the count."""
        found = ukrainian().get(one) if self.language == UKRAINIAN else None
        chosen = found[_form(n)] if isinstance(found, list) else one if n == 1 else many
        return _fill(chosen, {**values, "n": self.number(n)})

    def number(self, value: int) -> str:
        """Return a whole number with separated thousands."""
        return f"{value:,}" if self.language == ENGLISH else f"{value:,}".replace(",", _SPACE)

    def day(self, value: str | None) -> str:
        """Return a date from ISO form in the form of the language; return anything else unchanged."""
        try:
            found = date.fromisoformat((value or "")[:10])
        except ValueError:
            return value or ""
        return f"{found.day}{_SPACE}{_MONTHS[self.language][found.month - 1]} {found.year}"

    def moment(self, value: str | None) -> str:
        """Return a time from ISO form as a date and time in UTC; return anything else unchanged."""
        try:
            found = datetime.fromisoformat(value or "")
        except ValueError:
            return value or ""
        found = found.astimezone(UTC) if found.tzinfo else found
        return f"{self.day(found.date().isoformat())}, {found:%H:%M}{_SPACE}UTC"


def words_of(accepted: str) -> Words:
    """Return the words of the preferred language of an Accept-Language header, or English."""
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
    """Return the index of the Ukrainian plural form for a count: 0 for 1, 1 for 2, 2 for 5."""
    if n % 10 == 1 and n % 100 != 11:
        return 0
    return 1 if n % 10 in (2, 3, 4) and n % 100 not in (12, 13, 14) else 2


def _fill(text: str, values: Mapping[str, Any]) -> str:
    if any(isinstance(value, Markup) for value in values.values()):
        shown = {
            name: visible_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value
            for name, value in values.items()
        }
        return Markup(escape(text)).format(**shown)
    return text.format(**values) if values else text


@cache
def ukrainian() -> dict[str, str | list[str]]:
    """Return the Ukrainian texts by the English ones; counted texts have a list of forms."""
    return tomllib.loads((HERE / "ukrainian.toml").read_text(encoding="utf-8"))


# ---------------------------------------------------------------- pages


PRIVATE = {"Cache-Control": "private, no-store", "Vary": "Accept-Language"}
LONGEST_LINKED = 500
"""Most characters of a question that is carried in the links of results and of the reader, since a page has many
links."""
MORE_HITS = 10
NARROWED = ("source", "from", "to")
"""Filters that a question can have on the page."""
MOST_FIELDS, LONGEST_QUESTION = 20, 1_000
"""Most fields of a form, and most characters of a question on which feedback is accepted."""
LONGEST_NAME, MOST_WORDS = 200, 10
"""Most characters of a document name that is searched for, and most words of it that are used."""


KIND_NAMES = {
    "pdf": translatable("PDF"),
    "text": translatable("Word documents"),
    "sheet": translatable("Spreadsheets"),
    "slides": translatable("Presentations"),
    "web": translatable("Web pages"),
    "plain": translatable("Plain text"),
    "mail": translatable("E-mails"),
    "book": translatable("Books"),
    "picture": translatable("Pictures"),
    "other": translatable("Other"),
}
LANGUAGE_NAMES = {
    "en": translatable("English"),
    "uk": translatable("Ukrainian"),
    "de": translatable("German"),
    "fr": translatable("French"),
    "es": translatable("Spanish"),
    "it": translatable("Italian"),
    "pl": translatable("Polish"),
    UNKNOWN_LANGUAGE: translatable("Not known"),
}
"""Names of frequent languages of documents. Other languages are shown by their codes."""


def environment() -> Environment:
    """Return the templates. They escape every value, and remove characters that would reorder the text for a reader."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_visible,
    )  # fmt: skip
    made.filters.update(seen=visible_text, pin=pin)
    made.globals.update(query=_query, format_of=document_format, kinds=KIND_NAMES, languages=LANGUAGE_NAMES)
    return made


def _visible(value: Any) -> Any:
    """Return a value in its visible form; markup that a template made of other values is unchanged."""
    return visible_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _query(**values: Any) -> str:
    """Return a query string of the non-empty values."""
    return urlencode([(name, value) for name, value in values.items() if value not in (None, "", False)])


class Pages:
    def __init__(self, service: Service, access: Access, answers_by_model: bool) -> None:
        self._service, self._access, self._by_model = service, access, answers_by_model
        self._turns, self._templates = service.turns, environment()
        reader = Reader(service, draw=False)
        self._readers = {False: reader, True: reader.drawing()}

    def routes(self) -> list[Route | Mount]:
        return [
            Route("/", self.search),
            Route("/results", self.results),
            Route("/documents", self.browse),
            Route("/passages/{chunk_id}", self.passage),
            Route("/documents/{doc_id}", self.document),
            Route("/feedback", self.feedback, methods=["POST"]),
            Route("/status", self.status),
            Route("/login", self.login, methods=["GET", "POST"]),
            Route("/logout", self.logout, methods=["POST"]),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ]

    def html(self, request: Request, name: str, status: int = 200, /, **values: Any) -> Response:
        return HTMLResponse(self._render(request, name, **values), status, PRIVATE)

    def _render(self, request: Request, name: str, /, **values: Any) -> str:
        asker = request.scope["state"].get("asker") or Asker()
        words = words_of(request.headers.get("accept-language", ""))
        given = {
            "asker": asker, "signs_in": self._access.signs_in, "feedback": self._takes_feedback(values.get("q", "")),
            "q": "", "title": "", "language": words.language, "t": words.t, "tn": words.tn, "number": words.number,
            "day": words.day, "moment": words.moment, **values,
        }  # fmt: skip
        return self._templates.get_template(name).render(given)

    def _takes_feedback(self, question: str) -> bool:
        """Say whether an asker may give feedback on a question's hits. A longer question may have been cut in a
        link."""
        return self._service.settings.feedback and len(question) < LONGEST_LINKED

    # ------------------------------------------------------------ front page and browsing

    async def front(self, request: Request) -> Response:
        asker = asker_of(request)
        try:
            told = await self._turns.reading.run(caller_of(request), lambda: self._service.overview(asker))
        except IndexStateError as error:
            if error.code != "no_index":
                raise
            return self.html(request, "first.html", 503)
        return self.html(request, "front.html", overview=told, by_model=self._by_model)

    async def browse(self, request: Request) -> Response:
        """Answer with a page of documents, filtered by name and facets. Operators see how many documents could not be
        read; without user accounts everybody is an operator."""
        asker, caller = asker_of(request), caller_of(request)
        given = {name: request.query_params.get(name, "")[:LONGEST_NAME] for name in ("name", *FACETS)}
        require_text(given)
        words = tuple(given.pop("name").split()[:MOST_WORDS])
        choice = Choice(words, **given)
        page = number_in(request.query_params.get("page")) or 1
        found = await self._turns.reading.run(caller, lambda: self._service.browse(asker, choice, page))
        unread = 0
        if asker.operator or isinstance(self._access, Anybody):
            unread = _unread(await self._turns.reading.run(caller, lambda: self._service.status(asker)))
        return self.html(request, "documents.html", found=found, choice=choice, chosen=given, name=" ".join(words),
                         unread=unread)  # fmt: skip

    # ------------------------------------------------------------ search and answer

    async def search(self, request: Request) -> Response:
        """Show the answer and hits of a question, or the front page if there is no question.

        A language model answers only on request. A page that waits for a language model is first sent empty, and its
        script loads the rest from `results`; without a script the complete page is loaded instead.
        """
        if not request.query_params.get("q", "").strip():
            return await self.front(request)
        asker, caller = asker_of(request), caller_of(request)
        asked = _Asked.from_request(request, self._by_model)
        status = await self._turns.reading.run(caller, lambda: self._service.status(asker))
        if status["live"] is None:
            return self.html(request, "first.html", 503)
        values = {"status": status, "asked": asked, "by_model": self._by_model}
        told = asked.search()
        if asked.by_model and not asked.whole:
            return self.html(request, "search.html", q=told.q, found=None, **values)
        turns = self._service.turns_of(told.strategy, told.rerank, answering=asked.answering)
        ask = self._service.ask if asked.answering else self._service.search

        def work() -> dict[str, Any]:
            found = ask(told.q, asker, told.k, told.strategy, told.rerank, told.filter)
            return self._results_with_documents(found, asker)

        found = await turns.run(caller, work)
        return self.html(request, "search.html", q=told.q, found=found, **values)

    async def results(self, request: Request) -> Response:
        """Send the parts of a page of results as events: `passages` as soon as they are found, then `answer`, or
        `error`."""
        asker, asked = asker_of(request), _Asked.from_request(request, self._by_model)
        told = asked.search()
        turns = self._service.turns_of(told.strategy, told.rerank, answering=True)

        def work(tell: Callable[[tuple[str, str]], None]) -> tuple[str, str]:
            def passages(found: dict[str, Any]) -> None:
                tell(("passages", self._render(request, "hits.html", asked=asked, q=told.q,
                                                 found=self._results_with_documents(found, asker))))  # fmt: skip

            found = self._service.ask(told.q, asker, told.k, told.strategy, told.rerank, told.filter, found=passages)
            return "answer", self._render(request, "answer.html", asked=asked, q=told.q, found=found, later=True)

        return as_events(
            await telling(turns, caller_of(request), work), lambda item: event({"html": item[1]}, item[0]),
            lambda problem: event(problem, "error"),
        )  # fmt: skip

    def _results_with_documents(self, found: dict[str, Any], asker: Asker) -> dict[str, Any]:
        """Return results with their documents in the form of the page."""
        sentences = self._service.sentences([hit["chunk_id"] for hit in found["hits"]], asker)
        return {**found, "shown": shown_documents(found, sentences)}

    # ------------------------------------------------------------ reader

    async def passage(self, request: Request) -> Response:
        asker, question, wanted = asker_of(request), _question_of(request), _wanted_place(request)
        named, sentence = request.path_params["chunk_id"], request.query_params.get("sentence", "")
        reading = await self._turns.draw(
            caller_of(request),
            lambda draw: self._readers[draw].passage(named, asker, question.get("q", ""), sentence, wanted),
        )
        return await self._read(request, reading, asker, question, wanted)

    async def document(self, request: Request) -> Response:
        asker, question, wanted = asker_of(request), _question_of(request), _wanted_place(request)
        doc_id = request.path_params["doc_id"]
        reading = await self._turns.draw(
            caller_of(request), lambda draw: self._readers[draw].document(doc_id, asker, wanted)
        )
        return await self._read(request, reading, asker, question, wanted)

    async def _read(
        self, request: Request, reading: DocumentView, asker: Asker, question: dict[str, str], wanted: Wanted
    ) -> Response:
        """Show a document, beside the hits of the question that led to it."""
        hits = HitsOfQuestion()
        with suppress(UsageError, Busy):  # the document is shown without them
            if question:
                filters = tuple(f"{name}={question[name]}" for name in NARROWED if name in question)
                told = check_values(
                    Search, {"q": question["q"], "strategy": question.get("strategy"), "filter": filters}
                )
                hits = await self._service.turns_of(told.strategy).run(
                    caller_of(request),
                    lambda: self._readers[False].hits(reading, asker, told.q, told.strategy, told.filter),
                )
        return self.html(request, "reader.html", reading=reading, hits=hits, q=question.get("q", ""),
                         question=question, wanted=wanted)  # fmt: skip

    # ------------------------------------------------------------ feedback

    async def feedback(self, request: Request) -> Response:
        """Store the verdict whether a passage answers a question, for an operator to review."""
        if not self._service.settings.feedback:
            raise HTTPException(404)
        given, asker = await _fields_of(request), asker_of(request)
        told = check_values(FeedbackRequest, given)
        new = await self._turns.reading.run(
            caller_of(request),
            lambda: self._service.note(told.q, told.passage, told.sentence, told.answers == "yes", asker),
        )
        if "application/json" in request.headers.get("accept", ""):
            return JSONResponse({"ok": True, "new": new}, headers=PRIVATE)
        return self.html(request, "noted.html", passage=told.passage, q=told.q)

    # ------------------------------------------------------------ state and signing in

    async def status(self, request: Request) -> Response:
        asker = asker_of(request)
        status = await self._turns.reading.run(caller_of(request), lambda: self._service.status(asker))
        documents = sum(source["documents"] for source in status["sources"])
        return self.html(request, "status.html", status=status, dagster=self._service.settings.dagster,
                         documents=documents, unread=_unread(status))  # fmt: skip

    async def login(self, request: Request) -> Response:
        """Exchange a token for a cookie."""
        if not isinstance(self._access, ByToken):
            return RedirectResponse("/", 303)
        there = inside_site(request.query_params.get("next", ""))
        if request.method == "GET":
            return self.html(request, "login.html", there=there, wrong=False)
        token = (await _fields_of(request)).get("token", "").strip()
        if self._access.asker_of(token) is None:
            return self.html(request, "login.html", 403, there=there, wrong=True)
        answer = RedirectResponse(there, 303)
        secure = request.url.scheme == "https" or (self._service.settings.url or "").startswith("https:")
        self._access.remember(answer, token, secure)
        return answer

    async def logout(self, request: Request) -> Response:
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE, path="/")
        return answer

    def error_page(self, request: Request, status: int, code: str, message: str) -> Response:
        """Return an error as a page."""
        return self.html(request, "message.html", status, code=code, message=message, status=status)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The question of a results page, from its address. `by_model` says that a language model answers; `whole` says
    that the page is still sent in one piece. `narrowed` has the filters of the form, by name."""

    question: str
    narrowed: Mapping[str, str]
    answering: bool
    by_model: bool
    whole: bool
    given: Mapping[str, str]

    @classmethod
    def from_request(cls, request: Request, answers_by_model: bool) -> _Asked:
        given = {key: value for key, value in request.query_params.items() if value}
        on_request, whole = given.pop("ask", "") == "1", given.pop("whole", "") == "1"
        narrowed = {name: given.pop(name, "") for name in NARROWED}
        return cls(
            given.get("q", ""), narrowed, on_request or not answers_by_model, on_request and answers_by_model, whole,
            given,
        )  # fmt: skip

    def search(self) -> Search:
        """Return the search. Raise UsageError if the question is invalid."""
        filters = tuple(f"{name}={value}" for name, value in self.narrowed.items() if value)
        return check_values(Search, {"k": HITS, **self.given, "filter": filters})

    @property
    def link_fields(self) -> dict[str, str]:
        """Return the question and its filters in the form for links to the reader."""
        return {"q": self.question[:LONGEST_LINKED], **self.narrowed, "strategy": self.given.get("strategy", "")}

    def address(self, **more: Any) -> str:
        """Return the query string of this question, with some values replaced."""
        return _query(**{**self.given, **self.narrowed, "ask": "1" if self.by_model else "", **more})

    def more(self, found: Mapping[str, Any]) -> str:
        """Return the query string for more hits than were found, or "" if there are no more or the limit is reached."""
        most = self.search().k
        wanted = min(most + MORE_HITS, MOST_HITS)
        return self.address(k=wanted, ask="") if len(found["hits"]) >= most and wanted > most else ""


def _unread(status: Mapping[str, Any]) -> int:
    """Return how many documents could not be read, whether or not the asker may see their names."""
    named = {(item["source"], item["uri"]) for item in status["failures"]}
    untold: int = sum(item["documents"] for item in status["failures_untold"])
    return len(named) + untold


class FeedbackRequest(BaseModel):
    """The verdict of an asker: whether a passage answers the question `q`. It does not include the passage's text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    q: str = Field(min_length=1, max_length=LONGEST_QUESTION)
    passage: str = Field(min_length=1, max_length=200)
    sentence: str = Field("", max_length=200)
    answers: Literal["yes", "no"]

    @field_validator("q")
    @classmethod
    def _question(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("it is blank")
        return text


async def _fields_of(request: Request) -> dict[str, str]:
    """Return the fields of a form that a page of this site sent. Raises UsageError."""
    try:
        body = (await request.body()).decode("utf-8")
        pairs = parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise UsageError("the form was not sent by a page of this site; load the page again") from None
    return dict(pairs)


_CARRIED = {"q": LONGEST_LINKED, **dict.fromkeys((*NARROWED, "strategy"), LONGEST_NAME)}


def _question_of(request: Request) -> dict[str, str]:
    """Return the question that led to a document, with its search options; return an empty question if there was no
    question. All links of the reader, up to a thousand, contain it."""
    given = request.query_params
    found = {name: given[name][:most] for name, most in _CARRIED.items() if given.get(name, "").strip()}
    return found if "q" in found else {}


def _wanted_place(request: Request) -> Wanted:
    given = request.query_params
    page, part, at = (number_in(given.get(name)) for name in ("page", "part", "at"))
    return Wanted(given.get("view") == "text", page, part, given.get("find", "").strip()[:LONGEST_SOUGHT], at)
