"""The headings among the blocks of a PDF, and the level of each.

A level comes from a tag or bookmark if the file has them, else from numbering, then from style. A heading belongs under
the nearest heading before it with a higher rank. Headings of one numbering scheme are siblings, and so are unnumbered
headings of one style.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pipelines.parsing.pdf.paragraphs import DocumentStyle, Draft, is_bullet

# ---------------------------------------------------------------- bookmarks


LEAST_LETTERS = 3
LONGEST_BOOKMARK = 400
MOST_BOOKMARK_LINES = 4
_SOLID = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Bookmark:
    """An entry of the outline; `level` and `page` are 1-based."""

    title: str
    level: int
    page: int


def _plain(text: str) -> str:
    return _SOLID.sub("", text.casefold())


def mark_bookmarked(drafts: list[Draft], bookmarks: Sequence[Bookmark]) -> dict[int, int]:
    """Map the position in `drafts` of each block that is the heading of a bookmark to its level in the outline.

    A block that begins with a heading of whole lines is split after them, in place.
    """
    wanted: dict[tuple[int, str], list[int]] = defaultdict(list)
    for mark in bookmarks:
        if sum(map(str.isalnum, mark.title)) >= LEAST_LETTERS:
            wanted[mark.page, _plain(mark.title)].append(mark.level)
    levels: dict[int, int] = {}
    at = 0
    while wanted and at < len(drafts):
        draft = drafts[at]
        if draft.lines and draft.kind in ("paragraph", "list_item") and draft.confidence == 1:
            for count, title in _beginnings(draft):
                found = wanted.get((draft.lines[0].page, title))
                if not found:
                    continue
                levels[at] = found.pop(0)
                if count < len(draft.lines):
                    drafts.insert(at + 1, replace(draft, kind="paragraph", lines=draft.lines[count:], gap=1.0))
                    draft.lines = draft.lines[:count]
                break
        at += 1
    return levels


def _beginnings(draft: Draft) -> Iterator[tuple[int, str]]:
    """Yield the possible titles at the start of the block: its first one to four lines, with and without their
    number."""
    text = ""
    for count, line in enumerate(draft.lines[:MOST_BOOKMARK_LINES], 1):
        text += _plain(line.text)
        if len(text) > LONGEST_BOOKMARK:
            return
        yield count, text
        bare = text.lstrip("0123456789")
        if bare != text:
            yield count, bare


# ---------------------------------------------------------------- numbering
#
# Headings begin with numbers and words such as `ITEM 7`, `Article 4`, `Розділ II`, `3.2`, `IV.`, `A.`


NUMBERED = re.compile(r"((?:\d{1,2}\.)+\d{0,2}\.?|\d{1,2})\s+(?=[^\W\d_])")
_ROMAN = re.compile(r"(?=[IVXІХ])[IVXLCІХ]{1,6}[.)]\s+(?=[^\W\d_])")
_LETTER = re.compile(r"[A-ZА-ЯІЇЄҐ][.)]\s+(?=[^\W\d_])")
_KEYWORDS = (
    ("part", "частина", "книга", "часть", "teil", "partie", "parte", "część"),
    (
        *("chapter", "розділ", "annex", "appendix", "schedule", "exhibit", "додаток", "раздел", "приложение"),
        *("kapitel", "anlage", "anhang", "chapitre", "annexe", "capítulo", "capitolo", "anexo", "allegato", "rozdział"),
    ),
    ("section", "глава", "item", "підрозділ", "abschnitt", "sección", "sezione", "seção", "oddział"),
    (
        *("article", "стаття", "note", "примітка", "статья", "примечание", "artikel", "artículo", "articolo"),
        *("artigo", "artykuł", "paragraf", "§"),
    ),
)
"""Words that begin headings, from the outermost level down, in the usual order of statutes, filings and contracts."""
_RANKS = {word: rank for rank, words in enumerate(_KEYWORDS) for word in words}
_NUMBER = r"(?:№\s*)?(?:\d+[a-z]?(?:[.\-–]\d+)*|(?-i:[IVXLCІХ]+|[A-ZА-ЯІЇЄҐ]))"
KEYWORD = re.compile(rf"({'|'.join(_RANKS)})(?:\s+|(?<=§))({_NUMBER})\b[.:]?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HeadingNumber:
    """The number a heading begins with. `kind` names the scheme (`decimal`, `roman`, `letter`, or a word such as
    `item`); `depth` is the count of a decimal number's parts, else 1; `number` is as written, without its last mark."""

    kind: str
    depth: int
    number: str


def numbering_of(text: str) -> HeadingNumber | None:
    """Return the number at the beginning of a heading, or None."""
    keyword = KEYWORD.match(text)
    if keyword:
        return HeadingNumber(keyword[1].lower(), 1, keyword[2].lower())
    decimal = NUMBERED.match(text)
    if decimal:
        parts = re.findall(r"\d+", decimal[1])
        return HeadingNumber("decimal", len(parts), ".".join(parts))
    for kind, pattern in (("roman", _ROMAN), ("letter", _LETTER)):
        match = pattern.match(text)
        if match:
            return HeadingNumber(kind, 1, match.group().strip(" .)"))
    return None


_SCHEMES = {"roman": 4, "letter": 5, "decimal": 6}
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_LATIN = str.maketrans("ІХ", "IX")
LEAST_COUNTED = 3
LEAST_BELOW = 100
"""Fewest characters of the paragraph below a numbered line for the line to be its heading."""


def order(numbering: HeadingNumber) -> int:
    """Return the rank of a numbering; the smaller one is the outer level if nothing else decides."""
    return _RANKS.get(numbering.kind, _SCHEMES.get(numbering.kind, 9)) + (numbering.depth - 1)


# ---------------------------------------------------------------- levels


DEEPEST = 6
SAME_SIZE = 0.6
SAME_SHARE = 0.06
MUCH_LARGER = 1.25


@dataclass(frozen=True, slots=True)
class _Rank:
    size: float
    weight: int
    numbering: HeadingNumber | None

    def outranks(self, other: _Rank) -> bool:
        """Say whether `other`, following this heading, belongs under it."""
        mine, theirs = self.numbering, other.numbering
        if mine and theirs:
            if mine.kind == theirs.kind:
                return mine.depth < theirs.depth
            if not self._much_smaller(other):
                return order(mine) < order(theirs) or self._larger(other)
        if self._larger(other):
            return True
        if other._larger(self) or self.weight != other.weight:
            return not other._larger(self) and self.weight > other.weight
        return bool(mine and not theirs and mine.kind not in ("decimal", "letter"))

    def is_sibling(self, other: _Rank) -> bool:
        mine, theirs = self.numbering, other.numbering
        if mine and theirs:
            return mine.kind == theirs.kind and mine.depth == theirs.depth
        same_style = not self._larger(other) and not other._larger(self) and self.weight == other.weight
        return same_style and mine is None and theirs is None

    def _larger(self, other: _Rank) -> bool:
        return self.size > other.size + max(SAME_SIZE, SAME_SHARE * other.size)

    def _much_smaller(self, other: _Rank) -> bool:
        return other.size > MUCH_LARGER * self.size


def _rank(draft: Draft, style: DocumentStyle) -> _Rank:
    """Return the rank of a heading. On a page that is set throughout in another size, its size counts relative to that
    size."""
    bold = all(line.bold for line in draft.lines)
    italic = all(line.italic for line in draft.lines)
    letters = [char for char in draft.text if char.isalpha()]
    capitals = len(letters) > 3 and not any(char.islower() for char in letters)
    # The line `Chapter 2` may be set smaller than the title that it is joined with.
    size = max(line.size for line in draft.lines) * style.size / style.size_on(draft.lines[0].page)
    return _Rank(size, 4 * bold + 2 * capitals - italic, numbering_of(draft.text))


def _title(headings: Sequence[Draft], ranks: Sequence[_Rank], opens: bool) -> str | None:
    """Return the text of the document's title: the opening heading, if no other heading has its style."""
    if not (ranks and opens) or ranks[0].numbering or any(rank.is_sibling(ranks[0]) for rank in ranks[1:]):
        return None
    return headings[0].text.casefold()


def give_levels(headings: Sequence[Draft], style: DocumentStyle, opens: bool = False) -> None:
    """Fill in the missing levels, in place. `opens` says that hardly any text precedes the first heading."""
    above: list[tuple[_Rank, int]] = []
    ranks = [_rank(draft, style) for draft in headings]
    title = _title(headings, ranks, opens)
    for draft, rank in zip(headings, ranks, strict=True):
        if draft.text.casefold() == title:
            rank = replace(ranks[0], size=float("inf"))
        if draft.level is not None:
            while above and above[-1][1] >= draft.level:
                above.pop()
        else:
            _close(above, rank)
            draft.level = min(DEEPEST, above[-1][1] + 1 if above else 1)
        above.append((rank, draft.level))


def _close(above: list[tuple[_Rank, int]], rank: _Rank) -> None:
    """Remove the headings under which a heading of this rank does not belong."""
    sibling = next((at for at in range(len(above) - 1, -1, -1) if above[at][0].is_sibling(rank)), None)
    if sibling is not None and not any(rank.outranks(other) for other, _ in above[:sibling]):
        del above[sibling:]
        return
    while above and not above[-1][0].outranks(rank):
        above.pop()


# ---------------------------------------------------------------- which blocks are headings


LONGEST_HEADING = 200
SMALLEST = 0.95
LEAST_TAGGED = 1 / 3
"""Tagged headings for each page from which the file's tags are trusted and no other headings are searched."""
LEAST_RUN = 3
LONGEST_BEFORE_TITLE = 60
LEAST_OUTLINED = 0.5
"""Least share of the headings that an outline must name to decide levels: many outlines are leftovers of styles."""
_MONTH = (
    "jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?|"
    "dec(ember)?|січ(ня|ень)|лют(ого|ий)|берез(ня|ень)|квіт(ня|ень)|трав(ня|ень)|черв(ня|ень)|лип(ня|ень)|"
    "серп(ня|ень)|верес(ня|ень)|жовт(ня|ень)|листопада?|груд(ня|ень)"
)
NEVER = re.compile(
    rf"[\W\d_]*|(as of |as at |dated? |станом на |від )?({_MONTH})\.?(\s+\d{{1,2}})?,?(\s+\d{{4}})?"
    rf"|(станом на |від |на )?\d{{1,2}}(st|nd|rd|th)?\s+({_MONTH})\s*+,?(\s*+\d{{4}})?(\s*(року|р\.?))?"
    r"|((for the )?(fiscal )?(years?|quarters?|(three|six|nine|twelve) months) ended\b.{0,40})"
    r"|\(?\s*(all (figures|amounts) |amounts |dollars? |u\.?s\.? dollars |\$ |€ |£ )*"
    r"(are |expressed |stated |presented |shown )*in (thousands|millions|billions)\b.{0,60}"
    r"|\(?(у |в )?(тис|млн|млрд)\.? ?грн\.?\)?"
    r"|.*[\w.+-]@[\w-]++\.\w++|https?://\S+|page \d+( of \d+)?|стор(інка|\.) \d+",
    re.IGNORECASE,
)
"""Pattern of texts that are never headings although they look like one: dates, periods, units, addresses and page
numbers."""
_BARE_NUMBER = re.compile(r"(chapter|part|розділ|глава)?\s*\d{1,2}\.?", re.IGNORECASE)
_TAGGED = re.compile(r"H([1-6])$")
_NO_HEADING_END = (",", ";", "-", "–", "—")


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text))


def _is_title_like(text: str) -> bool:
    """Say whether a text is short, begins like a title, and does not end like a sentence."""
    if not _letters(text) >= 2 or len(text) > LONGEST_HEADING or text.rstrip().endswith(_NO_HEADING_END):
        return False
    first = next(char for char in text if char.isalpha())
    return not first.islower() or bool(NUMBERED.match(text))


def _is_sentence(text: str) -> bool:
    return text.rstrip().endswith((".", "!", "…")) and len(text.split()) > 3


def _by_style(draft: Draft, style: DocumentStyle) -> bool:
    """Say whether a block is larger than the running text, or is bold in a document of plain text."""
    text, lines, size = draft.text, draft.lines, style.size_on(draft.lines[0].page)
    if len(lines) > 4 or not _is_title_like(text):
        return False
    if draft.size >= 1.08 * size + 0.3:
        return not (_is_sentence(text) and len(text) > 100)
    bold = all(line.bold for line in lines) and not style.bold
    return bold and draft.size >= SMALLEST * size and len(lines) <= 2 and len(text) <= 120 and not _is_sentence(text)


def _by_number(draft: Draft, following: Draft | None) -> bool:
    """Say whether a block is a number and a short title on a line of its own, or begins like `Article 5`. A number of
    one part may also begin a list item, unless the block below has its first subnumber."""
    text = draft.text
    if len(draft.lines) > 2 or len(text) > 100 or not _is_title_like(text) or text.rstrip().endswith((".", ":", "?")):
        return False
    keyword = KEYWORD.match(text)
    if keyword:
        rest = text[keyword.end() :].lstrip()
        return draft.gap > 1.2 and len(text.split()) <= 14 and not rest[:1].islower()
    numbering = numbering_of(text)
    if numbering is None or draft.gap <= 1.2 or following is None or len(text.split()) > 10:
        return False
    if numbering.depth < 2:
        inner = numbering_of(following.text)
        return inner is not None and numbering.kind == inner.kind and inner.number == f"{numbering.number}.1"
    return following.kind in ("paragraph", "list_item", "table")


def _counting_lines(drafts: Sequence[Draft]) -> set[int]:
    """Return the indexes of short numbered lines that count the sections of a text: 1, 2, 3, each above a paragraph.
    List items follow each other and are sentences, so they do not count."""
    found: set[int] = set()
    run: list[tuple[int, HeadingNumber]] = []
    for at, (draft, following) in enumerate(pairwise(drafts)):
        numbering = numbering_of(draft.text) if _may_count(draft, following) else None
        if numbering is None or numbering.depth > 1 or numbering.kind not in _SCHEMES:
            continue
        if run and (numbering.kind != run[-1][1].kind or _value(numbering) != _value(run[-1][1]) + 1):
            run = []
        run.append((at, numbering))
        if len(run) >= LEAST_COUNTED:
            found.update(position for position, _ in run[-LEAST_COUNTED:])
    return found


def _may_count(draft: Draft, following: Draft) -> bool:
    text = draft.text.rstrip()
    if draft.drawn or draft.kind not in ("paragraph", "list_item") or len(draft.lines) != 1 or draft.gap <= 1.2:
        return False
    if len(text) > 80 or len(text.split()) > 10 or text[-1:] in ".:?!" or not _is_title_like(text):
        return False
    return following.kind == "paragraph" and len(following.text) >= LEAST_BELOW


def _value(numbering: HeadingNumber) -> int:
    """Return the position of a one-part number in its sequence."""
    text = numbering.number.translate(_LATIN).upper()
    if numbering.kind == "roman":
        values = [_ROMAN_VALUES[char] for char in text]
        return sum(-v if v < max(values[at + 1 :], default=0) else v for at, v in enumerate(values))
    return int(text) if text.isdecimal() else ord(text[0])


def _by_space(draft: Draft, following: Draft | None, usual_gap: float) -> bool:
    """Say whether a block is a few words on one line with clearly more space above it than paragraphs have."""
    text = draft.text.rstrip()
    if len(draft.lines) != 1 or len(text) > 60 or len(text.split()) > 7 or not _is_title_like(text):
        return False
    if following is None or following.kind not in ("paragraph", "list_item", "table") or following.gap == float("inf"):
        return False
    if re.search(r"[.!?]\s|\d\D+\d", text) or text.count("(") != text.count(")"):
        return False
    apart = 1.35 * usual_gap < draft.gap < float("inf") and following.gap <= 1.1 * usual_gap
    return apart and not re.search(r"\d{3}|@|https?:", text) and draft.lines[0].x1 < 0.7 * draft.lines[0].right


def _by_shape(draft: Draft, following: Draft | None) -> bool:
    """Say whether a block is a short paragraph in title case without an end mark, before a long paragraph."""
    text = draft.text.strip()
    words = text.split()
    if len(draft.lines) != 1 or len(text) > 70 or not 1 <= len(words) <= 9 or not _is_title_like(text):
        return False
    if draft.gap < 1.2 or following is None or following.kind != "paragraph" or len(following.text) < 100:
        return False
    if text[-1] in ".!:)" or re.search(r"\d|[@/]", text) or following.gap == float("inf"):
        return False
    long = [word for word in words if len(word) > 3 and word[0].isalpha()]
    return bool(long) and sum(word[0].isupper() for word in long) >= 0.8 * len(long) and words[0][0].isupper()


def _stands_out(draft: Draft, style: DocumentStyle) -> bool:
    """Say whether a block may be a heading although it has neither number nor style: it is not a list item, and not
    smaller than running text. Text in figures is often smaller."""
    return not draft.marker and draft.size >= SMALLEST * style.size_on(draft.lines[0].page)


def _usual_gap(drafts: Sequence[Draft]) -> float:
    gaps = sorted(d.gap for d in drafts if d.kind in ("paragraph", "list_item") and d.gap < 8)
    return max(gaps[len(gaps) // 2], 1.3) if gaps else 1.5


def mark_headings(drafts: list[Draft], style: DocumentStyle, bookmarks: Sequence[Bookmark] = ()) -> None:
    """Turn drafts into headings in place, then give them levels. A block is split if only its first lines are the
    heading of a bookmark."""
    outlined = mark_bookmarked(drafts, bookmarks)
    usual = _usual_gap(drafts)
    tagged = _is_tagged(drafts)
    counted = set() if tagged else _counting_lines(drafts)
    for at, (draft, following) in enumerate(zip(drafts, [*drafts[1:], None], strict=False)):
        if draft.kind not in ("paragraph", "list_item") or not draft.lines or draft.confidence < 1:
            continue
        tag = _TAGGED.match(draft.lines[0].tag or "")
        if tag and not is_bulleted(draft) and _letters(draft.text) and len(draft.text) <= 2 * LONGEST_HEADING:
            draft.kind, draft.level = "heading", int(tag[1])
        elif at in outlined or at in counted or (not tagged and _looks_like_heading(draft, following, style, usual)):
            draft.kind = "heading"
    _join_parts(drafts, outlined)
    _unmark_runs(drafts, outlined)
    headings = [(at, draft) for at, draft in enumerate(drafts) if draft.kind == "heading"]
    if len(outlined) >= LEAST_OUTLINED * len(headings):
        for at, draft in headings:
            draft.level = draft.level or outlined.get(at)
    before = drafts[: headings[0][0]] if headings else drafts
    opens = sum(len(line.text) for draft in before for line in draft.lines) <= LONGEST_BEFORE_TITLE
    give_levels([draft for _, draft in headings], style, opens and not any(draft.cells for draft in before))


def _is_tagged(drafts: Sequence[Draft]) -> bool:
    """Say whether the file itself tags headings on most of its pages."""
    found = [draft.lines[0] for draft in drafts if draft.lines]
    tags = sum(_TAGGED.match(line.tag or "") is not None for line in found)
    return tags >= LEAST_TAGGED * len({line.page for line in found})


def is_bulleted(draft: Draft) -> bool:
    return draft.marker is not None and is_bullet(draft.marker)


def _looks_like_heading(draft: Draft, following: Draft | None, style: DocumentStyle, usual: float) -> bool:
    text = draft.text.strip()
    if draft.drawn or len(text) > LONGEST_HEADING or is_bulleted(draft) or NEVER.fullmatch(text):
        return False
    if _by_style(draft, style) or _by_number(draft, following):
        return True
    if not _stands_out(draft, style):
        return False
    return _by_shape(draft, following) or _by_space(draft, following, usual)


def _unmark_runs(drafts: Sequence[Draft], outlined: Container[int]) -> None:
    """Unmark headings of one style that follow each other with no text between them: they are lines of a cover or a
    list."""
    run: list[Draft] = []
    for at, draft in enumerate([*drafts, None]):
        own = draft is not None and draft.kind == "heading" and draft.level is None and at not in outlined
        same = own and draft is not None and numbering_of(draft.text) is None
        if draft is not None and same and (not run or _alike(run[-1], draft)):
            run.append(draft)
            continue
        if draft is not None and not draft.lines and not draft.cells:
            continue
        if len(run) >= LEAST_RUN:
            for other in run:
                other.kind = "paragraph"
        run = [draft] if draft is not None and same else []


def _alike(a: Draft, b: Draft) -> bool:
    first, second = a.lines[0], b.lines[0]
    return first.page == second.page and abs(first.size - second.size) < 0.3 and first.bold == second.bold


def _join_parts(drafts: Sequence[Draft], outlined: Container[int]) -> None:
    """Join a number that is separate from its title with that title. The number's draft is emptied as a mark."""
    for at, (first, second) in enumerate(pairwise(drafts)):
        if not first.lines or second.kind != "heading" or second.lines[0].page != first.lines[0].page:
            continue
        if second.gap < 3 and not (at in outlined and at + 1 in outlined) and _is_number_of(first, second):
            second.lines[:0] = first.lines
            second.level = second.level or first.level
            first.kind, first.level = "paragraph", None
            first.lines.clear()


def _is_number_of(first: Draft, second: Draft) -> bool:
    """Say whether a block is the number of the heading below it, not a heading above that one: a chapter above its
    first section is larger, or the section has its own number."""
    bare = _BARE_NUMBER.fullmatch(first.text.strip())
    if bare is None or numbering_of(second.text) is not None:
        return False
    # A digit smaller than the title may be a note or a page number, but `Chapter 2` names what is set larger below it.
    if bare[1] is None and first.size < second.size - 0.1:
        return False
    if None not in (first.level, second.level) and first.level != second.level:
        return False
    return bare[1] is None or first.size <= second.size + SAME_SIZE
