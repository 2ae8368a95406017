"""A language model's reply, taken apart and checked against the context it was given.

A claim stays when the passages it cites hold enough of its content words, every number in it, and every
name that the question has not. A claim that cites nothing stays with the one passage that bears it out,
if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipelines.inert import inert
from pipelines.llm.prompts import PromptTemplate, as_data
from pipelines.llm.reply_text import cleaned, unusable
from pipelines.ports import LanguageModel, NoReply, Prompt, Reply, ReplyCheck
from pipelines.query.answer import Answer, Claim, best_of, citation_of, option_claim
from pipelines.query.assemble import ContextPassage
from pipelines.query.support import Evidence, Weigh, coverage, evidence_of, gives_orders, share
from pipelines.query.tools import numbers_of, uncut
from pipelines.terms import terms_of

NOT_ANSWERED = "NOT ANSWERED"
ANSWER_TOKENS, CHOICE_TOKENS = 1_000, 200
LONGEST_ANSWER = 4_000
CLAIM_SUPPORT = 0.5
"""Share of a claim's content words, by weight, that the passages it cites must hold."""

_CITED = re.compile(r"(?<!\s)\s*+((?:\[\s*+\d++(?:\s*+[,;]\s*+\d++)*+\s*+\][\s,;]*+)++)")
_SENTENCES = re.compile(r"(?<=[.!?…])\s+(?=[^\W\d_a-zа-яіїєґ]|[\"“«(])")
_MARK = re.compile(r"(?<![.!?…])[.!?…]++$")
_NAME = re.compile(r"(?<=\s)[^\W\d_a-zа-яіїєґ]\w+")
_NUMBERED = re.compile(r"^([^\S\n]*+)\[(\d++)\]", re.MULTILINE)
_DECLINED = re.compile(rf"[\W\d]*{NOT_ANSWERED}[\W\d]*", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_GIVEN = re.compile(
    r"\b(?:passage|document|source|text|context|information|answer|уривк|документ|джерел|текст|контекст|інформац"
    r"|відомост|відпові)",
    re.IGNORECASE,
)
_LOOK_ALIKES = str.maketrans("АВСЕНІКМОРТХ", "ABCEHIKMOPTX")


@dataclass(frozen=True, slots=True)
class Said:
    """A claim of a reply, and the passages that it cites by number."""

    text: str
    numbers: tuple[int, ...]
    end: str = "."


# ---------------------------------------------------------------- prompts


def passages_shown(context: Sequence[ContextPassage]) -> str:
    """The passages as a prompt gives them, numbered; none of their own lines can pass for a number."""
    parts = []
    for passage in context:
        headings = " › ".join(passage.chunks[0].header_chain)
        text = _NUMBERED.sub(r"\1(\2)", "\n".join(filter(None, [passage.label, headings, passage.text])))
        parts.append(f"[{passage.number}] {as_data(text)}")
    return "\n\n".join(parts)


def options_shown(options: Mapping[str, str]) -> str:
    return "\n".join(f"{letter}: {as_data(text)}" for letter, text in options.items())


# ---------------------------------------------------------------- replies


def said_in(reply: str) -> list[Said]:
    """Claims in order: a sentence, or a part of one, up to the numbers that it cites."""
    text = cleaned(reply, LONGEST_ANSWER)
    found: list[Said] = []
    parts = _CITED.split(text)
    for stretch, cited in zip(parts[::2], [*parts[1::2], ""], strict=True):
        sentences = [item.strip() for item in _SENTENCES.split(stretch.lstrip(" .,;:!?…"))]
        sentences = [item for item in sentences if re.search(r"\w", item)]
        numbers = tuple(dict.fromkeys(numbers_of(cited)))
        for at, sentence in enumerate(sentences, start=1):
            mark = _MARK.search(sentence)
            own = numbers if at == len(sentences) else ()
            found.append(Said(_MARK.sub("", sentence), own, mark.group() if mark else "."))
    return found


def declines(reply: str) -> bool:
    """Whether a reply, or its first line, is NOT_ANSWERED, or it begins by saying so in other words."""
    first = next(filter(str.strip, _THOUGHT_END.split(reply)[-1].splitlines()), "")
    return any(_DECLINED.fullmatch(cleaned(text, LONGEST_ANSWER)) for text in (reply, first)) or _finds_nothing(reply)


def _finds_nothing(reply: str) -> bool:
    """Whether the first sentence refuses, cites nothing, and speaks of what the model was given: another refusal
    says nothing of the passages."""
    first = next(iter(said_in(reply)), Said("", ()))
    refused = unusable(Reply(first.text), LONGEST_ANSWER) is not None
    return refused and not first.numbers and _GIVEN.search(first.text) is not None


def letter_of(reply: str, options: Mapping[str, str]) -> str | None:
    """The one option that a reply names by its letter; None where it names none, or several."""
    text = cleaned(reply, LONGEST_ANSWER)
    found: list[str] = re.findall(r"\b\w\b", text)
    words = [word if word in options else word.translate(_LOOK_ALIKES) for word in found]
    if words and words[0] in options and re.match(r"\W*\w(?:\W*$|[\s.):]*\[)", text):
        return words[0]
    named = {word for word in words if word in options}
    return named.pop() if len(named) == 1 else None


def _problem(reply: Reply) -> str | None:
    return None if declines(reply.text) else unusable(reply, LONGEST_ANSWER)


# ---------------------------------------------------------------- checking


class Checker:
    """Claims against one context and question."""

    def __init__(self, question: str, context: Sequence[ContextPassage], weigh: Weigh) -> None:
        self._weigh = weigh
        self._words = frozenset(terms_of(question))
        self._asked = weigh(self._words)
        self._count = len(context)
        self.evidence = evidence_of(context)
        self._of: dict[int, list[Evidence]] = {}
        for item in self.evidence:
            self._of.setdefault(item.passage.number, []).append(item)

    def checked(self, said: Said) -> Claim | str:
        """The claim with its places, or why it is dropped."""
        shown = f"{said.text[:80]!r} was dropped: "
        if gives_orders(said.text):
            return shown + "it repeats an order found in a document"
        known = [number for number in said.numbers if 1 <= number <= self._count]
        if said.numbers and not known:
            cited = ", ".join(f"[{number}]" for number in said.numbers)
            return shown + f"it cites {cited}, which is not in the context"
        terms = set(terms_of(said.text))
        exact = {term for term in terms if term[0].isdigit()} | set(
            terms_of(" ".join(_NAME.findall(said.text)))
        ) - self._words
        groups = [known] if known else [[number] for number in range(1, self._count + 1)]
        places = max((self._places(terms, exact, group) for group in groups), key=lambda found: found[0])
        if not places[1]:
            return shown + ("the passage it cites does not say so" if known else "it cites nothing that says so")
        return Claim(inert(said.text), tuple(citation_of(item) for item in places[1]), said.end)

    def _places(self, terms: set[str], exact: set[str], numbers: Sequence[int]) -> tuple[float, list[Evidence]]:
        """How far the numbered passages bear out the terms, and a sentence of each that does; not at all
        where they lack one of the exact terms."""
        wanted = self._weigh(terms) or self._asked
        cited = [self._of[number] for number in numbers if number in self._of]
        held = {term for first, *_ in cited for term in first.about | first.around}  # the same of a passage's sentences
        support = share(wanted, held)
        if support < CLAIM_SUPPORT or not exact <= held:
            return 0.0, []
        best = [best_of(items, wanted) for items in cited]
        return support, [item for item in best if share(wanted, item.terms) and self._relevant(item, terms)]

    def _relevant(self, item: Evidence, terms: set[str]) -> bool:
        """Whether the question is spoken of at all: by the claim, its sentence or the headings above."""
        return not self._asked or any(term in self._asked for term in terms | item.terms | item.about)


# ---------------------------------------------------------------- asking


def _asked(
    model: LanguageModel, template: PromptTemplate, tokens: int, problem: ReplyCheck, **values: str
) -> Reply | str:
    """The model's reply, or why there is none."""
    system, user = template.render(**values)
    (reply,) = model.replies([Prompt(system, user, tokens)], problem)
    if isinstance(reply, NoReply):
        return f"{model.name} gave no answer ({reply.code}: {reply.message}); these are the best supported sentences"
    return reply


def written(
    question: str,
    context: Sequence[ContextPassage],
    model: LanguageModel,
    template: PromptTemplate,
    weigh: Weigh,
) -> Answer | str:
    """The model's answer with what was dropped of it in `notes`; a text says why it gave none."""
    values = {"question": as_data(question), "passages": passages_shown(context)}
    reply = _asked(model, template, ANSWER_TOKENS, _problem, **values)
    if isinstance(reply, str):
        return reply
    if declines(reply.text):
        return Answer(model=model.name, notes=("the passages do not answer the question, says the model",))
    checker = Checker(question, context, weigh)
    found = [checker.checked(said) for said in said_in(reply.text)]
    kept = tuple(item for item in found if isinstance(item, Claim))
    return Answer(kept, model=model.name, notes=tuple(item for item in found if isinstance(item, str)))


def picked(
    question: str,
    options: Mapping[str, str],
    context: Sequence[ContextPassage],
    model: LanguageModel,
    template: PromptTemplate,
    weigh: Weigh,
) -> Answer | str:
    """As `written`, for a question with options: the letter that the model gives."""

    def problem(reply: Reply) -> str | None:
        why = _problem(uncut(reply))
        return why or (None if declines(reply.text) or letter_of(reply.text, options) else "it names no one option")

    values = {"question": as_data(question), "options": options_shown(options), "passages": passages_shown(context)}
    reply = _asked(model, template, CHOICE_TOKENS, problem, **values)
    if isinstance(reply, str):
        return reply
    letter = letter_of(reply.text, options)
    if letter is None or declines(reply.text):
        return Answer(model=model.name, notes=("the passages do not decide between the options, says the model",))
    checker = Checker(question, context, weigh)
    numbers = {number for said in _CITED.findall(reply.text) for number in numbers_of(said)}
    cited = [item for item in checker.evidence if not numbers or item.passage.number in numbers]
    wanted = weigh(set(terms_of(f"{question} {options[letter]}")))
    if not cited or not coverage(wanted, cited):
        note = f"{letter} was dropped: it cites nothing in the context that speaks of it"
        return Answer(model=model.name, notes=(note,))
    return Answer((option_claim(letter, options[letter], best_of(cited, wanted)),), letter, model.name)
