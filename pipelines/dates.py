"""The conversion of written dates to ISO form; ambiguous dates are not guessed. Also the first and last day of a
period."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            ("january", "jan", "січня", "січень"),
            ("february", "feb", "лютого", "лютий"),
            ("march", "mar", "березня", "березень"),
            ("april", "apr", "квітня", "квітень"),
            ("may", "травня", "травень"),
            ("june", "jun", "червня", "червень"),
            ("july", "jul", "липня", "липень"),
            ("august", "aug", "серпня", "серпень"),
            ("september", "sep", "sept", "вересня", "вересень"),
            ("october", "oct", "жовтня", "жовтень"),
            ("november", "nov", "листопада", "листопад"),
            ("december", "dec", "грудня", "грудень"),
        ),
        start=1,
    )
    for name in names
}
_PERIOD = re.compile(r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?)?")
_ISO = re.compile(r"(?:D:)?(\d{4})[-/.]?(\d{2})[-/.]?(\d{2})(?:$|[T ].*|\d{2,6}\D?.*)")
_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ].*)?")
_MONTH_ONLY = re.compile(r"(\d{4})[-/.](\d{1,2})")
_DAY_FIRST = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_SLASHED = re.compile(r"(\d{1,2})[/-](\d{1,2})[/-](\d{4})")
_DAY_MONTH = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?\.?\s+([^\W\d]+)\.?,?\s+(\d{4})(?:\s*(?:р\.?|року))?")
_MONTH_DAY = re.compile(r"([^\W\d]+)\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})")


def _parts(text: str) -> tuple[int, int, int] | None:
    for pattern in (_ISO, _YEAR_FIRST):
        if match := pattern.fullmatch(text):
            return int(match[1]), int(match[2]), int(match[3])
    if match := _MONTH_ONLY.fullmatch(text):
        return int(match[1]), int(match[2]), 1
    if match := _DAY_FIRST.fullmatch(text):
        return int(match[3]), int(match[2]), int(match[1])
    if match := _SLASHED.fullmatch(text):
        first, second = int(match[1]), int(match[2])
        if first != second and first <= 12 and second <= 12:
            return None
        return int(match[3]), min(first, second), max(first, second)
    if (match := _DAY_MONTH.fullmatch(text)) and match[2].lower() in MONTHS:
        return int(match[3]), MONTHS[match[2].lower()], int(match[1])
    if (match := _MONTH_DAY.fullmatch(text)) and match[1].lower() in MONTHS:
        return int(match[3]), MONTHS[match[1].lower()], int(match[2])
    return None


def iso_date(text: str) -> str | None:
    """Return `YYYY-MM-DD` from ISO dates and times, PDF dates, `3 March 2024`, `March 3, 2024`, `03.03.2024` (day
    first) and `2024-03` (its first day). Return None for a text that is not a date or is ambiguous, such as
    `03/04/2024`."""
    parts = _parts(" ".join(text.split()))
    if parts is None:
        return None
    try:
        return date(*parts).isoformat()
    except ValueError:
        return None


def period(text: str) -> tuple[date, date] | None:
    """Return the first and the last day of a day, month or year in ISO form; None for any other text."""
    found = _PERIOD.fullmatch(text)
    if found is None:
        return None
    year, month, day = found.groups()
    try:
        first = date(int(year), int(month or 1), int(day or 1))
    except ValueError:
        return None
    end = int(month or 12)
    return first, first.replace(month=end, day=int(day or monthrange(first.year, end)[1]))
