"""Suggested golden questions for a person to correct, made by rule or written by a language model.

A candidate made by rule is made from a statement or a table cell, and has a question and an answer; its gold is the
exact statement, or the row. Candidates are ordered to cover many documents and sections, and the same seed gives the
same order. If another document makes the same statement, the question names its document's title, or is dropped if
there is no title. A statement without a word that is rare among the documents is asked with the title if there is one.

A model writes one question about each paragraph, with its answer in the words of the paragraph. The question is kept if
the paragraph answers it and it makes sense alone: the paragraph has most of its words and all of its numbers, and it
does not mention a "passage".
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from pipelines.evaluation.cloze import cloze
from pipelines.fingerprint import fingerprint
from pipelines.llm.prompts import PromptTemplate, as_data
from pipelines.llm.reply_text import clean
from pipelines.ports import LanguageModel, NoReply, Prompt, Reply
from pipelines.query.support import content_terms, gives_orders
from pipelines.query.tools import ask, language_of
from pipelines.records import Cell
from pipelines.terms import terms_of

# ---------------------------------------------------------------- candidates


SEED = 20_260_101
RARE = 0.1
"""Largest share of the documents that may have a word for the word to count as rare."""
ALIKE = 0.75
"""Share of a question's terms that a statement of another document must have to count as an answer too."""
LEAST_CONFIDENCE = 0.8
LONGEST_TITLE, LONGEST_LABEL, LONGEST_VALUE = 8, 8, 6
_WORD_INSIDE = re.compile(r"(?<=\s)[^\W\d_A-ZА-ЯІЇЄҐ][\w'’-]*")
_DIGITS = re.compile(r"\d+")
_SIGNS = re.compile(r"[®™©*]")
_NAMES = re.compile(r"[^\W\d_][\w'’-]*+(?: [^\W\d_][\w'’-]*+){0,2} ?(?<! for)(?<! of)(?<! to)(?<! by)(?<! who)")
_CELL_QUESTIONS = {
    ("en", True): "What is the {column} for {row}?",
    ("en", False): "What is “{column}” for {row}?",
    ("uk", True): "Яке значення «{column}» для «{row}»?",
    ("uk", False): "Яке значення «{column}» для «{row}»?",
}
"""Questions about a cell, by language, and by whether the column's name is one plain phrase."""


@dataclass(frozen=True, slots=True)
class AskableDocument:
    """A document to ask about. `title` is empty if it is only a file name."""

    doc_id: str
    source: str
    uri: str
    title: str


@dataclass(frozen=True, slots=True)
class ParagraphSentence:
    """A sentence of a paragraph or list, with its paragraph."""

    doc_id: str
    section: tuple[str, ...]
    text: str
    page: int | None
    paragraph: str
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class AskableRow:
    """A row of a table to ask about: its own cells, the names of the columns, and its text in the body."""

    doc_id: str
    section: tuple[str, ...]
    cells: tuple[Cell, ...]
    columns: Mapping[int, str]
    quote: str
    page: int | None


@dataclass(frozen=True, slots=True)
class Suggestion:
    doc_id: str
    section: tuple[str, ...]
    question: str
    answer: str
    quote: str
    page: int | None
    rank: int = 0
    """The rank within a section: candidates of a lower rank come first."""


def column_names(cells: Sequence[Cell]) -> tuple[dict[int, str], list[int]]:
    """Return ({column: its header}, data rows) of a table whose first rows are headers; without headers there are no
    names."""
    rows = sorted({cell.row for cell in cells})
    heads: list[int] = []
    for row in rows:
        if not all(cell.header for cell in cells if cell.row == row):
            break
        heads.append(row)
    names: defaultdict[int, list[str]] = defaultdict(list)
    for cell in cells:
        if cell.row in heads and cell.text.strip():
            for column in range(cell.column, cell.column + cell.column_span):
                names[column].append(_plain(cell.text))
    return {column: " ".join(dict.fromkeys(texts)) for column, texts in names.items()}, rows[len(heads) :]


def spread(candidates: Iterable[Suggestion], seed: int = SEED) -> list[Suggestion]:
    """Return all candidates in an order in which the first few cover as many documents and sections as possible."""
    chance = random.Random(seed)
    documents: defaultdict[str, defaultdict[tuple[str, ...], list[Suggestion]]] = defaultdict(lambda: defaultdict(list))
    for candidate in candidates:
        documents[candidate.doc_id][candidate.section].append(candidate)
    lines = []
    for doc_id in sorted(documents):
        sections = [documents[doc_id][section] for section in sorted(documents[doc_id])]
        for section in sections:
            chance.shuffle(section)
            section.sort(key=lambda each: each.rank)
        chance.shuffle(sections)
        lines.append([each for turn in zip_longest(*sections) for each in turn if each])
    chance.shuffle(lines)
    return [each for turn in zip_longest(*lines) for each in turn if each]


# ---------------------------------------------------------------- examples to begin with

LONGEST_EXAMPLE = 90
"""Most characters of an example question, so that it is easy to read."""
_JOINED = re.compile("[,:;“«]| then ")
"""Pattern of parts that make an example hard to read: a second clause, a quoted name, or a reference to another
sentence."""


def as_examples(statements: Iterable[Suggestion], rows: Iterable[Suggestion]) -> list[Suggestion]:
    """Return the short candidates, the most readable first: statements before rows, and one plain clause before
    others. Statements that keep their order (`Boats pay how much a night?`) come last."""
    short = [[each for each in kind if len(each.question) <= LONGEST_EXAMPLE] for kind in (statements, rows)]
    kept = [each for each in short[0] if each.rank]
    kinds = [each for each in short[0] if not each.rank], short[1], kept
    return [each for kind in kinds for each in sorted(spread(kind), key=_is_joined)]


def _is_joined(each: Suggestion) -> bool:
    return bool(_JOINED.search(each.question))


# ---------------------------------------------------------------- without a language model


class CandidateMaker:
    """A maker of candidates from statements and rows, which compares each with all of them."""

    def __init__(self, documents: Iterable[AskableDocument], statements: Sequence[ParagraphSentence]) -> None:
        self._documents = {document.doc_id: document for document in documents}
        self._statements = statements
        self._known = frozenset(word for each in statements for word in _WORD_INSIDE.findall(each.text))
        self._times = Counter(_mask(each.text) for each in statements)
        self._titles = Counter(short_title(document).casefold() for document in self._documents.values())
        self._holding: defaultdict[str, set[int]] = defaultdict(set)
        for number, each in enumerate(statements):
            for term in content_terms(each.text):
                self._holding[term].add(number)

    def of_statements(self) -> Iterator[Suggestion]:
        for each in self._statements:
            if each.confidence < LEAST_CONFIDENCE or self._times[_mask(each.text)] > 1 or gives_orders(each.text):
                continue
            made = cloze(each.text, self._known)
            if made is None:
                continue
            own = Suggestion(
                each.doc_id, each.section, made.question, made.answer, each.text, each.page, rank=int(not made.turned)
            )
            titled = self.with_title(own)
            if titled and (self._said_elsewhere(own) or not self._has_rare_word(own)):
                yield titled
            elif not self._said_elsewhere(own):
                yield own

    def of_rows(self, rows: Sequence[AskableRow]) -> Iterator[Suggestion]:
        made = [each for row in rows for each in _of_row(row, self._known)]
        times = Counter(each.question.casefold() for each in made)
        of_one = Counter((each.doc_id, each.question.casefold()) for each in made)
        for each in made:
            if of_one[each.doc_id, each.question.casefold()] > 1:
                continue
            if times[each.question.casefold()] == 1:
                yield each
            elif titled := self.with_title(each):
                yield titled

    def with_title(self, each: Suggestion) -> Suggestion | None:
        """Return the candidate with its document's title in its question; return None if the title is empty or not
        unique."""
        title = short_title(self._documents[each.doc_id])
        if not title or self._titles[title.casefold()] > 1:
            return None
        return replace(each, question=f"{title}: {each.question}")

    def _has_rare_word(self, each: Suggestion) -> bool:
        most = max(1.0, RARE * len(self._documents))
        return any(
            len({self._statements[number].doc_id for number in self._holding[term]}) <= most
            for term in content_terms(each.question) & self._holding.keys()
        )

    def _said_elsewhere(self, each: Suggestion) -> bool:
        wanted = content_terms(each.question)
        counts = Counter(number for term in wanted for number in self._holding.get(term, ()))
        most = ALIKE * len(wanted)
        return any(count >= most and self._statements[number].doc_id != each.doc_id for number, count in counts.items())


def short_title(document: AskableDocument) -> str:
    """Return the title up to its first comma, without punctuation; return "" if it is long or not a name."""
    title = " ".join(_SIGNS.sub("", document.title).split(",")[0].split())
    return title if 0 < len(title.split()) <= LONGEST_TITLE else ""


def _of_row(row: AskableRow, known: frozenset[str]) -> Iterator[Suggestion]:
    """Yield questions about a row's cells. The row's label is its first cell that has a letter and occurs in no other
    row."""
    single = sorted((cell for cell in row.cells if cell.row_span == 1 and cell.column_span == 1), key=_column)
    label = next((cell for cell in single if any(map(str.isalpha, cell.text))), None)
    if label is None or len(label.text.split()) > LONGEST_LABEL or gives_orders(row.quote):
        return
    for cell in single:
        column, value = row.columns.get(cell.column, ""), _plain(cell.text)
        if cell.column <= label.column or not _can_be_asked(column, value) or column == row.columns.get(label.column):
            continue
        plain = bool(_NAMES.fullmatch(column))
        name = column[0].lower() + column[1:] if plain and column.split()[0].lower() in known else column
        template = _CELL_QUESTIONS[language_of(f"{column} {label.text}"), plain]
        question = template.format(column=name, row=_plain(label.text))
        rank = 0 if any(map(str.isdigit, value)) else 1
        yield Suggestion(row.doc_id, row.section, question, value, row.quote, row.page, rank)


def _can_be_asked(column: str, value: str) -> bool:
    return (
        any(map(str.isalpha, column))
        and column.count("(") == column.count(")")
        and len(column.split()) <= LONGEST_LABEL
        and any(map(str.isalnum, value))
        and len(value.split()) <= LONGEST_VALUE
    )


def _column(cell: Cell) -> int:
    return cell.column


def _plain(text: str) -> str:
    return " ".join(text.split())


def _mask(text: str) -> str:
    return _DIGITS.sub("0", _plain(text).casefold())


# ---------------------------------------------------------------- lines of the golden file


def golden_line(each: Suggestion, document: AskableDocument, by: str) -> dict[str, Any]:
    """Return a golden question; its `note` says that a person must correct it, and how it was made."""
    gold = {"uri": document.uri, "source": document.source, "page": each.page, "quote": each.quote}
    return {
        "id": f"suggested-{fingerprint('suggestion', document.doc_id, each.question)[:8]}",
        "question": each.question,
        "answer": each.answer,
        "gold": [{key: value for key, value in gold.items() if value is not None}],
        "note": f"suggested by {by}: correct it or delete it",
    }


# ---------------------------------------------------------------- with a language model


NOTHING = "NOTHING"
REPLY_TOKENS = 200
LEAST_WORDS = 20
"""Fewest words of a paragraph to ask about."""
QUESTION_WORDS, LONGEST_ANSWER = range(4, 41), 30
SHARED = 0.5
"""Least share of the question's content words that must occur in the paragraph or its headings."""
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
class AskableParagraph:
    """A paragraph to ask about, and its statements."""

    document: AskableDocument
    section: tuple[str, ...]
    text: str
    statements: tuple[ParagraphSentence, ...]


def paragraphs(
    documents: Iterable[AskableDocument], statements: Iterable[ParagraphSentence]
) -> Iterator[AskableParagraph]:
    """Yield the paragraphs that are long enough, without repeated texts and without text addressed to a language
    model."""
    known = {document.doc_id: document for document in documents}
    found: dict[tuple[str, str], list[ParagraphSentence]] = {}
    for each in statements:
        found.setdefault((each.doc_id, each.paragraph), []).append(each)
    seen: set[str] = set()
    for (doc_id, text), own in found.items():
        if text not in seen and len(text.split()) >= LEAST_WORDS and not gives_orders(text):
            seen.add(text)
            yield AskableParagraph(known[doc_id], own[0].section, text, tuple(own))


def as_candidate(paragraph: AskableParagraph) -> Suggestion:
    """Return a candidate that stands for the paragraph's future question while paragraphs are put in order."""
    first = paragraph.statements[0]
    return Suggestion(paragraph.document.doc_id, paragraph.section, "", "", paragraph.text, first.page)


def ask_for_questions(
    chosen: Sequence[AskableParagraph], model: LanguageModel, template: Callable[[str], PromptTemplate]
) -> Iterator[Suggestion | str]:
    """Yield the question of each paragraph, or the reason that it has none; `template` returns the prompt for a
    language.

    Raises ModelError if the model is not available.
    """
    prompts = [_prompt(paragraph, template(language_of(paragraph.text))) for paragraph in chosen]
    for paragraph, reply in zip(chosen, ask(model, prompts, _unusable), strict=True):
        yield reply.message if isinstance(reply, NoReply) else check_suggestion(paragraph, reply.text)


def _prompt(paragraph: AskableParagraph, template: PromptTemplate) -> Prompt:
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


def check_suggestion(paragraph: AskableParagraph, reply: str) -> Suggestion | str:
    """Return the question of a reply, with the statement that has its answer as gold, or the reason to reject the
    reply."""
    found = _PARTS.findall(reply[:_LONGEST_REPLY])
    if not found:
        return "there was nothing to ask"
    question, answer = (clean(part, _LONGEST_LINE) for part in found[-1])
    if problem := _problem(paragraph, question, answer):
        return problem
    holding = [each for each in paragraph.statements if _fold(answer) in _fold(each.text)]
    gold, page = (holding[0].text, holding[0].page) if holding else (paragraph.text, paragraph.statements[0].page)
    return Suggestion(paragraph.document.doc_id, paragraph.section, question, answer.rstrip("."), gold, page)


def _problem(paragraph: AskableParagraph, question: str, answer: str) -> str | None:
    around = " ".join([paragraph.text, *paragraph.section, paragraph.document.title])
    wanted, there = content_terms(question), set(terms_of(around))
    if not question.endswith("?") or len(question.split()) not in QUESTION_WORDS:
        return "it is no question of a fit length"
    if _OF_THE_TEXT.search(question):
        return "the question speaks of its passage"
    if not answer or len(answer.split()) > LONGEST_ANSWER or _fold(answer) not in _fold(paragraph.text):
        return "the answer does not stand in the passage"
    if _fold(answer) in _fold(question):
        return "the question holds its answer"
    if len(wanted & there) < SHARED * len(wanted) or any(term[0].isdigit() and term not in there for term in wanted):
        return "the passage does not hold what the question asks about"
    return None


def _fold(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .")
