"""The asking part of a question, separated from instructions to the person or model who answers.

"Assume that you are an analyst. Answer in USD millions, using the balance sheet": such words are rare in documents, so
BM25 would give them the most weight, and they pull a vector away. A question is cut into clauses of five kinds: a
clause asks, opens (`using the balance sheet`), instructs (`answer in millions`), assigns a role (`you are an analyst`),
or states the condition of an instruction (`if it is not useful`, then say so). Words of the last three kinds get little
weight, and so do the words of an opening that only instruct (`using`, `information`). A place named in a clause, such
as `the balance sheet`, keeps its weight, and so does every word that also occurs in an asking clause. If no clause
asks, as in `Explain the warranty`, the question is unchanged. The rules cover English and Ukrainian; in other languages
all words keep their weight.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from pipelines.terms import terms_of

LITTLE = 0.2
"""Weight of a word that only instructs; an asking word has weight 1."""
MOST_CLAUSES = 200
"""Most clauses of a question that are classified; the text after them counts as asking."""

Kind = Literal["asks", "opens", "orders", "casts", "conditions"]

_POLITE = r"(?:(?:please|kindly|then|and|also|so|finally|now|but|будь ласка|тоді|то|і|та)\b,?\s*)*+"
_GIVING = r"(?:give|provide|offer|write|state|make|keep|express|report|format|limit|phrase|present|base|return|show)"
_GIVING_UK = (
    r"(?:дай|надай|напиши|подай|сформулюй|вкажи|наведи|запиши)(?:те|іть)?|(?:напишіть|вкажіть|наведіть|запишіть)"
)
_OF_IT = r"(?:\s+(?:a|an|the|your|all|any|one|final|short|brief|concise|detailed|full|clear|direct|me|us|of)\b)*+"
_REPLY = r"(?:answers?|answering|response|reply|replies|results?|judge?ments?|conclusions?|solutions?)\b"
_REPLY_UK = r"(?:\s+\w+){0,2}?\s+(?:відповід|результат|висновок|висновк)\w*"
_HOW = (
    r"(?:\s+(?:in|with|by|to|the|this|these|all|only|as|like|from|using|based|on|for|if|briefly|shortly|concisely|yes)\b"
    r"|\s*[.:,;!]|$)"
)
_WHAT = r"\s+(?:your|the|it|all|any|each|to|off|up|down|answers?|results?|numbers?|figures?|values?|sources?|pages?)\b"
_UNIT = r"(?:units?\s+of|usd|us\s+dollars?|eur|euros?|dollars?|millions?|thousands?|billions?|percents?|percentages?)\b"
_UNIT_UK = r"(?:одиниц|мільйон|тисяч|мільярд|відсотк|гривн|долар)\w*"
_ORDERS = re.compile(
    rf"{_POLITE}(?:{_GIVING}\b{_OF_IT}\s+{_REPLY}|(?:answer|respond|reply){_HOW}|round{_WHAT}|(?:quote|cite){_WHAT}"
    r"|(?:approach|address)\s+the\s+question\b|calculate\s+what\b|(?:help|tell)\s+(?:me|us)\b"
    r"|here(?:'s|\s+is)\s+(?:the|my|a)\s+question\b|(?:we|i)\s+(?:want|need|have|would\s+like)\s+(?:you\s+)?to\b"
    r"|(?:state|say|explain|mention|note)\s+(?:that|so|it|this|why)\b|do\s+not\b|don't\b|avoid\b"
    rf"|be\s+(?:brief|concise|short|precise|exact|specific)\b|in\s+{_UNIT}"
    rf"|(?:{_GIVING_UK})\b{_REPLY_UK}|відпові(?:дай|дайте|сти)\b|округл\w+|поясн(?:и|іть)\s+чому\b"
    r"|(?:так|про це|це)\s+(?:і\s+)?(?:скаж|зазнач|напиш|вкаж)\w*|допомож(?:и|іть)\b|ось\s+(?:моє\s+)?(?:за)?питання\b"
    rf"|(?:мені|нам)\s+(?:потрібно|треба)\b|(?:я\s+хочу|ми\s+хочемо)\b|[ву]\s+{_UNIT_UK})"
)
_CASTS = re.compile(
    rf"{_POLITE}(?:(?:assume|imagine|suppose|pretend|consider)\s+(?:that\s+)?)?"
    r"(?:you\s+(?:are|were|work|act)|you're)\b"
    rf"|{_POLITE}(?:act|behave|respond|answer)\s+(?:as|like)\b|{_POLITE}(?:assume|imagine|pretend)\b"
    r"|(?:by\s+)?(?:from|assuming|taking)\s+the\s+(?:standpoint|perspective|viewpoint|role|position|point\s+of\s+view)\s+of\b"
    rf"|{_POLITE}(?:уяви|уявіть|припусти|припустіть|вважай|вважайте)\b|(?:що\s+)?(?:ти|ви)\s*(?:[—–-]|є\b)|що\s+(?:ти|ви)\b"
    r"|(?:виступ\w*\s+)?(?:[ву]\s+ролі|з\s+(?:точки\s+зору|погляду|позиції))\b"
)
_OPENS = re.compile(
    rf"{_POLITE}(?:by\s+)?(?:primarily\s+|mainly\s+|only\s+)?(?:using|use|utili[sz](?:e|ing)|bas(?:e|ed|ing)|rely(?:ing)?"
    r"|refer(?:ring)?|consider(?:ing)?|taking\s+into\s+account|according\s+to|given|looking\s+at)\b"
    r"|(?:використ|спира|ґрунту|врахов)\w+|виходячи\s+з|на\s+(?:основі|підставі)\b|згідно\s+з|відповідно\s+до\b"
    r"|за\s+(?:даними|інформацією)\b|з\s+огляду\s+на\b"
)
_CONDITIONS = re.compile(r"(?:if|in\s+case|where|unless|якщо|коли)\b")
_ASKING = r"(?:what|how|which|who|when|where|why|is|are|does|do|did|was|were|has|have|can|could|in\s+which)"
_ASKING_UK = r"(?:що|як\w*|хто|кого|коли|чому|скільки|чи|де)"
_CUT = re.compile(
    rf"(?<=[.?!;:…])\s++|\n|(\((?:please|round|answer|give|state|provide|in\s+{_UNIT}|[ву]\s+{_UNIT_UK})[^()]*\))"
    rf"|,\s*+(?=(?:так|про\s+це)\s|(?:then|please|answer|round|state|explain|то|будь\s+ласка|{_ASKING}|{_ASKING_UK})\b)"
    rf"|,\s*+(?=and\s+(?:round|state|explain|answer|give|express)\b)|(?:,|(?<![\s,]))\s++(?=(?:and|та|і)\s+(?:round|округл))"
    r"|(?:,|(?<![\s,]))\s++(?=by\s+(?:primarily\s+|only\s+)?(?:using|utili[sz]ing|relying|basing|referring|assuming|taking)\b)"
    r"|(?:,|(?<![\s,])(?<!\bby))\s++(?=(?:assuming|taking)\s+the\s+(?:standpoint|perspective|viewpoint|role|position|point)\b)"
    r"|,\s*+(?=(?:використовуючи|спираючись|ґрунтуючись|виходячи|враховуючи)\b)"
)
_PLACE = re.compile(r"\bthe\s+([^\s.,;:()]+(?:\s+[^\s.,;:()]+){0,5})", re.IGNORECASE)
_PLACE_ENDS = re.compile(
    r"\s(?:who|that|which|whose|by|in|within|from|to|for|on|off|is|are|was|were|has|have|provided|shown|given|outlined)\b",
    re.IGNORECASE,
)
_ADDRESS = (
    "answer answers answering response reply question questions following asked ask give provide state please "
    "use using utilize utilizing base based basing rely relying refer referring consider considering taking "
    "into account according given information info detail details data outlined provided shown within clearly "
    "plainly primarily mainly only judgment judgement judgments line items item exact number possible "
    "reasonable approximation metric calculate compute explain round best abilities ability available access "
    "resource resources standpoint perspective viewpoint role position point view you your we us our i me my it "
    "this that these those here help want need by of off the a an to in on at and or as from looking "
    "відповідь відповіді відповідай питання запитання наступне дай надай будь ласка використовуючи використай "
    "спираючись ґрунтуючись виходячи враховуючи основі підставі згідно відповідно даними дані інформацією "
    "інформація інформації наведену наведені наведених подані подану викладену лише тільки точне число можливо "
    "поясни округли ти ви ваш твій ми нам мені я це ось на з із за до у в та і "
)


@cache
def _address_terms() -> frozenset[str]:
    return frozenset(terms_of(_ADDRESS))


@dataclass(frozen=True, slots=True)
class WeightedQuestion:
    """A question's words in order, each with weight LITTLE or 1, and the text to embed."""

    text: str
    weights: Mapping[str, float]


def clauses(question: str) -> Iterator[tuple[Kind, str]]:
    """Yield the clauses of a question in order, each with its kind."""
    found = [clause for part in _CUT.split(question, MOST_CLAUSES) if (clause := (part or "").strip())]
    kinds = [_kind(clause) for clause in found]
    for at, clause in enumerate(found):
        conditional = kinds[at] == "asks" and not clause.endswith("?") and kinds[at + 1 : at + 2] == ["orders"]
        yield "conditions" if conditional and _CONDITIONS.match(clause.lower()) else kinds[at], clause


def _kind(clause: str) -> Kind:
    if clause.endswith("?"):
        return "asks"
    plain = " ".join(clause.lower().replace("’", "'").strip("([ ").split())
    if _CASTS.match(plain):
        return "casts"
    if _ORDERS.match(plain):
        return "orders"
    return "opens" if _OPENS.match(plain) else "asks"


def asking(question: str) -> WeightedQuestion:
    """Return the asking part of a question. If no clause asks, or no content would remain, return all of it."""
    found = list(clauses(question))
    text = " ".join(part for kind, clause in found for part in _parts_to_embed(kind, clause))
    if len(found) == 1 or not any(kind == "asks" and terms_of(clause) for kind, clause in found):
        return WeightedQuestion(question, dict.fromkeys(terms_of(question), 1.0))
    weights: dict[str, float] = {}
    for kind, clause in found:
        whole = _whole(kind, clause)
        for term in terms_of(clause):
            weights[term] = max(weights.get(term, 0.0), 1.0 if whole is None or term in whole else LITTLE)
    return WeightedQuestion(text, weights)


def _parts_to_embed(kind: Kind, clause: str) -> Iterator[str]:
    """Yield the parts of a clause to embed: all of one that asks or opens, only the places of any other."""
    if kind in ("asks", "opens"):
        yield clause
    elif kind != "conditions":
        yield from _places(clause)


def _whole(kind: Kind, clause: str) -> set[str] | None:
    """Return the terms of a clause that keep their weight; None means all."""
    if kind == "asks":
        return None
    if kind == "conditions":
        return set()
    if kind == "opens":
        return set(terms_of(clause)) - _address_terms()
    names = {term for place in _places(clause) for term in terms_of(place)}
    return names - _address_terms()


def _places(clause: str) -> Iterator[str]:
    """Yield the words after each `the` up to a verb or preposition, if the first of them is not an instructing word:
    `balance sheet` of `the details shown in the balance sheet`, nothing of `the standpoint of an analyst`."""
    at = 0
    while match := _PLACE.search(clause, at):
        name = _PLACE_ENDS.split(f" {match.group(1)}")[0]
        if not _address_terms().issuperset(terms_of(name)[:1]):
            yield name.strip()
        at = match.start(1)
