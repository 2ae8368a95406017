"""The settings of `query` and `ask`: how candidates are found, reordered and read.

A regular expression among them is refused if it could run too long. Python's engine tries every way in which a pattern
can match a text. The ways that a text of LONGEST_SEARCHED characters can offer are counted before the pattern is run:
alternatives add up, parts in sequence multiply, and repeats of a part with several ways grow without bound. A
possessive repeat or an atomic group keeps the first way that it finds.
"""

from __future__ import annotations

import re
import re._constants as op
import re._parser as parser
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from pipelines.errors import SettingsError
from pipelines.settings.models import (
    KEY_DESCRIPTION,
    Address,
    Fields,
    Variable,
    none_of_ours,
    of_an_endpoint,
    require_private,
)
from pipelines.settings.section import Section

# ---------------------------------------------------------------- filters


FILTERS = ("source", "uri", "title", "version", "language", "block_type", "section", "date", "from", "to")
"""Keys of filters that mean the same in every index."""
LABEL = "kv."
"""Prefix of the key of a filter by a label that has a value in a document, as in a form."""
FILTER_HELP = (
    "KEY=VALUE; repeat it for more. KEY is source, uri, title, version, language, block_type, section, date, "
    f"{LABEL}LABEL for a label in a form, or a key of query.metadata_keys. Values of one key are alternatives. Dates, "
    "and metadata that are numbers or dates, are also compared by >=, <=, > and <, such as 'date>=2024-05' or "
    "'price<10'. from=DATE and to=DATE bound the date, both included."
)
_READ_AS: Mapping[str, str] = {
    "title": "title", "version": "version", "language": "language", "lang": "language", "date": "date",
    "effective": "date", "effective_date": "date", "groups": "", "principals": "", "metadata": "",
}  # fmt: skip
"""Filters by the keys of front matter (in upper or lower case) that set a document's properties and are never
metadata."""


def unnameable(key: str) -> str:
    """Return why filters cannot use a metadata key, and what to do, or "" if the key can be used."""
    if key.startswith(LABEL):
        return f"filters that begin with {LABEL} look at labels within documents, and need no setting: remove it"
    if key in FILTERS or key.lower() in _READ_AS:
        instead = key if key in FILTERS else _READ_AS[key.lower()]
        means = f"the filter {instead} means a document's own, and needs no setting" if instead else "it is no metadata"
        return f"{means}: remove it, or give the metadata key another name"
    if not key or set("<>=\0").intersection(key) or any("\ud800" <= sign <= "\udfff" for sign in key):
        return "a filter cannot name it: give the metadata key a name without < > ="
    return ""


# ---------------------------------------------------------------- cost of patterns


LONGEST_SEARCHED = 120
"""Characters of a text in which a pattern of the settings is searched. The limit bounds the time of a search."""
MOST_STEPS = 20_000_000
_CAP = 10**12


def most_steps(pattern: str) -> int:
    """Return the most steps of a search over LONGEST_SEARCHED characters. Raise re.error for an invalid pattern."""
    return min(_CAP, LONGEST_SEARCHED * _sequence(parser.parse(pattern))[1])


def _sequence(items: Iterable[tuple[Any, Any]]) -> tuple[int, int]:
    """Return, for parts of a pattern in sequence, in how many ways they can match and how many steps a search takes."""
    ways, steps = 1, 1
    for code, value in items:
        own, taken = _part(code, value)
        steps = min(_CAP, steps + ways * taken)
        ways = min(_CAP, ways * own)
    return ways, steps


def _part(code: Any, value: Any) -> tuple[int, int]:
    if code is op.BRANCH:
        return _either(value[1])
    if code is op.SUBPATTERN:
        return _sequence(value[3])
    if code is op.GROUPREF_EXISTS:
        return _either(filter(None, value[1:]))
    if code in (op.ASSERT, op.ASSERT_NOT):
        return 1, _sequence(value[1])[1]
    if code is op.ATOMIC_GROUP:
        return 1, _sequence(value)[1]
    if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        most = min(int(value[1]), LONGEST_SEARCHED)
        return _repeats(int(value[0]), most, *_sequence(value[2]), code is op.POSSESSIVE_REPEAT)
    return 1, LONGEST_SEARCHED if code is op.GROUPREF else 1


def _either(branches: Iterable[Any]) -> tuple[int, int]:
    found = [_sequence(branch) for branch in branches]
    return min(_CAP, sum(ways for ways, _ in found)), min(_CAP, sum(steps for _, steps in found))


def _repeats(least: int, most: int, ways: int, steps: int, possessive: bool) -> tuple[int, int]:
    most = max(min(least, LONGEST_SEARCHED), most)
    if possessive:
        return 1, min(_CAP, steps * most)
    if ways == 1:
        return most - min(least, most) + 1, min(_CAP, steps * most)
    total = sum(min(_CAP, ways**times) for times in range(min(most, 40) + 1))
    return min(_CAP, total), min(_CAP, steps * total)


# ---------------------------------------------------------------- sections


HITS = 10
"""Default number of hits of a search."""
MEASURED_HITS = 5
"""Number of first hits that the span metrics of golden questions use: few enough to read."""
StrategyName = Literal[
    "dense", "lexical", "hybrid", "hyde", "hyde+hybrid", "multi-query", "multi-query+hybrid", "sentence"
]
RerankerName = Literal["none", "weighted", "evidence", "cross-encoder", "logprob", "listwise"]
FusionName = Literal["weighted-score", "reciprocal-rank"]


class FusionWeights(Section):
    """The weights with which routes and measures become one ranking; they are divided by their sum."""

    dense: float = Field(0.5, gt=0, description="Of vectors of the question.")
    lexical: float = Field(1.0, gt=0, description="Of its words.")
    hyde: float = Field(0.5, gt=0, description="Of the vector of a passage written as an answer.")
    nearest_sentence: float = Field(0.7, ge=0, description="Of the vector of a candidate's nearest sentence.")
    document: float = Field(
        0.4, ge=0, description="Of the question's words in a candidate's whole document and its name."
    )
    names: float = Field(
        0.8,
        ge=0,
        description="Of what the question calls a candidate's document: names, years and numbers in its path, version, "
        "date and metadata. At 0, documents are not looked for by their names either.",
    )
    surroundings: float = Field(
        0.0,
        ge=0,
        description="Of the question's words in a candidate and the chunks before and after it, as one text. It helps "
        "where tables stand as lines of text, and costs elsewhere.",
    )


class WeightedSettings(Section):
    """The weights of the reranker `weighted`; they are divided by their sum."""

    similarity: float = Field(0.50, ge=0, description="Of the score that a passage comes in with.")
    recency: float = Field(0.20, ge=0, description="Of the document's effective date and version.")
    hierarchy: float = Field(0.20, ge=0, description="Of the names and depth of the headings above.")
    adjacency: float = Field(0.10, ge=0, description="Of neighbours among the candidates.")

    @model_validator(mode="after")
    def _some(self) -> WeightedSettings:
        if not any(self.model_dump().values()):
            raise ValueError("at least one weight must be above 0")
        return self


class SentenceRouteSettings(Section):
    """The settings of the strategy `sentence`: the nearest sentences, their surroundings, and the choice among them."""

    anchors: int = Field(5, ge=1, le=100, description="Best sentences that are expanded.")
    steps: int = Field(2, ge=0, le=10, description="Sentences before and after an anchor that are looked at.")
    keywords: float = Field(
        50.0,
        ge=0,
        description="Added, to a score in hundredths, where a paragraph holds all of the question's content words, "
        "else a share of it.",
    )
    coherence: float = Field(
        0.0,
        ge=0,
        description="Added to a paragraph that holds several anchors, and once more where one of its anchors directly "
        "follows or precedes another.",
    )
    crowding: float = Field(20.0, ge=0, description="Taken off for each better paragraph of the same chunk.")
    mixing: float = Field(
        0.0, ge=0, description="Taken off a paragraph of another kind of source than the best paragraph's."
    )
    least_confidence: float = Field(0.5, ge=0, le=1, description="Sentences below it are not ranked.")
    per_document: int = Field(10, ge=1, description="Most passages of one document while others are to be had.")


class CrossEncoderSettings(Section):
    """The model of the reranker `cross-encoder`."""

    model: str | None = Field(
        None,
        description="A sentence-transformers CrossEncoder: a folder, or a name on a hub; or the endpoint's model.",
    )
    revision: str | None = Field(None, description="Revision of a model named on a hub, which must be given.")
    batch_size: int = Field(16, ge=1, description="Passages read at once, or sent in one request.")
    max_length: int = Field(
        512, ge=16, description="Most tokens of question and passage; the rest is not read. An endpoint has its own."
    )
    endpoint: Address | None = Field(
        None, description="Base URL of an endpoint that answers to `/rerank` below it, such as vLLM, Cohere or Jina."
    )
    api_key_env: Variable | None = Field(None, description=KEY_DESCRIPTION)
    texts_field: Literal["documents", "texts"] = Field(
        "documents",
        description="Field in which the endpoint takes the passages: `texts` for Text Embeddings Inference.",
    )
    fields: Fields = Field({}, description="More fields of the endpoint's request, such as `{truncate: true}`.")

    @model_validator(mode="after")
    def _askable(self) -> CrossEncoderSettings:
        if self.endpoint and not self.model:
            raise ValueError("endpoint needs model")
        if not self.endpoint:
            of_an_endpoint(self, ("api_key_env", "texts_field", "fields"), "query.cross_encoder")
        elif self.revision:
            raise ValueError("revision is for a model on a hub; an endpoint has its own")
        none_of_ours("fields", self.fields, ("model", "query", "documents", "texts"))
        if self.endpoint and self.api_key_env:
            try:
                require_private(self.endpoint, self.api_key_env, "query.cross_encoder")
            except SettingsError as error:
                raise ValueError(str(error)) from None
        return self


class QuerySettings(Section):
    strategy: StrategyName = Field("hybrid", description="How candidates are found.")
    rerank: tuple[RerankerName, ...] = Field(("none",), description="Rerankers, in sequence.")
    asking_part: bool = Field(
        True,
        description="Whether words that only address who answers count little, such as `you are an analyst` or `answer "
        "in millions`, and are left out of the question's vector.",
    )
    fiscal_years: bool = Field(
        True, description="Whether a question that says `FY2018` or `fiscal '18` also searches for the word `2018`."
    )
    abbreviations: bool = Field(
        False,
        description="Whether a question that says one form of an abbreviation that documents define, such as `PP&E`, "
        "also searches for the other. It gains on no set that was measured.",
    )
    synonyms: str | None = Field(
        None,
        description="File of synonyms in the format of Solr: `a, b` searches each for the other, `a => b, c` searches "
        "b and c instead of a. It is read when a question is asked.",
    )
    candidates: int = Field(20, ge=1, le=1000, description="Candidates fetched before reranking.")
    fusion: FusionName = Field(
        "weighted-score", description="How the rankings of several routes become one; multi-query always by rank."
    )
    rewrites: int = Field(3, ge=1, le=10, description="Other wordings of the question that multi-query asks for.")
    metadata_keys: tuple[str, ...] = Field((), description="Metadata keys that filters may name.")
    half_life_days: float = Field(365.0, gt=0, description="Age at which the recency factor halves.")
    important_sections: tuple[str, ...] = Field(
        (), description="More patterns (regular expressions) of section names that weigh high."
    )
    unimportant_sections: tuple[str, ...] = Field((), description="More patterns of section names that weigh low.")
    evidence_weight: float = Field(
        0.3, ge=0, le=1, description="Weight of the document's score in the reranker `evidence`."
    )
    fusion_weights: FusionWeights = FusionWeights.model_construct()
    weighted: WeightedSettings = WeightedSettings.model_construct()
    sentence: SentenceRouteSettings = SentenceRouteSettings.model_construct()
    cross_encoder: CrossEncoderSettings = CrossEncoderSettings.model_construct()
    context_passages: int = Field(3, ge=1, le=50, description="Best hits that an answer is made from.")
    context_tokens: int = Field(2000, ge=16, description="Most tokens of the passages that an answer is made from.")
    context_repeats: bool = Field(
        True,
        description="Whether a language model is also sent long sentences that repeat another of their document, or "
        "stand whole within it.",
    )
    answer_support: float = Field(
        0.3,
        ge=0,
        le=1,
        description="Without a language model: how far a statement must bear a question out, by its words or its "
        "meaning, or `ask` declines. 0.3 is about half of the question's words by weight.",
    )

    @field_validator("metadata_keys")
    @classmethod
    def _nameable(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        for key in keys:
            if why := unnameable(key):
                raise ValueError(f"{key!r}: {why}")
        return keys

    @field_validator("important_sections", "unimportant_sections")
    @classmethod
    def _compile(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
            if most_steps(pattern) > MOST_STEPS:
                raise ValueError(
                    f"{pattern!r} could take too long on some headings: write fewer of * + ? {{}} and no repeat within "
                    "a repeat, or possessive ones (*+ ++ ?+)"
                )
        return patterns
