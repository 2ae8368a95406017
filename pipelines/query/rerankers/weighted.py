"""What a passage is beside its text: how new, under which heading, and with which neighbours.

weighted = 0.50 similarity + 0.20 recency + 0.20 hierarchy + 0.10 adjacency

Each factor lies in [0, 1] and is reported as `weighted.FACTOR`. A factor without data is left out
for that passage and the other weights (`query.weighted`) are divided by their sum, so that silence
is no penalty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache

from pipelines.ports import Passage
from pipelines.query.fuse import stretched
from pipelines.query.rerankers.context import RerankContext, reordered
from pipelines.query.results import Scored
from pipelines.settings.query import LONGEST_SEARCHED as LONGEST

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
    r"^\s*+(?:(?:section|part|chapter|article|розділ|частина|глава|стаття)\s++)?"
    r"(?:[\divxlc]++(?:[.)]\d++)*[.)]?[\s.:—–-]++)?",
    re.IGNORECASE,
)


_JOINED = re.compile(r",? (?:and|та|і|й|&) |, ", re.IGNORECASE)


def _date(value: str | None) -> date | None:
    return date.fromisoformat(value[:10]) if value else None


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
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


def _section_name(heading: str) -> str:
    return _NUMBERING.sub("", heading, count=1).strip(" \t:.—–-")


def _is_one(name: str, shipped: tuple[str, ...], own: tuple[str, ...]) -> bool:
    """The settings' own patterns are searched for anywhere in a heading's beginning, the shipped ones must be
    the whole name, or one of several that it joins ("Purpose and scope")."""
    named = any(_pattern(shipped).fullmatch(part) for part in (name, *_JOINED.split(name)))
    return named or bool(own and _pattern(own).search(name[:LONGEST]))


def hierarchy_factor(
    header_chain: Sequence[str], important: tuple[str, ...] = (), unimportant: tuple[str, ...] = ()
) -> float | None:
    """Importance of the best-named heading of the chain, times 0.9 for each level below the first;
    `important` and `unimportant` are patterns beside the shipped ones. None without headings."""
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
    """Share of the passage's neighbours that are candidates too; None where it has none."""
    neighbours = [item for item in (passage.previous_id, passage.next_id) if item is not None]
    if not neighbours:
        return None
    return sum(item in present for item in neighbours) / len(neighbours)


def combined(factors: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The mean of the factors that are there, by weight; 0 where their weights are."""
    total = sum(weights[name] for name in factors)
    return sum(weights[name] * value for name, value in factors.items()) / total if total else 0.0


def weighted(candidates: Sequence[Scored], context: RerankContext) -> list[Scored]:
    """Candidates by the weighted score, in [0, 1]; every factor is reported.

    Similarity is the incoming score stretched to [0, 1] among the candidates. Raw cosines would not
    do: a model's lie in a narrow band (0.75 to 0.90 for multilingual-e5), so that the other factors
    would decide alone."""
    settings = context.settings
    weights = settings.weighted.model_dump()
    passages = [item.passage for item in candidates]
    present = frozenset(passage.chunk_id for passage in passages)
    similarity = stretched([item.score for item in candidates])
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
    return reordered("weighted", candidates, [combined(factors, weights) for factors in known], known)
