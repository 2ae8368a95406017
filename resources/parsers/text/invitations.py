"""The reader of calendar entries (iCalendar, RFC 5545), which mails contain as invitations: event, time, place and
attendees, then the description.

Folded lines are joined first. Time zones, alarms and data for programs are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pipelines.plural import plural
from pipelines.records import Block, TextRun
from resources.parsers.labels import key_value

MOST_ENTRIES = 200
"""Most entries of one calendar that are read; a warning counts the others."""
_MOST_PEOPLE = 100
"""Most attendees of an entry that are named."""
_ENTRIES = frozenset(("VEVENT", "VTODO", "VJOURNAL"))
_FIELDS = {
    "SUMMARY": "Event",
    "DTSTART": "Start",
    "DTEND": "End",
    "DUE": "Due",
    "DURATION": "Duration",
    "RRULE": "Repeats",
    "LOCATION": "Location",
    "ORGANIZER": "Organizer",
    "ATTENDEE": "Attendees",
    "STATUS": "Status",
}
"""Labels of properties, in output order."""
_PEOPLE = ("ORGANIZER", "ATTENDEE")
_DESCRIPTIONS = ("DESCRIPTION", "COMMENT")
_FOLD = re.compile(r"\r?\n[ \t]")
_LINE = re.compile(r'([\w-]{1,40})((?:;(?:[^":;]|"[^"]*+")*+)*+):(.*)', re.DOTALL)
_PARAMETER = re.compile(r';([\w-]{1,40})=("[^"]*+"|[^;"]*+)')
_ESCAPED = re.compile(r"\\([\\;,nN])")
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?")

_Property = tuple[str, dict[str, str], str]
"""The name of a property, its parameters, and its raw value."""


def entries_in(text: str) -> tuple[list[Block], tuple[str, ...]]:
    """Return the entries of a calendar as blocks, and warnings."""
    found = list(_entries(text))
    blocks = [block for entry in found[:MOST_ENTRIES] for block in _blocks(entry)]
    more = len(found) - MOST_ENTRIES
    entries = plural(more, "further entry of a calendar was", "further entries of a calendar were")
    return blocks, (f"{entries} left out",) if more > 0 else ()


def _entries(text: str) -> Iterator[list[_Property]]:
    """Yield the properties of each entry, without those of alarms within it."""
    entry: list[_Property] | None = None
    depth = 0
    for line in _FOLD.sub("", text).splitlines():
        matched = _LINE.match(line.strip())
        if matched is None:
            continue
        name, value = matched[1].upper(), matched[3].strip()
        if name == "BEGIN":
            if entry is not None:
                depth += 1
            elif value.upper() in _ENTRIES:
                entry, depth = [], 0
        elif name == "END" and entry is not None:
            if depth == 0:
                yield entry
                entry = None
            depth -= 1
        elif entry is not None and depth == 0 and value:
            parameters = {key.upper(): said.strip('"') for key, said in _PARAMETER.findall(matched[2])}
            entry.append((name, parameters, value))
    if entry:  # the calendar is cut off
        yield entry


def _blocks(entry: Sequence[_Property]) -> Iterator[Block]:
    said: dict[str, list[str]] = {}
    for name, parameters, value in entry:
        if name in _FIELDS and len(said.get(name, ())) < _MOST_PEOPLE:
            said.setdefault(name, []).append(_value_text(name, parameters, value))
    for name, label in _FIELDS.items():
        values = list(dict.fromkeys(filter(None, said.get(name, ()))))
        if values:
            value = ", ".join(values if name in _PEOPLE else values[:1])
            yield Block("key_value", (TextRun(f"{label}: {value}"),), metadata=key_value(label, value))
    for name, _, value in entry:
        if name in _DESCRIPTIONS:
            for line in _plain(value).split("\n"):
                if words := " ".join(line.split()):
                    yield Block("paragraph", (TextRun(words),))


def _value_text(name: str, parameters: dict[str, str], value: str) -> str:
    """Return a value in readable form."""
    if name in _PEOPLE:
        address = value[7:] if value[:7].lower() == "mailto:" else value
        named = _plain(parameters.get("CN", "")).strip()
        return f"{named} <{address}>" if named and named != address else address
    if time := _TIME.fullmatch(value):
        year, month, day, hour, minute, _, utc = time.groups()
        date = f"{year}-{month}-{day}"
        zone = "UTC" if utc else parameters.get("TZID", "")
        return f"{date} {hour}:{minute}{f' ({zone})' if zone else ''}" if hour else date
    return " ".join(_plain(value).split())


def _plain(value: str) -> str:
    return _ESCAPED.sub(lambda found: "\n" if found[1] in "nN" else found[1], value)
