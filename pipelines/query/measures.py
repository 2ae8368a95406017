"""What is asked of chunks only once routes have found them: it would be too dear to ask of all.

A measure is a function here, an entry of MEASURES, a weight in pipelines/settings/query.py, and its name in a row of
STRATEGIES. What each is worth, and weights chosen on other sets, is printed by benchmarks/fusion.py.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import PurePosixPath

from pipelines.ports import DocumentTerms
from pipelines.query.routes import Asked, Scores
from pipelines.terms import terms_of

HALF = 0.2
"""The mean BM25 weight of a term over a document's chunks at which it counts half."""


def nearest_sentence(asked: Asked) -> Scores:
    """The cosine of a chunk's nearest sentence: a chunk of several hundred tokens is near to no single question, the
    sentence that answers it is (as the greatest similarity of passages stands for a document in Dai and Callan, Deeper
    text understanding for IR, SIGIR 2019, section 3)."""

    def scores(chunk_ids: Sequence[str]) -> Mapping[str, float]:
        return asked.index.sentence_similarities(chunk_ids, asked.vector, asked.filters)

    return scores


def document(asked: Asked) -> Scores:
    """How much a chunk's document says of the question's words, as `document_score` has it: by their idf among the
    documents of the chunks that are asked for first."""
    terms, first = asked.question.terms, list[Mapping[str, float]]()

    def scores(chunk_ids: Sequence[str]) -> Mapping[str, float]:
        found = asked.index.document_terms(chunk_ids, terms, asked.filters) if terms else []
        said = {each.doc_id: said_by(each, terms) for each in found}
        if not first:
            first.append(idf_among(said.values(), terms))
        return {chunk_id: document_score(said[each.doc_id], first[0]) for each in found for chunk_id in each.found}

    return scores


def said_by(document: DocumentTerms, terms: Collection[str]) -> dict[str, float]:
    """How much a document says of each of these terms that it says at all, in [0, 1]: by the mean weight over its
    chunks, m / (m + HALF), and in full where the term stands in the path or name, without the ending."""
    path = PurePosixPath(document.uri)
    means = {term: document.weights.get(term, 0.0) / document.chunks for term in terms}
    named = set(terms_of(f"{path.parent} {path.stem}")).intersection(terms)
    return {**{term: mean / (mean + HALF) for term, mean in means.items() if mean > 0}, **dict.fromkeys(named, 1.0)}


def idf_among(documents: Collection[Collection[str]], terms: Collection[str]) -> dict[str, float]:
    """The idf of each term *among these documents*: what all of them say tells none from the others, though few chunks
    of each may say it, as with the name of who files a report."""
    counts = Counter(term for said in documents for term in said)
    return {term: math.log1p((len(documents) - counts[term] + 0.5) / (counts[term] + 0.5)) for term in terms}


def document_score(said: Mapping[str, float], idf: Mapping[str, float]) -> float:
    """The share of the terms, by their idf, that a document says, in [0, 1]."""
    total = math.fsum(idf.values())
    return math.fsum(idf[term] * much for term, much in said.items()) / total if total else 0.0


MEASURES: Mapping[str, Callable[[Asked], Scores]] = {"nearest_sentence": nearest_sentence, "document": document}
