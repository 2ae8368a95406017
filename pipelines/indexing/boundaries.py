"""Places where a text may be cut: sentence ends by rule, then mild punctuation, then spaces.

The rules divide long paragraphs and sentences in every language. A full stop ends a sentence, except next to: a
lower-case word after it, an abbreviation, an initial or a clause number before it. If the rules cannot decide (`in the
U.S. Treasury`, `it was late. we left`), a model decides if one is available; otherwise the full stop does not end a
sentence.

The lists hold abbreviations in lower case, without the last full stop. Acronyms with full stops (`U.S.C`), initials and
short words that have only consonants (`Pvt`, `вул`) are recognised by their form, and are listed only to give them a
kind.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence

from pipelines.tokens import TokenIndex

# ---------------------------------------------------------------- abbreviations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


INTRODUCING = _words(
    """
    mr mrs ms messrs dr prof rev hon capt sgt gen maj lt col cmdr adm gov sen st mt p.o e.g i.e cf viz vs v approx ca
    incl fed civ crim evid stat supp cir r
    див напр проф акад доц ім т.ч в.о вул просп бул пров тов обл смт
    z.b d.h u.a bzw vgl ggf evtl insb inkl geb m mme mlle p.ex np tzn tj ul św inż mgr hab
    """
)
"""Abbreviations that come before a name or an example, so they never end a sentence."""

BEFORE_NUMBERS = _words(
    """
    no nos nr nrs art arts fig figs sec secs ch chap vol vols p pp par paras para cl reg ed tab table eq ref tel ext pub
    jan feb mar apr jun jul aug sep sept oct nov dec
    ст п пп ч гл розд рис мал іл табл том т вид с стор буд кв каб кім оф тел абз дод
    abs abb bd kap ziff jg s str nr rozdz poz ust
    """
)
"""Abbreviations that do not end a sentence before a number, or before a single letter used as a number."""

UNITS = _words(
    """
    kg g mg mcg ml l cl dl km m cm mm ft in lb lbs oz sq h hr hrs min mins sec secs s c f
    кг г мг мкг мл л км м см мм дм год хв сек с доб міс таб крап од р рр ст
    std sek stk mio eur zł
    """
)
"""Units of measure: after a number they end a sentence if a capital letter follows."""

CLOSING = _words("etc ін т.д т.п т.і н.е шт грн коп usw itd itp")
"""Abbreviations that end a list. They also end the sentence if a capital letter follows."""

NAMING = _words(
    """
    inc ltd co corp llc plc gmbh ag sa bros al jr sr esq ph.d m.d b.a m.a d.c a.m p.m est max min
    ave rd dept eds univ assn intl govt
    тис млн млрд лтд пвт ко корп ред зав нач гр кол сп
    ca zzgl resp tzn min
    """
)
"""Abbreviations that end a sentence only if the next word is one that usually begins a sentence."""

STARTERS = _words(
    """
    the this that these those it its he she they we you i there here a an in on at by for from to of with without if
    when while where as after before although though since because however moreover furthermore additionally therefore
    thus also but and or nor so such some any all each every both many most other another his her their our your my
    what which who why how please note once during under unless until according then now no not
    це цей ця ці та і й а але або чи у в з із зі за на при для якщо після проте однак тому він вона воно вони ми ви не
    як до від під час через крім таким коли де щоб оскільки хоча перед без над про по протягом їх його її такі так
    деякі слід можливо усі всі кожен кожний жоден ні також якого який яка тобто втім утім отже натомість зокрема
    der die das ein eine er sie es wir ich im am an auf aus bei mit nach von vor zu zum zur für wenn da dies diese
    dieser dieses aber und oder doch nicht auch wie was wer wo
    le la les un une il elle ils elles nous vous ce cette ces cet dans à au aux pour par sur avec mais et ou si quand
    to ten ta te ci w we z ze o od przy nie jest jeśli gdy oraz ale po el los las una en con del lo gli nel
    """
)
"""Words that usually begin a sentence, rather than a name, when written with a capital letter."""


_ABBREVIATIONS = INTRODUCING | BEFORE_NUMBERS | UNITS | CLOSING | NAMING


# ---------------------------------------------------------------- patterns


_CLOSERS = "\"'”’“«»‹›)\\]}」』）】"
_EMOJI = "\U0001f000-\U0001faff\u200d\ufe0f"
_END = re.compile(
    # A run of marks, closing quotes, references to notes, emoji; a French quote closes after a space.
    rf"(?<![.!?…।॥؟۔։።])[.!?…।॥؟۔։።။]++[{_CLOSERS}]*+(?:\[[\w ]{{1,24}}\])*+[²³¹⁰⁴-⁹]*+"
    rf"(?:[ \u00a0\u202f]»(?=\s|$))?(?:\s?[{_EMOJI}]++)*+(?=\s|$)"
    rf"|[。！？｡]++[{_CLOSERS}]*+"
    r"|(?<=\S)\n"
)
_SPACED_QUOTE = re.compile(r'\s"(?=\s|$)')
_WORD_BEFORE = re.compile(r"(?<![^\W_])(?:(?:[^\W\d_]\.[ \u00a0]?)+[^\W\d_]|[\w.]+)$")
_LONGEST_WORD, _LONGEST_LABEL = 24, 80
_NUMBER = re.compile(r"(?:\d{1,3}\.)*\d{1,3}[^\W\d_]?|[ivx]{1,5}|[IVXLC]{1,6}|\w")
_LABEL = re.compile(r"\w++\.? ++(?:\d{1,3}[^\W\d_]?(?:[.-]\d{1,3})*|[IVXLC]+)")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_CONSONANTS = re.compile(r"[b-df-hj-np-tv-xzбвгґджзйклмнпрстфхцчшщ]{2,5}")
_POSTAL_CODE = re.compile(r"\b\d{5}$")
_GERMAN_DATE = re.compile(r"\d{1,2}\. (?:Jan|Jän|Feb|März|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)")
_GERMAN_ORDINAL = re.compile(r"\b(?:der|die|das|dem|den|des|am|im|zum|zur|vom|beim|ab|bis|und) \d{1,2}$", re.IGNORECASE)
_ENUMERATOR = re.compile(r"\(?(?:\w|[ivx]{1,4}|\d{1,2})\)\s")
_NUMBERED = re.compile(r"\d{1,2}(?:\.\d{1,2}){0,15}\.\s++[^\W\d_]")
_OPENERS = re.compile(r"[\"'“”„«»‹›‘’(\[{¿¡*_…]*(?:[–—-]\s+[\"'“„«]?)?")
_FIRST_WORD = re.compile(r"[\w’'-]+")
_LETTERS = r"[^\W\d_]++(?:['’-][^\W\d_]++)*+"
_BARE_WORD_BEFORE = re.compile(rf"(?<!\S)[\"'“‘«(]?({_LETTERS})$")
_BARE_WORD = re.compile(rf"(?<!\S){_LETTERS}(?=[,;:!?]?(?:\s(?!/)|$)|\.$)")
_PLAIN_STOP = re.compile(r"(?:\.|[!?]++)\s++")
_NEVER_BEGIN = frozenset(",;:.!?)]}%")
_BEFORE_INITIALS = frozenset(" \u00a0\n-/(\"'“„«[")
_OPEN_LINES = (",", "–", "—", "-")
_MILD = re.compile(r"[;:,–—](?=\s)")
_SPACE = re.compile(r"\s+(?!(?<=\d\s)\d{3}(?!\d))")
_OPEN_END = re.compile(r"[\w,–—-]$")
_JOINERS = frozenset("\u200d\u2060")


# ---------------------------------------------------------------- sentences


def sentence_spans(text: str, model: Collection[int] = frozenset()) -> list[tuple[int, int]]:
    """Return the spans of the sentences of a text, trimmed, in order; they cover everything except space.

    `model` holds the sentence ends that a model found; they are used where the rules are unsure.
    """
    return trimmed_spans(text, [end for end, verdict in judge_ends(text, frozenset(model)) if verdict])


def doubtful(text: str) -> bool:
    """Say whether the text has a full stop that the rules cannot judge."""
    return any(verdict is None for _, verdict in judge_ends(text, frozenset()))


def judge_ends(text: str, model: frozenset[int]) -> Iterator[tuple[int, bool | None]]:
    """Yield every place where a sentence may end, and whether it ends there; None if neither the rules nor the model
    decide."""
    start = end = quotes = 0
    lowered = text.islower()
    for match in _END.finditer(text):
        quotes += text.count('"', end, match.end())
        mark, end = match.start(), match.end()
        if quotes % 2 and (quote := _SPACED_QUOTE.match(text, end)):
            end, quotes = quote.end(), 0
        after = end
        while after < len(text) and text[after].isspace():
            after += 1
        verdict = ends_sentence(text, mark, after, start, lowered)
        if verdict is None and not model.isdisjoint(range(mark + 1, after + 1)):
            verdict = True
        if verdict:
            start = after
        yield end, verdict


def ends_sentence(text: str, mark: int, after: int, start: int = 0, lowered: bool = False) -> bool | None:
    """Say whether the stop at `mark` ends the sentence that begins at `start`; return None if the rules cannot tell.

    The following text begins at `after`; its lower case is ignored if the whole text is `lowered`.
    """
    first = text[after : after + 1]
    if not first:
        return True
    if first in _NEVER_BEGIN:
        return False
    if not lowered and _goes_on(text, after):
        return None if _between_plain_words(text, mark, after, start) else False
    if text[mark] == "\n":
        return not text.endswith(_OPEN_LINES, start, mark)
    if text[mark] != "." or text[mark + 1] in ".!?…":
        return True
    found = _WORD_BEFORE.search(text, max(start, mark - _LONGEST_WORD), mark)
    return _word_ends(text, found.start(), mark, after, start, lowered) if found else True


def _goes_on(text: str, at: int) -> bool:
    """Say whether the first letter of the text at `at` shows that a sentence continues. `(a)` and `iPhone` do not show
    it."""
    if _ENUMERATOR.match(text, at):
        return False
    at = _OPENERS.match(text, at).end()  # type: ignore[union-attr]
    return text[at : at + 1].islower() and not text[at + 1 : at + 2].isupper()


def _between_plain_words(text: str, mark: int, after: int, start: int) -> bool:
    """Say whether a stop is between two words of lower-case letters, and the first word is not a known abbreviation or
    Roman number.

    Most stops in parts of addresses (`openreview. net/forum`) and after a space (`10 ft . apart`) do not end a
    sentence, so they are excluded.
    """
    following = _BARE_WORD.match(text, after) if _PLAIN_STOP.fullmatch(text, mark, after) else None
    found = _BARE_WORD_BEFORE.search(text, max(start, mark - _LONGEST_WORD), mark) if following else None
    if not following or not found or not (found.group(1) + following.group()).islower():
        return False
    word = found.group(1)
    return word not in _ABBREVIATIONS and not _is_abbreviation(word) and not _NUMBER.fullmatch(word)


def _word_ends(text: str, at: int, mark: int, after: int, start: int, lowered: bool) -> bool | None:
    """Say whether a sentence ends with the word at `at`, judged by its kind of abbreviation or number; return None if
    unknown."""
    word = text[at:mark].replace(" ", "").replace("\u00a0", "")
    low = word.casefold()
    begins = at - start < 3 and not text[start:at].strip(" (\t")
    labelled = mark - start <= _LONGEST_LABEL and _LABEL.fullmatch(text, start, mark)
    if (begins and _NUMBER.fullmatch(word)) or labelled:
        return False
    if word[-1].isdigit():
        return not _german_ordinal(text, at, mark, after)
    name = _FIRST_WORD.match(text, _OPENERS.match(text, after).end())  # type: ignore[union-attr]
    following = name.group() if name else ""
    if low in INTRODUCING or (low in BEFORE_NUMBERS and _numbers(following)):
        return False
    known = following.casefold() in STARTERS and text[name.end() : name.end() + 1] != "." if name else False
    begins = known if lowered else following[:1].isupper() or bool(_NUMBERED.match(text, after))
    if (low in UNITS and _measures(text, at)) or low in CLOSING:
        return begins
    acronym = _is_abbreviation(word) and (at == 0 or text[at - 1] in _BEFORE_INITIALS)
    if not acronym and low not in NAMING:
        return True
    if known or not begins:
        return begins
    return False if low in NAMING or (len(word) == 1 and word.islower()) else None


def _is_abbreviation(word: str) -> bool:
    """Say whether a word has the form of an abbreviation: initials and acronyms with stops, a single letter, and short
    words that have only consonants (`Pvt`, `вул`)."""
    return bool(_INITIALS.fullmatch(word)) or (bool(_CONSONANTS.fullmatch(word.lower())) and not word.isupper())


def _numbers(word: str) -> bool:
    """Say whether a word is a number, or a letter or Roman number used as a number."""
    return any(map(str.isdigit, word)) or bool(_NUMBER.fullmatch(word))


def _measures(text: str, at: int) -> bool:
    """Say whether a number or another unit comes before a unit, as in `5 мг/кг`. A postal code (`01001 м. Київ`) does
    not count."""
    before = text[max(0, at - 8) : at].rstrip()
    if before[-1:] in ("/", "°", "%"):
        return True
    return before[-1:].isdigit() and text[at].islower() and not _POSTAL_CODE.search(before)


def _german_ordinal(text: str, at: int, mark: int, after: int) -> bool:
    if _GERMAN_DATE.match(text, at):
        return True
    following = _FIRST_WORD.match(text, after)
    if not following or following.group().casefold() in STARTERS:
        return False
    return bool(_GERMAN_ORDINAL.search(text, max(0, at - 5), mark))


# ---------------------------------------------------------------- cuts


def continues(before: str, after: str) -> bool:
    """Say whether a block continues an unfinished sentence of the block before it."""
    return after[:1].islower() and bool(_OPEN_END.search(before))


def joins(text: str, at: int) -> bool:
    """Say whether a reader sees the characters on both sides of a position as one: a letter and its accents, or an
    emoji and its modifiers."""
    before, after = text[at - 1], text[at]
    if before.isascii() and after.isascii():
        return False
    modifier = "\U0001f3fb" <= after <= "\U0001f3ff"
    return modifier or before in _JOINERS or after in _JOINERS or unicodedata.category(after)[0] == "M"


def trimmed_spans(text: str, cuts: Iterable[int]) -> list[tuple[int, int]]:
    """Return the spans between cuts without surrounding spaces; leave out empty spans."""
    spans = []
    start = 0
    for end in [*cuts, len(text)]:
        left, right = start, end
        while left < right and text[left].isspace():
            left += 1
        while right > left and text[right - 1].isspace():
            right -= 1
        if left < right:
            spans.append((left, right))
        start = max(start, end)
    return spans


def cut_points(text: str) -> list[list[int]]:
    """Return the places where a text may be cut, best kind first: sentence ends, mild punctuation, spaces."""
    return [
        [end for _, end in sentence_spans(text)],
        [match.end() for match in _MILD.finditer(text)],
        [match.start() for match in _SPACE.finditer(text)],
    ]


# ---------------------------------------------------------------- dividing a long text


def divide(text: str, index: TokenIndex, target: int, ceiling: int) -> list[tuple[int, int]]:
    """Return spans that divide a text into even parts within the ceiling, and that cover everything except outer
    spaces."""
    kinds = [*cut_points(text), index.starts]
    spans = []
    start, end = 0, len(text)
    while index.count(start, end) > ceiling:
        remaining = index.count(start, end)
        goal = remaining / -(-remaining // target)
        cut = _best_cut(text, kinds, index, start, goal, ceiling)
        spans.append((start, cut))
        start = cut
    spans.append((start, end))
    return [strip(text, *span) for span in spans if text[span[0] : span[1]].strip()]


def _best_cut(
    text: str, kinds: Sequence[Sequence[int]], index: TokenIndex, start: int, goal: float, ceiling: int
) -> int:
    """Return the cut nearest to the goal, using the best kind that has a cut between half the goal and the ceiling."""
    first = bisect_left(index.starts, start)
    low = index.starts[first + max(1, int(goal / 2))]
    high = index.starts[first + ceiling] if first + ceiling < len(index.starts) else index.starts[-1]
    wanted = index.starts[first + round(goal)] if first + round(goal) < len(index.starts) else high
    for cuts in kinds:
        left, right = bisect_left(cuts, low), bisect_right(cuts, high)
        if left < right:
            place = bisect_left(cuts, wanted, left, right)
            near = [cuts[item] for item in (place - 1, place) if left <= item < right]
            found = min(near, key=lambda cut: (abs(cut - wanted), cut))
            while found > low and found < len(text) and joins(text, found):
                found -= 1
            return found
    return high


def strip(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
