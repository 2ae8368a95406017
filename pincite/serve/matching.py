"""Which sentence of a passage says most of what was asked: the one that is set off where the passage is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log1p
from typing import TYPE_CHECKING

from pipelines.terms import terms_of

if TYPE_CHECKING:
    from resources.search.documents import SentenceInPlace


def best_sentences(question: str, sentences: Mapping[str, Sequence[SentenceInPlace]]) -> dict[str, SentenceInPlace]:
    """By chunk, the sentence that has the rarest words of the question; none where none has any. How rare a word is, is
    told by these sentences; of equals, the shorter."""
    wanted = set(terms_of(question))
    terms = {key: [wanted & set(terms_of(item.text)) for item in own] for key, own in sentences.items()}
    having = Counter(term for own in terms.values() for said in own for term in said)
    total = sum(map(len, terms.values()))
    found = {}
    for key, own in sentences.items():
        weights = [sum(log1p(total / having[term]) for term in said) for said in terms[key]]
        best = max(range(len(own)), key=lambda at: (weights[at], -len(own[at].text)), default=None)
        if best is not None and weights[best] > 0:
            found[key] = own[best]
    return found


def set_off(text: str, start: int, length: int, most: int) -> tuple[str, str, str]:
    """(before, sentence, after) of at most about `most` characters, whole words, around the sentence."""
    before, said, after = text[:start], text[start : start + length][:most], text[start + length :]
    room = max(most - len(said), 0)
    ahead = min(len(before), max(room // 3, room - len(after)))
    if ahead < len(before):
        before = "… " + before[len(before) - ahead :].partition(" ")[2]
    if len(after) > room - ahead:
        after = after[: max(room - ahead, 0)].rpartition(" ")[0] + " …"
    return before, said, after
