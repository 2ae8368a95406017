"""A question made from a statement: its amount, date or time is removed, and the question asks for it.

English that has a plain subject and an auxiliary verb is reordered into a question (`Claims must be made within 30
days` to `Within how many days must claims be made?`); any other statement keeps its order (`Staff receive how many days
of leave?`), which is good Ukrainian and clear English. A statement that cannot stand alone gives no question.
Quantities are found in English and Ukrainian. Each named group of QUANTITY is a kind of quantity; a `count` has its
number in group `of` and the counted thing in `unit`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

# ---------------------------------------------------------------- quantities


_NUMBER = r"\d{1,3}(?:[, \u00a0\u202f]\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?"
AMOUNT = rf"(?:{_NUMBER})(?:\s?[-‒–—]\s?(?:{_NUMBER})|\s(?:to|or|до|або)\s(?:{_NUMBER}))?"
IN_WORDS = (
    r"(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|sixty|ninety)"
    r"(?:-(?:one|two|three|four|five|six|seven|eight|nine))?"
)
CURRENCY = "[$€£₴]"
_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_START = r"(?<![\w.,/·*±‒–-])(?<!± )"
_END = r"(?![\w/·*’'-]|[.,]\d)"

_WHOLE = ("mg", "ml", "kg", "g", "km", "m", "cm", "mm", "GB", "MB", "TB", "°C",
          "мг", "мл", "мкг", "кг", "г", "км", "м", "см", "мм")  # fmt: skip
_GENITIVES = {
    "секунд": "секунд", "хвилин": "хвилин", "годин": "годин", "дн": "днів", "день": "днів", "діб": "діб", "доб": "діб",
    "тижн": "тижнів", "тиждень": "тижнів", "місяц": "місяців", "рок": "років", "рік": "років",
    "таблет": "таблеток", "капсул": "капсул", "крапл": "крапель", "крапель": "крапель", "ампул": "ампул",
    "флакон": "флаконів", "саше": "саше", "доз": "доз", "осіб": "осіб", "документ": "документів", "справ": "справ",
    "примірник": "примірників", "грам": "грамів", "метр": "метрів",
}  # fmt: skip
"""Beginnings of Ukrainian nouns, each with the noun's form after `скільки`."""
_TIMES = ("раз", "рази", "разів")
_NO_UNITS = (
    "a|an|the|of|and|or|to|in|on|at|by|for|from|with|is|are|was|were|be|been|has|have|will|may|must|can|as|per|than|"
    "that|which|this|these|those|its|his|her|their|our|your|other|such|does|types|kinds|ways|parts|things|options|"
    "steps|categories|reasons|sides|times|degrees"
)
_NOUN = rf"(?!(?:{_NO_UNITS})\b)(?:[a-z]+(?:-[a-z]+)?\s)?(?!(?:{_NO_UNITS})\b)[a-z]{{3,}}s"
_UNIT = "|".join([rf"(?:{'|'.join([*_WHOLE, *_TIMES])})\b", rf"(?:{'|'.join(_GENITIVES)})\w*", _NOUN])

_KINDS = {
    "money": rf"{CURRENCY}\s?(?:{AMOUNT})(?:\s(?:thousand|million|billion))?{_END}"
    rf"|{_START}(?:{AMOUNT})\s?(?:грн|dollars|euros|pounds)\b",
    "share": rf"{_START}(?:{AMOUNT})(?:\s?%|\sper\s?cent\b|\sвідсотк\w*)",
    "date": rf"(?:(?<=\bon )|(?<=\bby ))\d{{1,2}} {_MONTH}(?: \d{{4}})?",
    "time": r"(?<=\bat )\d{1,2}:\d{2}(?!:)",
    "year": r"(?<=\b[Ii]n )(?:19|20)\d{2}\b(?![-–/])",
    "year_uk": r"(?<=\b[УуВв] )(?:19|20)\d{2} році\b",
    "count": rf"{_START}(?P<of>{AMOUNT}|{IN_WORDS})\s(?P<unit>{_UNIT}){_END}",
}
QUANTITY = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()))

_GOVERNS = re.compile(r"(?:протягом|упродовж|до|від|після|більше|менше|близько|без|старш\w+)\s$", re.IGNORECASE)
_CYRILLIC = re.compile("[а-яіїєґ]")


def kind_of(match: re.Match[str]) -> str:
    return next(kind for kind in _KINDS if match[kind])


def is_cyrillic(text: str) -> bool:
    return _CYRILLIC.search(text) is not None


def asked_for(match: re.Match[str], before: str) -> tuple[str, str]:
    """Return (words that ask for a quantity in its place after `before`, the answer)."""
    found, kind = match.group(), kind_of(match)
    cyrillic = is_cyrillic(before)
    how_many = ("скількох" if _GOVERNS.search(before) else "скільки") if cyrillic else "how many"
    if kind == "count":
        unit = match["unit"]
        form = _after_how_many(unit) if cyrillic else unit
        return f"{how_many} {form}", match["of"] if form == unit else found
    words = {
        "money": f"{how_many} грошей" if cyrillic else "how much",
        "share": f"{how_many} відсотків" if cyrillic else "what percentage",
        "date": "what date",
        "time": "what time",
        "year": "which year",
        "year_uk": "якому році",
    }
    return words[kind], found.removesuffix(" році")


def _after_how_many(unit: str) -> str:
    if unit in _TIMES:
        return _TIMES[-1]
    stem = next((stem for stem in sorted(_GENITIVES, key=len, reverse=True) if unit.startswith(stem)), "")
    return unit if unit in _WHOLE else _GENITIVES.get(stem, unit)


# ---------------------------------------------------------------- cloze


WORDS = range(6, 33)
"""Allowed numbers of words of a statement, and of the question made from it."""
LONGEST = 1_000
"""Most characters of a statement from which a question is made."""
_NAMES_A_PART = re.compile(
    r"(?:section|article|table|figure|page|chapter|version|appendix|annex|item|clause|class|type|tier|phase|step|no\.?|№|"
    r"розділ\w*|статт\w*|ст\.|п\.|пункт\w*|табл\w*|рис\w*|стор\w*|наказ\w*|від)\s*$",
    re.IGNORECASE,
)
_LEANS = re.compile(
    r"(?:this|that|these|those|it|they|he|she|such|however|therefore|also|thus|hence|then|there|here|moreover|"
    r"furthermore|additionally|finally|otherwise|instead|in addition|for example|e\.g\.|i\.e\.|note|see|figure|table|"
    r"both|if (?:it|they|this|that|so|not)|the (?:former|latter|above|following)|as (?:above|follows)|and|or|but|so|"
    r"це|цей|ця|ці|цим|цю|цього|цієї|цих|він|вона|воно|вони|його|її|їх|такий|така|таке|такі|таким|тому|також|крім|"
    r"однак|проте|при цьому|наприклад|див|отже|але|та|і|або|тоді|там|тут|обидва|рис|табл|зазначен\w*|останн\w*)\b",
    re.IGNORECASE,
)
"""Pattern of words at the start of a statement that refer to the statement before."""
_FRAGMENT = re.compile(
    r"(?:at least|at most|up to|over|more than|less than|about|approximately|minimum|maximum)\b", re.IGNORECASE
)
_FILLER = re.compile(
    r"(?:In summary|In general|In addition|Generally|Typically|Usually|Overall|Fortunately|First|Second|Third|Lastly|"
    r"Зазвичай|Як правило), (?=\w)"
)
_UKRAINIAN_VERB = re.compile(r"\b(?:є|\w{2,}(?:ть|ться|ти|тися|но|ано|ено|ла|ло|ли|вся|лася|лося|лися))\b")
_UNFIT = re.compile(r"https?:|www\.|@|\.{3}|…|_{2}|\t|[|<>≤≥=©\[\]{}?]|\b(?:tel|fax|тел|факс)\b", re.IGNORECASE)
_ONE_OF_TWO = re.compile(
    rf" ?(?:to|and|or|до|і|й|та|або|чи),? (?:about |up to |a |an |від |по )?{CURRENCY}?(?:{AMOUNT})"
)
_OTHER_OF_TWO = re.compile(
    rf"(?:\b(?:between|from|від|з|to|and|or|до|і|та|або|through)|\d\s?%?)\s{CURRENCY}?$", re.IGNORECASE
)
_KNOWN_ONES = re.compile(r"\b(?:the|some|these|those|both)\s$")
_ARE = re.compile(r"\b(?:is|are)\s$")
_ENOUGH = re.compile(
    r"[;:]| [–—-] |\. |, (?:and|but|while|although|though|otherwise|meaning|including|with|which|so|such as|the cost|"
    r"one of|or|а|але|причому|оскільки|проте|тоді|далі|при|після|що|залишок|та|і)\b"
    rf"| (?:and|і|та) {CURRENCY}?(?:{AMOUNT}|{IN_WORDS}\b)"
    r"| and (?:can|may|must|will|should|is|are|has|have|costs?)\b"
)
"""Pattern of places where the next clause begins."""
_GOES_ON = re.compile(
    r" \(| (?!(?:a|an|per|for|of|to|in|on|at|and|or|when|if|after|before|with|from|by|each|every|more|less|above|below|"
    r"until|towards?|as|under|over|within|during|where|unless|through|once|plus|because|than|без|в|у|на|за|до|від|з|"
    r"із|для|при|по|і|та|або|як)\b)[a-zа-яіїєґ]"
)
_LEAD = re.compile(
    r"(?P<lead>(?:If|When|For|After|Before|In|On|Where|Once|During|At|Under|From|Unless|Until)\b[^,;:]{6,120}), "
    r"(?P<main>.+)"
)
_AUXILIARY = r"is|are|was|were|may|must|can|will|should|shall"
_FRONTED = re.compile(
    rf"(?P<subject>[^,;:()]{{2,80}}?) (?P<verb>{_AUXILIARY}) (?P<middle>[^,;:()]{{0,80}}?)"
    r"(?P<preposition>\b(?:within|after|for|at|up to|by|every|in|until|on) )?\x00(?P<rest>.*)"
)
_JOINS = re.compile(
    rf"\b(?:who|which|that|where|whose|as|and|or|but|if|when|unless|because|while|than|not|least|most|more|less|fewer|"
    rf"about|around|approximately|typically|{_AUXILIARY})\b"
)
_SUBORDINATES = re.compile(r"\b(?:who|which|that|where|whose|but|if|when|unless|because|while)\b")
_DONE = re.compile(r"(?:\w+ly )?(?:\w+ed|held|set|paid|made|kept|given|sent|found|due)\b")
_LEFT_OVER = re.compile(r"\b(?:for|of|above|below|without|with|over|under|from|a|an|the|by|about|into|against)$")
_AMOUNT_IS = re.compile(r"(?P<subject>[^,;:()]{5,100}?) (?P<verb>становить|складає|дорівнює) \x00(?P<rest>[^,;:]*)")
_OF_WHAT = re.compile(r" (?:of|after|before|from|per|above|below|a)\b")
_LONGEST_OF = 9
"""Most words after an amount that move with it to the front of the question."""


@dataclass(frozen=True, slots=True)
class Cloze:
    """A question made from a statement, with its answer; `turned` is true if it has the word order of a question."""

    question: str
    answer: str
    turned: bool


def cloze(text: str, known: Collection[str]) -> Cloze | None:
    """Return the question of the first amount of a statement that can be asked for; return None if no amount can be.

    `known` holds lower-case words that also occur in the middle of sentences.
    """
    whole = " ".join(text.split())
    if len(whole) > LONGEST:
        return None
    statement = _FILLER.sub("", whole)
    if not whole[:1].isupper() or not _stands_alone(statement := statement[:1].upper() + statement[1:]):
        return None
    for match in QUANTITY.finditer(statement):
        before, after = statement[: match.start()], statement[match.end() :].rstrip(" .;:")
        if not _can_be_asked(match, before, after):
            continue
        asked, answer = asked_for(match, before)
        after = _up_to_open_bracket(_first_clause(after, match))
        if re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", f"{before} {after}", re.IGNORECASE):
            continue
        question, turned = _question(before, asked, after, known)
        return Cloze(question, answer, turned) if len(question.split()) in WORDS else None
    return None


def _first_clause(after: str, match: re.Match[str]) -> str:
    """Return the text after an amount, up to the next clause, or the comma before another amount of its kind."""
    other = next((other for other in QUANTITY.finditer(after) if kind_of(other) == kind_of(match)), None)
    if other and "," in after[: other.start()]:
        after = after[: after.rindex(",", 0, other.start())]
    ends = _ENOUGH.search(after)
    return after[: ends.start()] if ends else after


def _up_to_open_bracket(text: str) -> str:
    """Return the text up to its first bracket that is never closed."""
    return text[: text.rindex("(")].rstrip() if text.count("(") > text.count(")") else text


def _stands_alone(statement: str) -> bool:
    words = statement.split()
    letters = [letter for letter in statement if letter.isalpha()]
    return (
        len(words) in WORDS
        and statement[-1] == "."
        and sum(letter.isupper() for letter in letters) < len(letters) / 4
        and sum(character.isdigit() for character in statement) < len(statement) / 6
        and not _LEANS.match(statement)
        and not _FRAGMENT.match(statement)
        and not _UNFIT.search(statement)
        and (not is_cyrillic(statement) or bool(_UKRAINIAN_VERB.search(statement)))
    )


def _can_be_asked(match: re.Match[str], before: str, after: str) -> bool:
    """Say whether an amount is neither the name of a part (`section 4`), nor one of two amounts, nor inside a bracket
    or at the start of a longer noun."""
    return not (
        not before
        or _NAMES_A_PART.search(before)
        or _OTHER_OF_TWO.search(before)
        or _ONE_OF_TWO.match(after)
        or (match["count"] and _KNOWN_ONES.search(before))
        or (match["count"] and match["of"].isalpha() and _ARE.search(before))
        or (not match.group("count") and _GOES_ON.match(after))
        or before.count("(") > before.count(")")
        or "; " in before
        or ". " in before
    )


def _question(before: str, asked: str, after: str, known: Collection[str]) -> tuple[str, bool]:
    """Return (question, whether it has the word order of a question)."""
    lead = _LEAD.fullmatch(f"{before}\x00{after}")
    main = lead["main"] if lead and "\x00" in lead["main"] else f"{before}\x00{after}"
    ending = f" {_small(lead['lead'], known, lead=True)}" if lead and "\x00" in lead["main"] else ""
    amount = _AMOUNT_IS.fullmatch(main)
    if amount and asked.startswith("скільки"):
        subject = _small(amount["subject"], known)
        return _sentence(f"{asked} {amount['verb']} {subject}{amount['rest']}"), True
    turned = _FRONTED.fullmatch(main)
    if not turned or not _turns(turned):
        return _sentence(f"{before}{asked}{after}"), False
    rest, of_what = turned["rest"], ""
    if _OF_WHAT.match(rest) and not _SUBORDINATES.search(rest):
        rest, of_what = "", rest
    subject = _small(turned["subject"], known)
    clause = " ".join(f"{turned['verb']} {subject} {turned['middle']}".split())
    return _sentence(f"{turned['preposition'] or ''}{asked}{of_what} {clause}{rest}{ending}"), True


def _turns(parts: re.Match[str]) -> bool:
    """Say whether verb and subject may change places: the statement has one clause, and the amount is near its
    start."""
    middle, rest = parts["middle"].strip(), parts["rest"]
    if _JOINS.search(parts["subject"]) or _JOINS.search(middle) or _LEFT_OVER.search(middle):
        return False
    if parts["verb"] in ("is", "are", "was", "were") and middle and not _DONE.match(middle):
        return False
    return not (_OF_WHAT.match(rest) and len(rest.split()) > _LONGEST_OF)


_DETERMINERS = frozenset({"the", "a", "an", "all", "any", "both", "each", "every", "no", "some", "our", "their", "its"})


def _small(text: str, known: Collection[str], lead: bool = False) -> str:
    """Return the text as it is written in the middle of a sentence."""
    first = text.split(" ", 1)[0].lower()
    return text[0].lower() + text[1:] if lead or first in _DETERMINERS or first in known else text


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}?"
