"""Candidate golden questions that a language model writes, one of each paragraph, and what is kept of them.

A reply names a question and its answer in the words of the paragraph. It is kept where the question can be answered
from there and stands alone: most of its words and all of its numbers are there, and it speaks of no "passage".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pipelines.evaluation.suggest import Document, Statement, Suggestion, short_title
from pipelines.llm.prompts import PromptTemplate, as_data
from pipelines.llm.reply_text import cleaned
from pipelines.ports import LanguageModel, NoReply, Prompt, Reply
from pipelines.query.support import content_terms, gives_orders
from pipelines.query.tools import ask, language_of
from pipelines.terms import terms_of

NOTHING = "NOTHING"
REPLY_TOKENS = 200
LEAST_WORDS = 20
"""Of a paragraph that a question is asked of."""
QUESTION_WORDS, LONGEST_ANSWER = range(4, 41), 30
SHARED = 0.5
"""Of the question's content words that stand in the paragraph or above it."""
_PARTS = re.compile(r"\bQUESTION[^\w:]*+:++([^\n]++)\n\W*+ANSWER[^\w:]*+:++([^\n]++)")
_LONGEST_LINE, _LONGEST_REPLY = 500, 4_000
_OF_THE_TEXT = re.compile(
    r"\b(?:this|the|above|following|given|provided) "
    r"(?:document|passage|text|excerpt|section|article|paragraph|author)s?\b"
    r"|\bmentioned\b|\bуривк\w*|\bабзац\w*|\b(?:цьому|цей|цього|наведен\w*|вищ\w*) (?:документ\w*|текст\w*|розділ\w*)"
    r"|\bзгадан\w*|\bу (?:тексті|документі)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph that may be asked about, and its statements."""

    document: Document
    section: tuple[str, ...]
    text: str
    statements: tuple[Statement, ...]


def paragraphs(documents: Iterable[Document], statements: Iterable[Statement]) -> Iterator[Paragraph]:
    """Those long enough, each text once, without what speaks to a language model."""
    known = {document.doc_id: document for document in documents}
    found: dict[tuple[str, str], list[Statement]] = {}
    for each in statements:
        found.setdefault((each.doc_id, each.paragraph), []).append(each)
    seen: set[str] = set()
    for (doc_id, text), own in found.items():
        if text not in seen and len(text.split()) >= LEAST_WORDS and not gives_orders(text):
            seen.add(text)
            yield Paragraph(known[doc_id], own[0].section, text, tuple(own))


def as_candidate(paragraph: Paragraph) -> Suggestion:
    """A paragraph in the place of the question it will have, to be put in order."""
    first = paragraph.statements[0]
    return Suggestion(paragraph.document.doc_id, paragraph.section, "", "", paragraph.text, first.page)


def asked(
    chosen: Sequence[Paragraph], model: LanguageModel, template: Callable[[str], PromptTemplate]
) -> Iterator[Suggestion | str]:
    """Of each paragraph its question, or why there is none; `template` gives the prompt in a language. Raises
    ModelError where the model does not serve."""
    prompts = [_prompt(paragraph, template(language_of(paragraph.text))) for paragraph in chosen]
    for paragraph, reply in zip(chosen, ask(model, prompts, _unusable), strict=True):
        yield reply.message if isinstance(reply, NoReply) else kept(paragraph, reply.text)


def _prompt(paragraph: Paragraph, template: PromptTemplate) -> Prompt:
    system, user = template.render(
        title=as_data(short_title(paragraph.document)),
        headings=as_data(" › ".join(paragraph.section)),
        passage=as_data(paragraph.text),
    )
    return Prompt(system, user, REPLY_TOKENS)


def _unusable(reply: Reply) -> str | None:
    if reply.finish != "stop":
        return f"the reply ended with {reply.finish}"
    named = _PARTS.search(reply.text[:_LONGEST_REPLY]) or NOTHING in reply.text
    return None if named else "the reply names no QUESTION and ANSWER"


def kept(paragraph: Paragraph, reply: str) -> Suggestion | str:
    """The question of a reply, with the statement that holds its answer as gold; else why it is not kept."""
    found = _PARTS.findall(reply[:_LONGEST_REPLY])
    if not found:
        return "there was nothing to ask"
    question, answer = (cleaned(part, _LONGEST_LINE) for part in found[-1])
    if problem := _problem(paragraph, question, answer):
        return problem
    holding = [each for each in paragraph.statements if _folded(answer) in _folded(each.text)]
    gold, page = (holding[0].text, holding[0].page) if holding else (paragraph.text, paragraph.statements[0].page)
    return Suggestion(paragraph.document.doc_id, paragraph.section, question, answer.rstrip("."), gold, page)


def _problem(paragraph: Paragraph, question: str, answer: str) -> str | None:
    around = " ".join([paragraph.text, *paragraph.section, paragraph.document.title])
    wanted, there = content_terms(question), set(terms_of(around))
    if not question.endswith("?") or len(question.split()) not in QUESTION_WORDS:
        return "it is no question of a fit length"
    if _OF_THE_TEXT.search(question):
        return "the question speaks of its passage"
    if not answer or len(answer.split()) > LONGEST_ANSWER or _folded(answer) not in _folded(paragraph.text):
        return "the answer does not stand in the passage"
    if _folded(answer) in _folded(question):
        return "the question holds its answer"
    if len(wanted & there) < SHARED * len(wanted) or any(term[0].isdigit() and term not in there for term in wanted):
        return "the passage does not hold what the question asks about"
    return None


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .")
