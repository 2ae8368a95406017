"""The number formats of spreadsheets: a cell's value as text, in the form that Excel shows.

Dates and times are an exception: they become ISO dates and 24-hour times, whatever their format. A format that hides
the value (`;;;`) gives an empty text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

_LONGEST = 255
"""Most characters of a format, as in Excel. A longer one could require thousands of decimals in every cell."""
_EXACT = Context(prec=1000, rounding=ROUND_HALF_UP)
"""Decimal context with enough digits for the largest number of a cell with the most decimals of a format."""
_MOST_DIGITS = 15
"""Significant digits of a number with a fraction in Excel."""


class _Token(NamedTuple):
    """A piece of a format. `kind` is literal, currency, digit, point, comma, percent, exponent, slash, text, general,
    date or elapsed."""

    kind: str
    text: str


_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*+)"?|\\(?P<escaped>.)|(?P<space>[_*].)|\[(?P<bracket>[^\]]*+)\]?|(?P<general>general)'
    r"|(?P<half>am/pm|a/p)|(?P<exponent>e[+-])|(?P<end>;)|(?P<plain>.)",
    re.DOTALL | re.IGNORECASE,
)
_PLAIN = {**dict.fromkeys("0#?", "digit"), ".": "point", ",": "comma", "%": "percent", "/": "slash", "@": "text"} | (
    dict.fromkeys("ymdhsYMDHS", "date")
)
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)\s*+([-+]?[0-9]{1,20}(?:\.[0-9]{0,20})?)")
_ELAPSED = re.compile(r"h++|m++|s++", re.IGNORECASE)
_COMPARE: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "<": lambda value, limit: value < limit,
    "<=": lambda value, limit: value <= limit,
    ">": lambda value, limit: value > limit,
    ">=": lambda value, limit: value >= limit,
    "=": lambda value, limit: value == limit,
    "<>": lambda value, limit: value != limit,
}
_CURRENCY = re.compile(r"[$€£¥₴₽₹₺₪₩₫₦₱₸₾]|zł|Kč")


@dataclass(frozen=True)
class _Section:
    """One of the parts of a format between semicolons, for numbers of one sign or for text."""

    tokens: tuple[_Token, ...]
    condition: tuple[str, Decimal] | None

    @cached_property
    def kinds(self) -> frozenset[str]:
        return frozenset(token.kind for token in self.tokens)

    @property
    def is_text(self) -> bool:
        return "text" in self.kinds and not self.kinds & {"digit", "date", "elapsed", "general"}

    @property
    def only_negatives(self) -> bool:
        """Say whether its own condition admits only negative numbers."""
        if self.condition is None:
            return False
        sign, limit = self.condition
        return (sign == "<" and limit <= 0) or (sign in ("<=", "=") and limit < 0)


def _sections(code: str) -> list[_Section]:
    sections: list[_Section] = []
    tokens: list[_Token] = []
    condition: tuple[str, Decimal] | None = None
    for found in _TOKEN.finditer(code):
        kind, text = found.lastgroup or "", found[found.lastgroup or 0]
        if kind == "end":
            sections.append(_Section(tuple(tokens), condition))
            tokens, condition = [], None
        elif kind in ("quoted", "escaped"):
            tokens.append(_Token("literal", text))
        elif kind == "bracket":
            if text.startswith("$"):
                tokens.append(_Token("currency", text[1:].partition("-")[0]))
            elif limit := _CONDITION.fullmatch(text.strip()):
                condition = limit[1], Decimal(limit[2])
            elif _ELAPSED.fullmatch(text):
                tokens.append(_Token("elapsed", text[0].lower()))
        elif kind == "half":
            tokens.append(_Token("date", text))
        elif kind == "plain":
            tokens.append(_Token(_PLAIN.get(text, "literal"), text))
        elif kind != "space":
            tokens.append(_Token(kind, text))
    return [*sections, _Section(tuple(tokens), condition)]


class NumberFormat:
    """A number format, parsed once and used for many cells. `from_1904`: day 0 is the first of 1904."""

    def __init__(self, pattern: str, from_1904: bool = False) -> None:
        from openpyxl.utils.datetime import MAC_EPOCH, WINDOWS_EPOCH

        self._epoch = MAC_EPOCH if from_1904 else WINDOWS_EPOCH
        pattern = pattern if 0 < len(pattern) <= _LONGEST else "General"
        self._is_general = pattern.lower() == "general"
        sections = _sections(pattern)[:4]
        self._for_text = next((section for section in sections if section.is_text), None)
        if self._for_text is None and len(sections) == 4:
            self._for_text = sections[3]
        self._for_numbers = [section for section in sections[:3] if section is not self._for_text]

    def text(self, value: str) -> str:
        """Return the text of a cell of text."""
        if self._for_text is None or self._for_text.kinds == {"text"}:
            return value
        return "".join(
            value if token.kind == "text" else token.text
            for token in self._for_text.tokens
            if token.kind in ("text", "literal", "currency")
        )

    def number(self, value: int | float) -> str:
        """Return the text of a number, or of a date, which is the number of days since the epoch.

        Raise ValueError or OverflowError if the number is not a valid date.
        """
        if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        if self._is_general:
            return _general(value)
        is_whole = isinstance(value, int) or value == int(value)
        exact = Decimal(repr(value)) if is_whole else Decimal(f"{value:.{_MOST_DIGITS}g}")
        section, positive = self._section(exact)
        if section is None:
            return _general(value)
        size = -value if positive and value < 0 else value
        if section.kinds & {"date", "elapsed"}:
            return self._date(size, section)
        if "general" in section.kinds or section.is_text:
            return "".join(_general(size) if t.kind in ("general", "text") else t.text for t in section.tokens).strip()
        written = _number(abs(exact), section.tokens)
        return _with_sign(written, section.tokens) if exact < 0 and not positive else "".join(written).strip()

    def _section(self, value: Decimal) -> tuple[_Section | None, bool]:
        """Return the section for a number, and whether it shows the number without its minus sign."""
        sections = self._for_numbers
        usual = not any(section.condition for section in sections)
        for at, section in enumerate(sections):
            if section.condition is not None:
                holds = _COMPARE[section.condition[0]](value, section.condition[1])
            elif len(sections) == 1 or at == 2:
                holds = True
            elif at == 0:
                holds = value > 0 or (value == 0 and len(sections) == 2)
            else:
                holds = value < 0 or len(sections) == 2
            if holds:
                return section, section.only_negatives or (usual and at == 1)
        return None, False

    def _date(self, value: int | float, section: _Section) -> str:
        from openpyxl.utils.datetime import from_excel

        unit = next((token.text for token in section.tokens if token.kind == "elapsed"), "")
        found = from_excel(value, self._epoch, timedelta=bool(unit))
        return _elapsed_text(found, unit) if isinstance(found, timedelta) else _moment(found)


def _moment(value: datetime | date | time) -> str:
    if isinstance(value, datetime):
        midnight = (value.hour, value.minute, value.second, value.microsecond) == (0, 0, 0, 0)
        form = "%Y-%m-%d %H:%M" + (":%S" if value.second else "")
        return value.date().isoformat() if midnight else value.strftime(form)
    if isinstance(value, time):
        return value.strftime("%H:%M:%S" if value.second else "%H:%M")
    return value.isoformat()


def _elapsed_text(value: timedelta, unit: str) -> str:
    """Return a duration as hours and minutes, with seconds if there are any; or, if its format says so, as minutes and
    seconds, or as seconds."""
    seconds = round(value.total_seconds())
    sign, seconds = "-" if seconds < 0 else "", abs(seconds)
    if unit == "s":
        return f"{sign}{seconds}"
    minutes, rest = divmod(seconds, 60)
    if unit == "m":
        return f"{sign}{minutes}:{rest:02}"
    return f"{sign}{minutes // 60}:{minutes % 60:02}" + (f":{rest:02}" if rest else "")


def _general(value: int | float) -> str:
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e15):
        return str(int(value))
    return f"{value:.10g}"


# ---------------------------------------------------------------- digits


_Written = tuple[str, str, str]
"""A number as text before its first digit, digits, and text after its last digit."""


def _with_sign(written: _Written, tokens: Sequence[_Token]) -> str:
    """Return a negative number. The minus sign goes before a currency, and between other words and the digits."""
    before, digits, after = written
    money = any(token.kind == "currency" for token in tokens) or _CURRENCY.search(before)
    return (f"-{before.lstrip()}{digits}{after}" if money else f"{before}-{digits}{after}").strip()


def _number(value: Decimal, tokens: Sequence[_Token]) -> _Written:
    """Return a number, 0 or more, in the form of one section."""
    kinds = [token.kind for token in tokens]
    if "digit" not in kinds:
        return "", "".join(token.text for token in tokens if token.kind in ("literal", "currency")), ""
    first, last = kinds.index("digit"), len(kinds) - 1 - kinds[::-1].index("digit")
    if "point" in kinds[:first]:
        first = kinds.index("point")
    value = _EXACT.scaleb(value, 2 * kinds.count("percent"))
    if "exponent" in kinds[first:last]:
        middle = _scientific(value, tokens[first : last + 1], first + kinds[first:].index("exponent") - first)
    elif "slash" in kinds[first:]:
        slash = first + kinds[first:].index("slash")
        middle, last = _fraction(value, tokens, first, slash)
    else:
        end = last + 1
        while end < len(tokens) and tokens[end].kind == "comma":
            end += 1
        middle = _decimal(value, tokens[first:end])
        last = end - 1
    before, after = _words(tokens[:first]), _words(tokens[last + 1 :])
    return before, middle if before or middle or after else "0", after


def _words(tokens: Sequence[_Token]) -> str:
    return "".join(
        "%" if token.kind == "percent" else token.text
        for token in tokens
        if token.kind in ("literal", "currency", "percent", "slash")
    )


def _decimal(value: Decimal, tokens: Sequence[_Token]) -> str:
    """Return digits at the places of the format, with the format's text between them: `000-0000` gives 555-0100."""
    kinds = [token.kind for token in tokens]
    point = kinds.index("point") if "point" in kinds else len(tokens)
    whole, decimals = list(tokens[:point]), list(tokens[point + 1 :])
    scale = 0
    for part in (whole, decimals):  # commas after the last digit divide by thousands
        while part and part[-1].kind == "comma":
            part.pop()
            scale += 3
    places = sum(token.kind == "digit" for token in decimals)
    rounded = _EXACT.quantize(_EXACT.scaleb(value, -scale), Decimal(1).scaleb(-places))
    digits, _, rest = f"{rounded:f}".partition(".")
    left = _lay_digits(digits.lstrip("0"), whole)
    right = _laid_right(rest, decimals)
    if right[:1].isdigit():
        return f"{left or 0}.{right}"
    return left + right


def _lay_digits(digits: str, tokens: Sequence[_Token]) -> str:
    """Return the digits before the point. The first place of the format takes all digits that have no own place."""
    first = next((at for at, token in enumerate(tokens) if token.kind == "digit"), -1)
    grouped = any(token.kind == "comma" for token in tokens[first + 1 :])
    written: list[str] = []
    left, count = len(digits), 0

    def put(digit: str) -> None:
        nonlocal count
        if grouped and count and count % 3 == 0:
            written.append(",")
        written.append(digit)
        count += 1

    for at in range(len(tokens) - 1, -1, -1):
        kind, text = tokens[at]
        if kind == "digit" and left:
            for _ in range(left if at == first else 1):
                left -= 1
                put(digits[left])
        elif kind == "digit" and text == "0":
            put("0")
        elif kind in ("literal", "currency", "percent"):
            written.append(text[::-1])
    return "".join(written)[::-1]


def _laid_right(digits: str, tokens: Sequence[_Token]) -> str:
    """Return the digits after the point, without final zeros that the format does not require."""
    places = [token.text for token in tokens if token.kind == "digit"]
    keep = len(digits.rstrip("0"))
    keep = max(keep, max((at + 1 for at, place in enumerate(places) if place == "0"), default=0))
    written, at = "", 0
    for kind, text in tokens:
        if kind == "digit":
            written += digits[at] if at < keep else ""
            at += 1
        elif kind in ("literal", "currency", "percent"):
            written += text
    return written


def _scientific(value: Decimal, tokens: Sequence[_Token], exponent: int) -> str:
    mantissa, power = tokens[:exponent], tokens[exponent + 1 :]
    kinds = [token.kind for token in mantissa]
    point = kinds.index("point") if "point" in kinds else len(kinds)
    step = max(1, kinds[:point].count("digit"))
    at = value.adjusted() // step * step if value else 0
    places = kinds[point:].count("digit")
    rounded = _EXACT.quantize(_EXACT.scaleb(value, -at), Decimal(1).scaleb(-places))
    if rounded >= Decimal(10) ** step:
        at += step
        rounded = _EXACT.scaleb(rounded, -step)
    sign = "-" if at < 0 else "+" if tokens[exponent].text.endswith("+") else ""
    least = sum(token.text == "0" for token in power if token.kind == "digit")
    return f"{_decimal(rounded, mantissa)}E{sign}{abs(at):0{max(least, 1)}}"


def _fraction(value: Decimal, tokens: Sequence[_Token], first: int, slash: int) -> tuple[str, int]:
    """Return a number as a fraction, and the last token of the fraction: 0.5 in `# ?/?` is 1/2, and 4/8 in `# ?/8`."""
    numerator = slash
    while numerator > first and tokens[numerator - 1].kind == "digit":
        numerator -= 1
    last = slash
    while last + 1 < len(tokens) and _is_denominator(tokens[last + 1]):
        last += 1
    below = "".join(token.text for token in tokens[slash + 1 : last + 1])
    fixed = int(below) if below.isdecimal() and below[0] != "0" and len(below) < 9 else 0
    exact = Fraction(value)
    found = Fraction(int(exact * fixed + Fraction(1, 2)), fixed) if fixed else exact
    found = found.limit_denominator(10 ** min(max(len(below), 1), 7) - 1) if not fixed else found
    whole = int(found) if any(token.kind == "digit" for token in tokens[first:numerator]) else None
    part = found - (whole or 0)
    shown = f"{int(part * fixed)}/{fixed}" if fixed else f"{part.numerator}/{part.denominator}"
    if whole is None:
        return shown, last
    asked = any(token.text == "0" for token in tokens[first:numerator] if token.kind == "digit")
    pieces = ([str(whole)] if whole or asked or not part else []) + ([shown] if part else [])
    return " ".join(pieces), last


def _is_denominator(token: _Token) -> bool:
    return token.kind == "digit" or (token.kind == "literal" and len(token.text) == 1 and token.text in "123456789")
