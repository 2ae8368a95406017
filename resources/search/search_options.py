"""The options of a search, and their conversion from the texts of a command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Literal, cast

from pipelines.dates import period
from pipelines.errors import UsageError
from pipelines.groups import group_names
from pipelines.ports import Comparison, Filters
from pipelines.settings.query import FILTERS, HITS, LABEL

Sign = Literal["=", ">=", "<=", ">", "<"]
_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?")
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Options for the best `k` hits that pass `filters`. None means the strategy and the rerankers of the settings, and
    the live generation."""

    k: int = HITS
    strategy: str | None = None
    rerank: tuple[str, ...] | None = None
    filters: Filters = field(default_factory=Filters)
    generation: int | None = None

    @classmethod
    def from_texts(
        cls,
        k: int = HITS,
        strategy: str | None = None,
        rerank: str | Sequence[str] | None = None,
        filters: Sequence[str] = (),
        groups: Sequence[str] = (),
        generation: int | None = None,
    ) -> SearchOptions:
        """Return options from the forms of commands and `Index`: rerankers also as one string with commas, filters as
        texts, and the asker's groups.

        Raise UsageError for a wrong form.
        """
        return cls(k, strategy, rerankers_from(rerank), filters_from(filters, groups), generation)


def filters_from(filters: Sequence[str], groups: Sequence[str]) -> Filters:
    """Return filters from texts such as `KEY=VALUE` or `KEY>=VALUE`. Several equal values of a key are alternatives;
    all bounds must be met.

    `date` is a document's date, and `from=` and `to=` are its bounds. Raise UsageError for a wrong form.
    """
    equal: dict[str, tuple[str, ...]] = {}
    compared: list[Comparison] = []
    first: list[str] = []
    last: list[str] = []
    day = ""
    for argument in filters:
        key, sign, value = _parts(argument)
        if key in ("date", "from", "to"):
            if (key, sign) == ("date", "="):
                if day not in ("", value):
                    raise UsageError(f"--filter {argument!r}: date= is given twice; write date>=DATE and date<=DATE")
                day = value
            begin, end = _dates(argument, key, sign, value)
            first += [begin.isoformat()] if begin else []
            last += [end.isoformat()] if end else []
        elif sign == "=":
            equal[key] = (*equal.get(key, ()), value)
        else:
            compared.append(_comparison(argument, key, sign, value))
    return Filters(equal, max(first, default=None), min(last, default=None), asked_groups(groups), tuple(compared))


def _parts(argument: str) -> tuple[str, Sign, str]:
    """Return key, sign and value. A label may contain any sign except a first `=`; a value may contain any sign."""
    signs = "=" if argument.startswith(LABEL) else "<>="
    at = next((at for at, character in enumerate(argument) if character in signs), 0)
    if not at:
        raise UsageError(f"--filter {argument!r}: write KEY=VALUE")
    key, sign = argument[:at], argument[at : at + 2]
    if signs == "=" and key[-1] in "<>":
        raise UsageError(f"--filter {argument!r}: values of labels are not compared; write {LABEL}LABEL=VALUE")
    if argument[at] == "=":
        return key, "=", argument[at + 1 :]
    sign = sign if sign[1:] == "=" else sign[:1]
    return key.strip(), cast(Sign, sign), argument[at + len(sign) :].strip()


def _dates(argument: str, key: str, sign: Sign, value: str) -> tuple[date | None, date | None]:
    """Return the first and the last day that a date filter allows; None means no bound on that side."""
    if key != "date":
        if sign != "=":
            raise UsageError(f"--filter {argument!r}: write {key}=DATE, or date{sign}DATE")
        sign = ">=" if key == "from" else "<="
    try:
        first, last = period(value) or (date.fromisoformat(value),) * 2
    except ValueError:
        raise UsageError(f"--filter {argument!r}: write a date such as 2026-01-31, 2026-01 or 2026") from None
    return _days_within(argument, sign, first, last)


def _days_within(argument: str, sign: Sign, first: date, last: date) -> tuple[date | None, date | None]:
    """Return the first and the last day that a comparison with a day, month or year allows."""
    try:
        if sign == "=":
            return first, last
        if sign in (">=", ">"):
            return (first if sign == ">=" else last + _DAY), None
        return None, (last if sign == "<=" else first - _DAY)
    except OverflowError:
        raise UsageError(f"--filter {argument!r}: the range has no dates; correct it") from None


def _comparison(argument: str, key: str, sign: Sign, value: str) -> Comparison:
    if sign == "=" or key in FILTERS:
        raise UsageError(f"--filter {argument!r}: {key} has numbers or dates only in comparisons; write {key}=VALUE")
    ranges = {">=": f"[{value},)", ">": f"({value},)", "<=": f"(,{value}]", "<": f"(,{value})"}
    numbers = ranges[sign] if _NUMBER.fullmatch(value) else None
    meant = period(value)
    if meant is None and numbers is None:
        raise UsageError(
            f"--filter {argument!r}: {value!r} is neither a number nor a date; write a number such as 12.5, or a date "
            "such as 2026-01-31, 2026-01 or 2026"
        )
    try:
        first, last = _days_within(argument, sign, *meant) if meant else (None, None)
    except UsageError:  # no year is after 9999; a number may be
        if numbers is None:
            raise
        meant = first = last = None
    days = ((first or date.min).isoformat(), (last or date.max).isoformat()) if meant else None
    return Comparison(key, numbers, days)


def asked_groups(groups: Sequence[str]) -> tuple[str, ...]:
    """Return an asker's groups. Raise UsageError if an item is not one group name, for example several in one
    string."""
    try:
        return group_names(list(groups)) if groups else ()
    except ValueError as error:
        raise UsageError(f"--group: {error}; give the option once for each group") from None


def rerankers_from(names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the names of rerankers from a string with commas or a sequence; None keeps the rerankers of the
    settings."""
    if names is None:
        return None
    listed = names.split(",") if isinstance(names, str) else list(names)
    return tuple(name.strip() for name in listed if name.strip())
