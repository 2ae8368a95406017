"""The elements of a page that are not shown: its markup or its own style rules hide them, or they are struck out.

Style rules are read in one pass, and only unconditional ones are used: rules with one simple selector (a name, classes,
an id) that apply on a screen of any size. An element that another rule of the page shows again, such as a tab or a menu
that opens, is not hidden. Text for screen readers, and text hidden only from them (`aria-hidden`), is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from pipelines.parsing.hidden import DELETED, HiddenContent
from pipelines.parsing.symbol_fonts import is_symbol_font, symbol_text
from pipelines.records import TextRun

# ---------------------------------------------------------------- style declarations


_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|<!--|-->", re.DOTALL)
_UNITS = frozenset(("", "px", "pt", "em", "rem", "ex", "%", "in", "cm", "mm"))
_HEX = re.compile(r"#([0-9a-f]{3}|[0-9a-f]{6})")
_RGB = re.compile(r"rgba?\(\s*+(\d{1,3})[\s,]++(\d{1,3})[\s,]++(\d{1,3})[^)]*+\)")
_NAMED = {"white": "ffffff", "black": "000000", "snow": "fffafa", "ivory": "fffff0"}
WHITE = "ffffff"


def declarations(style: str) -> dict[str, str]:
    """Return the properties of a style attribute or rule, in lower case."""
    found = {}
    for part in style.lower().split(";"):
        name, colon, value = part.partition(":")
        if colon and value.strip():
            found[name.strip()] = value.replace("!important", "").strip()
    return found


_MOVING = ("transform", "transition", "animation", "will-change")


def hides(style: dict[str, str]) -> bool:
    """Say whether declarations hide an element with all its content. An animated element is not hidden, since it may
    appear later."""
    moves = any(name.startswith(_MOVING) for name in style)
    return (
        style.get("display") == "none"
        or style.get("mso-hide") == "all"
        or (_is_zero(style.get("opacity", "1")) and not moves)
    )


def _strikes(style: dict[str, str]) -> bool:
    """Say whether declarations strike out the text of an element; inner elements cannot undo this."""
    return "line-through" in style.get("text-decoration", "") or "line-through" in style.get("text-decoration-line", "")


def _is_zero(value: str) -> bool:
    return "0" in value and value.strip("+-.0") in _UNITS


def _fades(style: dict[str, str]) -> bool:
    """Say whether declarations hide the text of an element; inner elements may undo this."""
    return style.get("visibility") in ("hidden", "collapse") or _is_zero(style.get("font-size", "1"))


def _colour(value: str) -> str:
    """Return a colour as six hexadecimal digits, or "" if it is unknown."""
    value = value.strip().lower()
    if found := _HEX.fullmatch(value):
        return found[1] if len(found[1]) == 6 else "".join(char * 2 for char in found[1])
    if found := _RGB.fullmatch(value):
        return "".join(f"{min(255, int(part)):02x}" for part in found.groups())
    return _NAMED.get(value, "")


MOST_APART = 6
"""Largest difference (of 255) in red, green and blue between two colours that look the same."""


def _alike(colour: str, other: str) -> bool:
    """Say whether two known colours look the same."""
    if not colour or not other:
        return False
    return all(abs(int(colour[at : at + 2], 16) - int(other[at : at + 2], 16)) <= MOST_APART for at in (0, 2, 4))


# ---------------------------------------------------------------- font sizes


USUAL_SIZE = 16.0
"""Default size of letters in pixels."""
_SIZE = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,4})?)(px|pt|em|rem|%)?")
_PIXELS = {"px": 1.0, "pt": 4 / 3, "rem": USUAL_SIZE, "": 1.0}
_SIZE_NAMES = {
    "xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0, "x-large": 24.0, "xx-large": 32.0,
}  # fmt: skip
_FONT_SIZES = {"1": 10.0, "2": 13.0, "3": 16.0, "4": 18.0, "5": 24.0, "6": 32.0, "7": 48.0, "+1": 18.0, "+2": 24.0}


def font_size(element: Any, style: dict[str, str], outer: float) -> float:
    """Return the size of an element's letters in pixels."""
    if element.tag == "font" and element.get("size"):
        return _FONT_SIZES.get(element.get("size").strip(), outer)
    declared = style.get("font-size", "")
    if not (found := _SIZE.fullmatch(declared)):
        return _SIZE_NAMES.get(declared, outer)
    unit = found[2] or ""
    return float(found[1]) * (outer if unit == "em" else outer / 100 if unit == "%" else _PIXELS[unit])


# ---------------------------------------------------------------- style rules


@dataclass(frozen=True, slots=True)
class _Rule:
    """Declarations for elements of one name, id and set of classes; missing ones match all."""

    tag: str
    id: str
    classes: frozenset[str]
    style: dict[str, str]

    def matches(self, tag: str, id: str, classes: frozenset[str]) -> bool:
        return (not self.tag or self.tag == tag) and (not self.id or self.id == id) and self.classes <= classes


_NAME = re.compile(r"[.#]?(?:[\w-]|\\.)+|.", re.DOTALL)
_SELECTOR = re.compile(r"(?:[\w-]++|\*)?+(?:[.#](?:[\w-]|\\.)++)*+", re.ASCII)
_LAST = re.compile(r"[\s>+~]")
_PSEUDO = re.compile(r"(?<!\\)::?[\w-]++(?:\([^()]*+\))?+|\[[^\[\]]*+\]")
MOST_RULES, MOST_OF_A_NAME = 5_000, 50
"""Most style rules of a page that are kept: in all, and for one name, since each element checks all rules of its
names."""
_KEPT_NAMES = (
    "display visibility opacity font-size font-weight text-decoration color background background-color "
    "background-image text-decoration-line transform transition animation vertical-align font-family font mso-hide "
    "mso-outline-level mso-list"
)
_KEPT = frozenset(_KEPT_NAMES.split())


class Styles:
    """The style rules within a page, or within several pieces of one."""

    def __init__(self) -> None:
        self.rules: dict[str, list[_Rule]] = {}
        """Rules by their rarest name: an id, a class, or the name of an element."""
        self.count = 0
        self.shows: set[str] = set()
        """Classes and ids for which some rule shows an element, under any condition."""
        self.backgrounds: set[str] = set()
        """Classes, ids and element names for which some rule sets a background."""
        self.linked = False
        """True if rules from linked style sheets apply too."""

    def add(self, root: Any) -> None:
        for element in root.iter("style", "link"):
            if element.tag == "link":
                self.linked = self.linked or "stylesheet" in (element.get("rel") or "").lower()
            elif (element.get("media") or "all").strip().lower() in ("all", "screen", ""):
                self._read(element.text or "")

    def _read(self, text: str) -> None:
        self.linked = self.linked or "@import" in text
        for selectors, style, sure in _rules(_COMMENT.sub(" ", text)):
            found = {name: value for name, value in declarations(style).items() if name in _KEPT}
            if found:
                for selector in selectors.split(","):
                    self._keep(selector.strip(), found, sure)

    def _keep(self, selector: str, style: dict[str, str], sure: bool) -> None:
        names = [name.replace("\\", "") for name in _NAME.findall(_PSEUDO.sub("", _LAST.split(selector)[-1]))]
        if any(name.startswith("background") for name in style):
            self.backgrounds.update(names)
        shown = style.get("display", "none") != "none" or style.get("visibility") == "visible"
        if shown or ("opacity" in style and not _is_zero(style["opacity"])):
            self.shows.update(name for name in names if name[:1] in (".", "#"))
        if not sure or not names or not _SELECTOR.fullmatch(selector) or self.count >= MOST_RULES:
            return
        tag = names[0].lower() if names[0][0] not in ".#*" else ""
        id = next((name[1:] for name in names if name[0] == "#"), "")
        classes = frozenset(name[1:] for name in names if name[0] == ".")
        of_name = self.rules.setdefault(f"#{id}" if id else f".{min(classes)}" if classes else tag, [])
        if len(of_name) < MOST_OF_A_NAME:
            of_name.append(_Rule(tag, id, classes, style))
            self.count += 1

    def styles_of(self, element: Any) -> dict[str, str]:
        """Return the declarations for an element: those of rules in order, then its own."""
        own = element.get("style")
        if not self.count:
            return declarations(own) if own else {}
        id, classes = element.get("id") or "", frozenset((element.get("class") or "").split())
        style: dict[str, str] = {}
        for key in (element.tag, *(f".{name}" for name in sorted(classes)), f"#{id}"):
            for rule in self.rules.get(key, ()):
                if rule.matches(element.tag, id, classes):
                    style |= rule.style
        if style and not self.shows.isdisjoint((f"#{id}", *(f".{name}" for name in classes))):
            style = {name: value for name, value in style.items() if name not in ("display", "visibility", "opacity")}
        return style | declarations(own) if own else style

    def has_background(self, element: Any) -> bool:
        names = (element.tag, f"#{element.get('id')}", *(f".{name}" for name in (element.get("class") or "").split()))
        return not self.backgrounds.isdisjoint(names)


_CONDITIONS = ("@layer", "@supports", "@media all", "@media screen")
"""Beginnings of conditions that are true on every screen."""


def _rules(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield selectors and declarations, and whether they apply on every screen, outside of `@media` and similar
    conditions."""
    open_blocks: list[tuple[str, bool]] = []
    start = 0
    for found in re.finditer(r"[{};]", text):
        sign = found[0]
        if sign == "{":
            selectors = text[start : found.start()].strip()
            sure = open_blocks[-1][1] if open_blocks else True
            if selectors.startswith("@"):
                condition = " ".join(selectors.lower().split())
                sure = sure and condition.startswith(_CONDITIONS) and not (" and " in condition or "not " in condition)
                selectors = ""
            open_blocks.append((selectors, sure))
        elif sign == "}" and open_blocks:
            selectors, sure = open_blocks.pop()
            if selectors:
                yield selectors, text[start : found.start()], sure
        elif sign == ";" and open_blocks and open_blocks[-1][0]:
            continue  # within the declarations of a rule
        start = found.end()


# ---------------------------------------------------------------- hidden elements


STRUCK = frozenset(("del", "s", "strike"))
_UNSEEN = frozenset(("script", "style", "head", "title"))


class HiddenElements:
    """The hidden elements of one page, each outermost one once, and whether they are read.

    Styles of visible letters are recorded too: elements with raised or lowered letters are renamed to `sup` and `sub`,
    and symbol fonts are recorded for each element.
    """

    def __init__(self, root: Any, hidden: HiddenContent | None = None, styles: Styles | None = None) -> None:
        self.hidden = hidden or HiddenContent()
        self.styles = styles or Styles()
        self.styles.add(root)
        self._left_out: set[Any] = set()
        self._read: set[Any] = set()
        self._signs: dict[Any, str] = {}
        """Symbol fonts by the elements whose own text uses them."""
        self._judge(root)

    def leaves_out(self, element: Any) -> bool:
        return element in self._left_out

    def takes_no_place(self, element: Any) -> bool:
        """Say whether a hidden element leaves no gap at its position."""
        style = self.styles.styles_of(element)
        return style.get("display", "none" if element.get("hidden") is not None else "") == "none"

    def is_hidden(self, element: Any) -> bool:
        """Say whether an element is hidden but still read."""
        return element in self._read

    def left_out(self) -> Iterator[Any]:
        yield from self._left_out

    def holds_hidden(self, element: Any) -> bool:
        return bool(self._read) and any(part in self._read for part in element.iter("*"))

    def with_signs(self, run: TextRun, element: Any) -> TextRun:
        """Return a run of an element's own text; in a symbol font, its signs are converted to Unicode."""
        font = self._signs.get(element)
        # A space that no line may break at is one in any font.
        return replace(run, text=symbol_text(run.text.replace("\xa0", " "), font)) if font else run

    def _judge(self, root: Any) -> None:
        from lxml import etree

        inner = self._inner(root)
        ground = "" if self.styles.linked else WHITE
        open_elements: list[tuple[Any, str, bool, str]] = []
        events = etree.iterwalk(root, events=("start", "end"))
        for event, element in events:
            tag = element.tag if isinstance(element.tag, str) else ""
            if event == "end":
                if open_elements and open_elements[-1][0] is element:
                    open_elements.pop()
                continue
            if not tag or tag in _UNSEEN:
                events.skip_subtree()
                continue
            _, outer, in_hidden, font = open_elements[-1] if open_elements else (None, ground, False, "")
            style = self.styles.styles_of(element)
            font = _font(element, tag, style, font)
            if is_symbol_font(font):
                self._signs[element] = font
            if tag in _OF_LETTERS and (place := style.get("vertical-align")) in _RAISED:
                element.tag = _RAISED[place]
            background = self._background(element, style, outer)
            hidden = not in_hidden and self._is_hidden(element, tag, style, background, inner.get(element, 0))
            has_text = bool(inner.get(element, 0) & _TEXT)
            struck = not in_hidden and (tag in STRUCK or (_strikes(style) and tag not in ("html", "body")))
            twin = _is_drawing(element) or (hidden and _is_pictured(element))
            how = DELETED if struck and not hidden else "elements"
            hidden = hidden or struck
            read = hidden and not twin and (self.hidden.take(how) if has_text else self.hidden.read)
            if twin or (hidden and not read):
                self._left_out.add(element)
                events.skip_subtree()
                continue
            if read:
                self._read.add(element)
            open_elements.append((element, background, in_hidden or read, font))

    def _is_hidden(self, element: Any, tag: str, style: dict[str, str], background: str, undone: int) -> bool:
        if tag in ("html", "body"):  # a script shows it
            return False
        if element.get("hidden", "until-found") != "until-found" and style.get("display", "none") == "none":
            return True
        if tag == "template":
            return element.get("shadowrootmode") is None
        if tag in _INSTEAD or hides(style):
            return True
        if _fades(style) and not undone & (_SIZED if "visibility" not in style else _SEEN):
            return True
        colour = _colour(style.get("color") or element.get("color") or "")
        return _alike(colour, background) and not undone & _COLOURED

    def _background(self, element: Any, style: dict[str, str], outer: str) -> str:
        """Return the colour behind an element, or "" if it is unknown."""
        declared = style.get("background-color") or style.get("background") or element.get("bgcolor") or ""
        if declared in ("transparent", "none", "inherit", "initial"):
            return outer
        if style.get("background-image", "none") != "none" or element.get("background"):
            return ""
        if declared:
            return _colour(declared)
        return "" if self.styles.has_background(element) else outer

    def _inner(self, root: Any) -> dict[Any, int]:
        """Return, for each element, whether it contains text, and the style properties that could make a hidden
        element's text visible again."""
        found: dict[Any, int] = {}
        for element in reversed(list(root.iter("*"))):
            own = found.get(element, 0)
            if element.tag not in _UNSEEN and ((element.text or "").strip() or element.get("alt")):
                own = found[element] = own | _TEXT
            parent = element.getparent()
            if parent is None:
                continue
            style = self.styles.styles_of(element)
            own |= _TEXT * bool((element.tail or "").strip())
            own |= _SIZED * ("font-size" in style and not _is_zero(style["font-size"]))
            own |= _SEEN * (style.get("visibility") == "visible")
            own |= _COLOURED * ("color" in style or element.get("color") is not None)
            if own:
                found[parent] = found.get(parent, 0) | own
        return found


_SIZED, _SEEN, _COLOURED, _TEXT = 1, 2, 4, 8
_INSTEAD = frozenset(("noscript", "iframe", "object", "canvas", "audio", "video"))
"""Elements whose text is shown only if a browser does not support their content."""
_OF_LETTERS = frozenset(("span", "font", "small"))
"""Elements that only set the style of letters."""
_RAISED = {"super": "sup", "sub": "sub"}


def _font(element: Any, tag: str, style: dict[str, str], outer: str) -> str:
    """Return the first font of an element's letters."""
    families = style.get("font-family") or (element.get("face") if tag == "font" else "") or ""
    if not families:
        # The short form of all that is said of a font: the families follow the size.
        words = style.get("font", "")[:MOST_OF_A_FONT].split()
        families = " ".join(words[next((at for at, word in enumerate(words, 1) if word[0].isdigit()), len(words)) :])
    return families[:MOST_OF_A_FONT].split(",")[0].strip(" \"'") or outer


MOST_OF_A_FONT = 200
"""Most characters of font names that are read."""


def _is_drawing(element: Any) -> bool:
    """Say whether an element is the drawing of a formula that is also there as MathML: pages often have both forms."""
    if element.get("aria-hidden") != "true" or element.tag == "math":
        return False
    beside = (element.getprevious(), element.getnext())
    return any(
        next((part for part in islice(other.iter("*"), _MOST_AROUND) if part.tag == "math"), None) is not None
        for other in beside
        if other is not None
    )


def _is_pictured(element: Any) -> bool:
    """Say whether a hidden element is the MathML of a formula that an adjacent picture shows and describes."""
    picture = element.getnext()
    is_formula = len(element) == 1 and element[0].tag == "math" and not (element.text or "").strip()
    return is_formula and picture is not None and picture.tag == "img" and bool(picture.get("alt"))


_MOST_AROUND = 20
"""Most elements that are searched for the formula beside its drawing."""
