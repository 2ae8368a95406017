"""Spreadsheet values as a person reads them in the cell."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from typing import Any

_LITERAL = re.compile(r'"([^"]*)"|\\(.)|_.|\*.|\[(?:\$([^\]-]*+))?[^\]]*+(?:\]|\Z)')
_DIGITS = re.compile(r"[#0?][#0?,]*(?:\.[#0?]*)?(?:[eE][+-]0+)?")
_CURRENCY = re.compile(r"[$€£¥₴₽₹]")
_LONGEST = 255
"""Characters of a format that Excel takes; decimals that a longer one asks for would be written for every cell."""


def shown(value: Any, number_format: str) -> str:
    """Dates as ISO, numbers with the decimals, grouping, percent and currency of their format."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime):
        midnight = (value.hour, value.minute, value.second, value.microsecond) == (0, 0, 0, 0)
        return (
            value.date().isoformat() if midnight else value.strftime("%Y-%m-%d %H:%M" + (":%S" if value.second else ""))
        )
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time):
        return value.strftime("%H:%M:%S" if value.second else "%H:%M")
    if isinstance(value, timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")
    if isinstance(value, (int, float)):
        return _number(value, number_format or "General")
    return str(value)


def _plain(value: int | float) -> str:
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e15):
        return str(int(value))
    return f"{value:.10g}"


def _number(value: int | float, number_format: str) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    sections = number_format.split(";")
    negative_section = value < 0 and len(sections) > 1 and sections[1].strip()
    section = sections[1] if negative_section else sections[0]
    if section.strip().lower() in ("general", "@", "") or len(number_format) > _LONGEST:
        return _plain(value)
    literals: list[str] = []

    def keep(match: re.Match[str]) -> str:
        literals.append(match[1] or match[2] or match[3] or "")
        return f"\x00{len(literals) - 1}\x01"

    pattern = _LITERAL.sub(keep, section)
    digits = _DIGITS.search(re.sub("\x00\\d+\x01", lambda m: " " * len(m.group()), pattern))
    if digits is None:
        return _plain(value)
    before, after = pattern[: digits.start()], pattern[digits.end() :]
    size = abs(value) if negative_section else value
    written = _digits(size * 100 if "%" in pattern else size, digits.group(), after)

    def literal(part: str) -> str:
        return re.sub("\x00(\\d+)\x01", lambda m: literals[int(m[1])], part.replace("?", "").lstrip(","))

    if written.startswith("-") and before.strip("\x00\x010123456789 ") == "" and _CURRENCY.search(literal(before)):
        return ("-" + literal(before) + written[1:] + literal(after)).strip()
    return (literal(before) + written + literal(after)).strip()


def _digits(value: int | float, pattern: str, after: str) -> str:
    if "e" in pattern.lower():
        places = len(re.split("[eE]", pattern)[0].partition(".")[2])
        return f"{value:.{places}E}"
    whole, _, decimals = pattern.partition(".")
    thousands = len(whole) - len(whole.rstrip(","))
    value = value / 1000**thousands if thousands else value
    least = decimals.count("0")
    text = f"{value:,.{len(decimals)}f}" if "," in whole.rstrip(",") else f"{value:.{len(decimals)}f}"
    if len(decimals) > least and "." in text:
        kept = text.rstrip("0")
        text = kept + "0" * max(0, least - len(kept.partition(".")[2]))
        text = text.rstrip(".")
    zeros = whole.replace(",", "").count("0")
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    head, dot, tail = digits.partition(".")
    return sign + head.rjust(zeros, "0") + dot + tail
