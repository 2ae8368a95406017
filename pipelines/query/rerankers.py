"""The rerankers by name, and their execution in sequence: each gets the candidates in the order of the one before.

- cross-encoder: a model reads question and passage together; its score, in [0, 1], decides.
- evidence = (1 - w) similarity + w document, w = query.evidence_weight: a document with many good passages is
  preferred.
- listwise: a language model orders the candidates (Sun et al., Is ChatGPT good at search?, 2023). More than WINDOW are
  ordered in windows that slide from the last candidate to the first, by STEP, so that a good passage can rise to the
  top.
- logprob: a language model judges for each passage separately whether it answers the question.
- weighted = 0.50 similarity + 0.20 recency + 0.20 hierarchy + 0.10 adjacency. Each factor lies in [0, 1] and is
  reported as `weighted.FACTOR`. A factor without data is left out for that passage and the other weights
  (`query.weighted`) are divided by their sum, so that a missing factor is no penalty.

docs/reference/reranking.md gives every formula and works an example through.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache

from pipelines.llm.prompts import as_data
from pipelines.llm.reply_text import clip
from pipelines.ports import NoReply, Passage, Prompt, Reply
from pipelines.query.results import Scored
from pipelines.query.routes import stretch
from pipelines.query.tools import ModelFunctions, ask, numbers_of, prompt
from pipelines.settings.query import LONGEST_SEARCHED as LONGEST
from pipelines.settings.query import QuerySettings

# ---------------------------------------------------------------- shared context and score reporting


@dataclass(frozen=True, slots=True)
class RerankContext:
    """The inputs of a reranker beside the candidates. `newest_date` returns the generation's newest date in ISO form.
    `notes` collects messages about fallbacks, for people to read."""

    question: str
    settings: QuerySettings
    tools: ModelFunctions
    newest_date: Callable[[], str | None]
    notes: list[str] = field(default_factory=list)


Reranker = Callable[[Sequence[Scored], RerankContext], list[Scored]]
"""A function that returns all candidates in a new order, each with the reranker's score."""


def reorder(
    name: str,
    candidates: Sequence[Scored],
    scores: Sequence[float],
    factors: Sequence[Mapping[str, float]] | None = None,
) -> list[Scored]:
    """Return candidates ordered by new scores, ties in the incoming order. The score is reported under the reranker's
    name, its factors as NAME.FACTOR."""
    parts = factors or [{}] * len(candidates)
    rescored = [
        replace(item, score=score, scores={
            **item.scores, name: score, **{f"{name}.{factor}": value for factor, value in own.items()}
        })
        for item, score, own in zip(candidates, scores, parts, strict=True)
    ]  # fmt: skip
    ordered = sorted(rescored, key=lambda item: -item.score)
    return [replace(item, ranks={**item.ranks, name: rank}) for rank, item in enumerate(ordered, start=1)]


def full_text(passage: Passage) -> str:
    """Return the text of a passage for a model that judges it: the headings above it, then its own text."""
    headings = dict.fromkeys([passage.title, *passage.header_chain])
    return "\n".join([" › ".join(heading for heading in headings if heading), passage.text]).strip()


# ---------------------------------------------------------------- cross encoder

LONGEST_CROSS_ENCODED_PASSAGE = 100_000
"""Most characters of a passage that are tokenized, since models read only the first few hundred or thousand tokens."""


def cross_encoder(candidates: Sequence[Scored], context: RerankContext) -> list[Scored]:
    texts = [clip(full_text(item.passage), LONGEST_CROSS_ENCODED_PASSAGE) for item in candidates]
    return reorder("cross-encoder", candidates, context.tools.cross_encoder().scores(context.question, texts))


# ---------------------------------------------------------------- evidence

BEST = 3


def document_score(similarities: Sequence[float]) -> float:
    """Return the mean of the three best similarities of a document's candidates.

    A missing candidate counts 0, which is the similarity of the last candidate and so the most that a passage outside
    the candidates can have. Otherwise a document with a single good passage would beat one with three."""
    return sum(sorted(similarities, reverse=True)[:BEST]) / BEST


def evidence(candidates: Sequence[Scored], context: RerankContext) -> list[Scored]:
    """Return candidates by the blended score, in [0, 1], and report `evidence.similarity` and `evidence.document`."""
    similarities = stretch([item.score for item in candidates])
    of_document: dict[str, list[float]] = {}
    for item, similarity in zip(candidates, similarities, strict=True):
        of_document.setdefault(item.passage.doc_id, []).append(similarity)
    weight = context.settings.evidence_weight
    factors = [
        {"similarity": similarity, "document": document_score(of_document[item.passage.doc_id])}
        for item, similarity in zip(candidates, similarities, strict=True)
    ]
    scores = [(1 - weight) * own["similarity"] + weight * own["document"] for own in factors]
    return reorder("evidence", candidates, scores, factors)


# ---------------------------------------------------------------- listwise

WINDOW, STEP = 20, 10
LONGEST_LISTED_PASSAGE = 1_500
"""Most characters of a passage in a listwise prompt, since the whole window must fit a model's context."""
TOKENS_A_NUMBER = 8

_BRACKETED = re.compile(r"\[\s*(\d+)\s*\]")
_RUN = re.compile(r"\[?(?<!\d)\d++\]?(?:[\s>,;]++\[?\d++\]?)++")
_LIST_MARK = re.compile(r"^[^\S\n]*+(?:\d++[.)]|[-*])\s++(?=\[?\d)", re.MULTILINE)


def _valid(numbers: str, count: int) -> list[int]:
    """Return the positions, from 0 and each once, that the numbers in a text name."""
    return list(dict.fromkeys(number - 1 for number in numbers_of(numbers) if 0 < number <= count))


def permutation(reply: str, count: int) -> list[int] | None:
    """Return all positions from 0 to count - 1 in the order of the reply, or None if the reply names no position.

    The order is the run of numbers that names the most positions (`[2] > [1] > [3]`, `2, 1, 3`, or one for each line).
    If there is no run, it is the order of the numbers in brackets. Repeated numbers count once. Unnamed positions
    follow in their previous order.
    """
    text = _LIST_MARK.sub("", reply)
    runs = [_valid(run, count) for run in _RUN.findall(text)]
    named = max(runs, key=len, default=[])
    if len(named) < 2:
        named = _valid(" ".join(_BRACKETED.findall(text)) or text, count)
    return [*named, *(place for place in range(count) if place not in named)] if named else None


def _candidates_text(candidates: Sequence[Scored]) -> str:
    texts = (clip(full_text(item.passage), LONGEST_LISTED_PASSAGE) for item in candidates)
    return "\n\n".join(f"[{n}]\n<passage>\n{as_data(text)}\n</passage>" for n, text in enumerate(texts, 1))


def _order_window(window: Sequence[Scored], context: RerankContext) -> list[Scored] | None:
    """Return the candidates of a window in the model's order; if the model gives no order, add a note and return
    None."""
    count = len(window)
    system, user = prompt(context.tools, "listwise", context.question, passages=_candidates_text(window), count=count)

    def why_malformed(reply: Reply) -> str | None:
        return None if permutation(reply.text, count) else "it names no passage"

    model = context.tools.model("rerank")
    (reply,) = ask(model, [Prompt(system, user, most_tokens=count * TOKENS_A_NUMBER + 64)], why_malformed)
    order = None if isinstance(reply, NoReply) else permutation(reply.text, count)
    if order is None:
        why = reply.message if isinstance(reply, NoReply) else "it names no passage"
        context.notes.append(f"listwise: {model.name} gave no order ({why}); the incoming one stays")
        return None
    return [window[place] for place in order]


def listwise(candidates: Sequence[Scored], context: RerankContext) -> list[Scored]:
    """Return candidates in the model's order, or in the incoming order if the model gives none. The score falls evenly
    from 1 for the first candidate."""
    order, count = list(candidates), len(candidates)
    start, answered = max(0, count - WINDOW), count == 1
    while count > 1:
        if found := _order_window(order[start : start + WINDOW], context):
            order[start : start + WINDOW], answered = found, True
        if start == 0:
            break
        start = max(0, start - STEP)
    if not answered:
        return list(candidates)
    return reorder("listwise", order, [1 - place / count for place in range(count)])


# ---------------------------------------------------------------- logprob
#
# logprob = sigmoid(log P(yes) - log P(no)), from the probabilities of the reply's first token. A token
# may write a word in several ways (`Yes`, ` yes`, `Так`), or only begin it (`Та`): all of them count.


YES, NO = ("yes", "так"), ("no", "ні")
TOP_LOGPROBS = 20
LONGEST_JUDGED_PASSAGE = 6_000
"""Most characters of a passage in a prompt of the reranker `logprob`."""
UNKNOWN = 0.5
_LEAST_REST = 1e-9
"""The least probability assumed for the unreported tokens. The reported probabilities are rounded and may add up to 1
or more."""
_AROUND = " \t\n\"'«»“”*_.,:;!▁Ġ"
"""Characters that are not part of a word: punctuation, and the marks with which tokenizers write a space before it."""


def _says(token: str, words: Sequence[str]) -> bool:
    piece = token.strip(_AROUND).casefold()
    return bool(piece) and any(word.startswith(piece) for word in words)


def _total(logprobs: Sequence[float]) -> float:
    """Return the logarithm of the sum of probabilities."""
    most = max(logprobs)
    return most + math.log(sum(math.exp(value - most) for value in logprobs))


def answer_score(logprobs: Sequence[tuple[str, float]]) -> float | None:
    """Return sigmoid(log P(yes) - log P(no)), or None if neither word is among the alternatives.

    A missing word is at most as probable as the least probable reported alternative, and as all unreported ones
    together. It gets the lower of the two probabilities.
    """
    rest = 1.0 - sum(math.exp(min(value, 0.0)) for _, value in logprobs)
    least = min(math.log(max(rest, _LEAST_REST)), *(value for _, value in logprobs))
    yes = [value for token, value in logprobs if _says(token, YES)]
    no = [value for token, value in logprobs if _says(token, NO)]
    if not yes and not no:
        return None
    difference = _total(yes or [least]) - _total(no or [least])
    return 1.0 / (1.0 + math.exp(-difference)) if difference > -700 else 0.0


def _any(reply: Reply) -> str | None:
    """Accept any reply, since only its probabilities are read; missing probabilities are an error of the call."""
    return None


def logprob(candidates: Sequence[Scored], context: RerankContext) -> list[Scored]:
    """Return candidates ordered by the probability of the answer yes. If the model answers neither yes nor no, a
    passage gets the middle score and a note. Raise ModelError `no_logprobs` if the endpoint reports no
    probabilities."""
    model = context.tools.model("rerank")
    prompts = []
    for item in candidates:
        passage = as_data(clip(full_text(item.passage), LONGEST_JUDGED_PASSAGE))
        system, user = prompt(context.tools, "logprob", context.question, passage=passage)
        prompts.append(Prompt(system, user, most_tokens=1, top_logprobs=TOP_LOGPROBS))
    replies = ask(model, prompts, _any)
    scores = [
        answer_score(reply.logprobs) if isinstance(reply, Reply) and reply.logprobs else None for reply in replies
    ]
    if unknown := scores.count(None):
        context.notes.append(f"logprob: {model.name} said neither yes nor no of {unknown} of {len(scores)} passages")
    return reorder("logprob", candidates, [UNKNOWN if score is None else score for score in scores])


# ---------------------------------------------------------------- weighted

IMPORTANT_SECTIONS = (
    r"definitions?|terms and definitions|glossary",
    r"overview|summary|executive summary|introduction|purpose|scope|abstract|key (?:points|facts)",
    r"polic(?:y|ies)(?: rules| statement)?|rules|requirements?|general provisions|eligibility|coverage",
    r"визначення(?: термінів| понять)?|терміни(?: та| і| й)? визначення|глосарій",
    r"огляд|вступ|мета|загальні (?:положення|відомості)|сфера застосування|резюме|анотація",
    r"правила|вимоги|порядок|показання|протипоказання|спосіб застосування(?: та дози)?|склад",
)
"""Patterns of the names of important sections; a heading's number and colon are ignored."""

UNIMPORTANT_SECTIONS = (
    r"(?:table of )?contents|index|references|bibliography|acknowledge?ments|(?:revision|change|version) history",
    r"зміст|список (?:літератури|використаних джерел|скорочень)|література|подяки?|історія змін",
)

IMPORTANT, ORDINARY, UNIMPORTANT = 1.0, 0.6, 0.2
DEPTH_FACTOR = 0.9
"""Share of the importance kept at each level below the first."""

_NUMBERING = re.compile(
    r"^\s*+(?:(?:section|part|chapter|article|розділ|частина|глава|стаття)\s++)?"
    r"(?:[\divxlc]++(?:[.)]\d++)*[.)]?[\s.:—–-]++)?",
    re.IGNORECASE,
)


_JOINED = re.compile(r",? (?:and|та|і|й|&) |, ", re.IGNORECASE)


def _date(value: str | None) -> date | None:
    return date.fromisoformat(value[:10]) if value else None


def recency_factors(passages: Sequence[Passage], newest: str | None, half_life_days: float) -> list[float | None]:
    """Return each passage's recency, or None if it is undated.

    A passage older than another candidate of its family gets 0. Any other gets 0.5 ** (age / half-life); the age is
    counted back from the newest date in the generation.
    """
    latest = _date(newest)
    dates = [_date(passage.effective_date) for passage in passages]
    of_family: dict[str, date] = {}
    for passage, day in zip(passages, dates, strict=True):
        if day is not None:
            of_family[passage.family] = max(day, of_family.get(passage.family, day))
    factors: list[float | None] = []
    for passage, day in zip(passages, dates, strict=True):
        if day is None or latest is None:
            factors.append(None)
        elif day < of_family[passage.family]:
            factors.append(0.0)
        else:
            factors.append(0.5 ** (max((latest - day).days, 0) / half_life_days))
    return factors


@lru_cache(maxsize=64)
def _pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


def _section_name(heading: str) -> str:
    return _NUMBERING.sub("", heading, count=1).strip(" \t:.—–-")


def _is_one(name: str, shipped: tuple[str, ...], own: tuple[str, ...]) -> bool:
    """Say whether a section name matches. The settings' own patterns may match anywhere in the first characters of a
    heading. The shipped patterns must match the whole name, or one of several joined names ("Purpose and scope")."""
    named = any(_pattern(shipped).fullmatch(part) for part in (name, *_JOINED.split(name)))
    return named or bool(own and _pattern(own).search(name[:LONGEST]))


def hierarchy_factor(
    header_chain: Sequence[str], important: tuple[str, ...] = (), unimportant: tuple[str, ...] = ()
) -> float | None:
    """Return the importance of the most important heading of the chain, times 0.9 for each level below the first, or
    None without headings. `important` and `unimportant` are patterns in addition to the shipped ones."""
    if not header_chain:
        return None
    names = [_section_name(heading) for heading in header_chain]
    if any(_is_one(name, IMPORTANT_SECTIONS, important) for name in names):
        importance = IMPORTANT
    elif _is_one(names[-1], UNIMPORTANT_SECTIONS, unimportant):
        importance = UNIMPORTANT
    else:
        importance = ORDINARY
    return float(importance * DEPTH_FACTOR ** (len(names) - 1))


def adjacency_factor(passage: Passage, present: frozenset[str]) -> float | None:
    """Return the share of the passage's neighbours that are also candidates, or None if it has no neighbours."""
    neighbours = [item for item in (passage.previous_id, passage.next_id) if item is not None]
    if not neighbours:
        return None
    return sum(item in present for item in neighbours) / len(neighbours)


def combine(factors: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the weighted mean of the given factors, or 0 if their weights are 0."""
    total = sum(weights[name] for name in factors)
    return sum(weights[name] * value for name, value in factors.items()) / total if total else 0.0


def rerank_weighted(candidates: Sequence[Scored], context: RerankContext) -> list[Scored]:
    """Return candidates by the weighted score, in [0, 1], with every factor reported.

    Similarity is the incoming score stretched to [0, 1] among the candidates. Raw cosines are not suitable: those of a
    model lie in a narrow band (0.75 to 0.90 for multilingual-e5), so the other factors alone would decide.
    """
    settings = context.settings
    weights = settings.weighted.model_dump()
    passages = [item.passage for item in candidates]
    present = frozenset(passage.chunk_id for passage in passages)
    similarity = stretch([item.score for item in candidates])
    recency = recency_factors(passages, context.newest_date(), settings.half_life_days)
    known = []
    for place, passage in enumerate(passages):
        factors = {
            "similarity": similarity[place],
            "recency": recency[place],
            "hierarchy": hierarchy_factor(
                passage.header_chain, settings.important_sections, settings.unimportant_sections
            ),
            "adjacency": adjacency_factor(passage, present),
        }
        known.append({name: value for name, value in factors.items() if value is not None})
    return reorder("weighted", candidates, [combine(factors, weights) for factors in known], known)


# ---------------------------------------------------------------- rerankers by name


def keep_order(candidates: Sequence[Scored], context: RerankContext) -> list[Scored]:
    return list(candidates)


RERANKERS: Mapping[str, Reranker] = {
    "none": keep_order,
    "weighted": rerank_weighted,
    "evidence": evidence,
    "cross-encoder": cross_encoder,
    "logprob": logprob,
    "listwise": listwise,
}

_ASKING = frozenset({"logprob", "listwise"})


def asks_model(names: Sequence[str]) -> bool:
    """Say whether one of the rerankers calls a language model."""
    return not _ASKING.isdisjoint(names)


def rerank_candidates(candidates: Sequence[Scored], names: Sequence[str], context: RerankContext) -> list[Scored]:
    """Return candidates after the named rerankers, in sequence. No reranker is called if there are no candidates."""
    result = list(candidates)
    for name in names if result else ():
        result = RERANKERS[name](result, context)
    return result
