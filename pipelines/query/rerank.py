"""Reordering of candidates. `weighted` reads nothing but the candidates themselves.

weighted = 0.50 similarity + 0.20 recency + 0.20 hierarchy + 0.10 adjacency

Each factor lies in [0, 1] and is reported as `weighted.FACTOR`. A factor without data is left out
for that passage and the other weights are divided by their sum, so that silence is no penalty.
docs/reranking.md works an example through.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache

from pipelines.errors import SettingsError
from pipelines.ports import Passage
from pipelines.query.results import Scored
from pipelines.query_settings import QuerySettings

WEIGHTS: Mapping[str, float] = {"similarity": 0.50, "recency": 0.20, "hierarchy": 0.20, "adjacency": 0.10}

IMPORTANT_SECTIONS = (
    r"definitions?|terms and definitions|glossary",
    r"overview|summary|executive summary|introduction|purpose|scope|abstract|key (?:points|facts)",
    r"polic(?:y|ies)(?: rules| statement)?|rules|requirements?|general provisions|eligibility|coverage",
    r"визначення(?: термінів| понять)?|терміни(?: та| і| й)? визначення|глосарій",
    r"огляд|вступ|мета|загальні (?:положення|відомості)|сфера застосування|резюме|анотація",
    r"правила|вимоги|порядок|показання|протипоказання|спосіб застосування(?: та дози)?|склад",
)
"""Section names that weigh high; a heading's number and colon do not count."""

UNIMPORTANT_SECTIONS = (
    r"(?:table of )?contents|index|references|bibliography|acknowledge?ments|(?:revision|change|version) history",
    r"зміст|список (?:літератури|використаних джерел|скорочень)|література|подяки?|історія змін",
)

IMPORTANT, ORDINARY, UNIMPORTANT = 1.0, 0.6, 0.2
DEPTH_FACTOR = 0.9
"""Importance kept at each level below the first."""

_NUMBERING = re.compile(
    r"^\s*(?:(?:section|part|chapter|article|розділ|частина|глава|стаття)\s+)?"
    r"(?:[\divxlc]+[.)]?(?:\d+[.)]?)*[\s.:—–-]+)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class RerankContext:
    """What a reranker may know beside the candidates. `newest_date` is the generation's, ISO."""

    settings: QuerySettings
    newest_date: str | None = None


Reranker = Callable[[Sequence[Scored], RerankContext], list[Scored]]


def _date(value: str | None) -> date | None:
    return date.fromisoformat(value[:10]) if value else None


def similarity_factors(candidates: Sequence[Scored]) -> list[float]:
    """The incoming scores stretched to [0, 1] among the candidates; all 1 where they do not differ.

    Raw cosines would not do: a model's lie in a narrow band (0.75 to 0.90 for multilingual-e5), so
    that the other factors would decide alone."""
    if not candidates:
        return []
    low = min(item.score for item in candidates)
    width = max(item.score for item in candidates) - low
    return [(item.score - low) / width if width > 0 else 1.0 for item in candidates]


def recency_factors(passages: Sequence[Passage], newest: str | None, half_life_days: float) -> list[float | None]:
    """0 for a version older than another candidate's of the same family; else
    0.5 ** (age / half-life), the age counted to the newest date in the generation; None undated."""
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
    try:
        return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)
    except re.error as error:
        raise SettingsError(f"setting 'query.important_sections': {error} in {error.pattern!r}") from None


def _section_name(heading: str) -> str:
    return _NUMBERING.sub("", heading, count=1).strip(" \t:.—–-")


def hierarchy_factor(header_chain: Sequence[str], more_patterns: tuple[str, ...] = ()) -> float | None:
    """Importance of the best-named heading of the chain, times 0.9 for each level below the first.

    The settings' own patterns are searched for anywhere in a heading, the shipped ones must be
    the whole name; None without headings."""
    if not header_chain:
        return None
    names = [_section_name(heading) for heading in header_chain]
    own = _pattern(more_patterns) if more_patterns else None
    if any(_pattern(IMPORTANT_SECTIONS).fullmatch(name) or (own and own.search(name)) for name in names):
        importance = IMPORTANT
    elif _pattern(UNIMPORTANT_SECTIONS).fullmatch(names[-1]):
        importance = UNIMPORTANT
    else:
        importance = ORDINARY
    return float(importance * DEPTH_FACTOR ** (len(names) - 1))


def adjacency_factor(passage: Passage, present: frozenset[str]) -> float | None:
    """Share of the passage's neighbours that are candidates too; None where it has none."""
    neighbours = [item for item in (passage.previous_id, passage.next_id) if item is not None]
    if not neighbours:
        return None
    return sum(item in present for item in neighbours) / len(neighbours)


def combined(factors: Mapping[str, float | None]) -> float:
    """The weighted mean of the factors that are there."""
    known = {name: value for name, value in factors.items() if value is not None}
    total = sum(WEIGHTS[name] for name in known)
    return sum(WEIGHTS[name] * value for name, value in known.items()) / total if total else 0.0


def weighted(candidates: Sequence[Scored], context: RerankContext) -> list[Scored]:
    """Candidates by the weighted score, ties in the incoming order."""
    passages = [item.passage for item in candidates]
    present = frozenset(passage.chunk_id for passage in passages)
    recency = recency_factors(passages, context.newest_date, context.settings.half_life_days)
    rescored = []
    for item, similarity, age in zip(candidates, similarity_factors(candidates), recency, strict=True):
        factors = {
            "similarity": similarity,
            "recency": age,
            "hierarchy": hierarchy_factor(item.passage.header_chain, context.settings.important_sections),
            "adjacency": adjacency_factor(item.passage, present),
        }
        score = combined(factors)
        reported = {f"weighted.{name}": value for name, value in factors.items() if value is not None}
        rescored.append(replace(item, score=score, scores={**item.scores, "weighted": score, **reported}))
    return sorted(rescored, key=lambda item: -item.score)


def unchanged(candidates: Sequence[Scored], context: RerankContext) -> list[Scored]:
    return list(candidates)


RERANKERS: Mapping[str, Reranker] = {"none": unchanged, "weighted": weighted}
