"""Answers in the form of OpenAI's chat completions, so that a chat program can ask: POST /v1/chat/completions.

The last message of the user is the question; what was said before it is not. The answer is Markdown whose only links
lead into the reader.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pincite.guard import Asker, asker_of
from pincite.serve.answers import PRIVATE, as_events, event, place_of, telling
from pincite.serve.api import Ask, body_of, checked
from pincite.serve.service import Service
from pincite.serve.turns import caller_of
from pipelines.defused_text import clear, defused
from pipelines.errors import UsageError
from pipelines.parsing.markdown_view import escaped

MODEL = "pincite"
NEAREST = 3
"""Number of passages that are named if the documents do not answer."""
_ACTS = re.compile(r":(?=//)|(?<=www)\.|[@$]", re.IGNORECASE)
"""Pattern of signs that viewers of Markdown turn into links and formulas unless they are escaped."""
_SCHEMES = (
    "mailto|tel|sms|callto|skype|xmpp|sips?|facetime|magnet|geo|news|nntp|irc|bitcoin|ethereum|whatsapp|tg|slack|msteams"
    "|zoommtg|vscode|obsidian|steam"
)
"""Names before a colon that viewers turn into links although no slashes follow."""
_LINKED = re.compile(
    rf"//|www\.|@|[^\s.]\.(?=[^\W\d_](?:[a-z]|[^\x00-\x7f\s]))|[a-z0-9][。．｡](?=[a-z]{{2}})|\d{{1,3}}(?:\.\d{{1,3}}){{3}}"
    rf"|localhost(?=[:/])|\b(?:{_SCHEMES}):(?=\S)",
    re.IGNORECASE,
)
"""Pattern of words that some viewer turns into a link or a mention: addresses, and names of hosts by their dots."""
_OPENERS, _CLOSERS = "([{<\"'«‹“„‘", ")]}>\"'»›”’.,;:!?…"
"""Signs around a word that do not belong to an address."""


class _MessagePart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    type: str = "text"
    text: str = ""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    role: str
    content: str | tuple[_MessagePart, ...] | None = None


class ChatRequest(BaseModel):
    """The fields of a request that are read; settings of a sampler have no effect here."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: str = MODEL
    messages: tuple[_Message, ...] = Field(min_length=1)
    stream: bool = False
    n: Literal[1] = 1

    def question(self) -> Ask:
        """Return the user's last message as a question. Raises UsageError if the user asks nothing."""
        for message in reversed(self.messages):
            if message.role == "user":
                parts = [message.content] if isinstance(message.content, str) else [
                    part.text for part in message.content or () if part.type == "text"
                ]  # fmt: skip
                return checked(Ask, {"q": "\n".join(parts).strip()})
        raise UsageError("messages: none of them is the user's")


class Chat:
    """The chat's routes over a service. `url` is the address that links begin with."""

    def __init__(self, service: Service, url: str) -> None:
        self._service, self._url, self._since = service, url, int(time.time())

    def routes(self) -> list[Route]:
        return [
            Route("/v1/models", self.models),
            Route("/v1/chat/completions", self.complete, methods=["POST"]),
        ]

    async def models(self, request: Request) -> Response:
        asker_of(request)
        model = {"id": MODEL, "object": "model", "created": self._since, "owned_by": "pincite"}
        return JSONResponse({"object": "list", "data": [model]})

    async def complete(self, request: Request) -> Response:
        asker, told = asker_of(request), checked(ChatRequest, await body_of(request))
        question = told.question()
        made = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": told.model[:100]}
        turns, caller = self._service.turns_of(answering=True), caller_of(request)
        if told.stream:
            answered = await telling(turns, caller, lambda tell: self._answer(question, asker))
            return self._events(answered, {**made, "object": "chat.completion.chunk"})
        text = await turns.run(caller, lambda: self._answer(question, asker))
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return JSONResponse({**made, "object": "chat.completion", "choices": [choice]}, headers=PRIVATE)

    def _events(self, answered: AsyncIterator[str | None], made: Mapping[str, Any]) -> Response:
        """Return an answer as events. It is checked as a whole before any of it is sent, so it comes in one piece."""

        def piece(delta: Mapping[str, str], finish: str | None = None) -> str:
            return event({**made, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

        return as_events(
            answered,
            lambda text: piece({"content": text}) + piece({}, "stop"),
            lambda problem: event({"error": problem}),
            begin=piece({"role": "assistant", "content": ""}),
            end=event("[DONE]"),
        )

    def _answer(self, question: Ask, asker: Asker) -> str:
        return markdown_answer(self._service.ask(question.q, asker), self._url)


def markdown_answer(answer: Mapping[str, Any], url: str) -> str:
    """Return the JSON of `pincite ask` as Markdown; a mark at each claim links to its place in the reader at `url`."""

    def link(words: str, item: Mapping[str, Any]) -> str:
        return f"[{words}]({url}/passages/{place_of(item)})"

    def place(item: Mapping[str, Any], page: int | None) -> str:
        return link(name(item["uri"] + (f", p. {page}" if page is not None else "")), item)

    cited: Sequence[Mapping[str, Any]] = answer["citations"]
    marks = [link(f"\\[{number}\\]", item) for number, item in enumerate(cited, start=1)]
    if answer["declined"]:
        said = ["The documents do not answer this."]
        nearest = [f"- {place(hit, hit['page_start'])}" for hit in answer["hits"][:NEAREST]]
        said += ["Nearest passages:", "\n".join(nearest)] if nearest else []
        return "\n\n".join(said)
    if answer["generated"]:
        said = [plain(answer["answer"]) + " " + " ".join(marks)]
        said.append(f"Written by a language model ({plain(str(answer['model']))}), checked against the passages:")
        places = [f"{place(item, item['page'])}: “{plain(item['quote'])}”" for item in cited]
    else:
        said = [f"{plain(item['quote'])} {mark}" for item, mark in zip(cited, marks, strict=True)]
        places = [place(item, item["page"]) for item in cited]
    said.append("\n".join(f"{number}. {words}" for number, words in enumerate(places, start=1)))
    return "\n\n".join(said)


def plain(text: str) -> str:
    """Return words as one line of Markdown that shows them as they are, without a link, picture, formula or tag.

    A word that a viewer may turn into a link by itself is set as code, in which no viewer does."""
    made: list[str] = []
    for linked, together in groupby(defused(clear(text)).split(), lambda word: bool(_LINKED.search(word))):
        words = list(together)
        made += map(_as_code, words) if linked else [_escaped(" ".join(words))]
    return " ".join(made)


def name(text: str) -> str:
    """Return the same for the words of a link, in which no viewer makes another link."""
    return _escaped(" ".join(defused(clear(text)).split()))


def _escaped(text: str) -> str:
    return _ACTS.sub(lambda found: "\\" + found[0], escaped(text))


def _as_code(word: str) -> str:
    """Return a word as a code span, with the signs around it outside."""
    inner = word.lstrip(_OPENERS)
    before, said = word[: len(word) - len(inner)], inner.rstrip(_CLOSERS)
    after = inner[len(said) :]
    if "(" in said and after.startswith(")"):
        said, after = said + ")", after[1:]
    fence = "`" * (1 + max(map(len, re.findall("`+", said)), default=0))
    space = " " if "`" in (said[0], said[-1]) else ""
    return f"{_escaped(before)}{fence}{space}{said}{space}{fence}{_escaped(after)}"
