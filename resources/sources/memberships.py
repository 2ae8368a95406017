"""Who is behind the principals of a source, as the source says: pairs of a principal and a group of askers.

They are read whole or not at all. What cannot be read leaves those that were read before, until these are too old.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass

from pipelines.errors import DocumentError, SourceError
from pipelines.fingerprint import document_id
from pipelines.groups import group_name, principal_name
from pipelines.records import Failure
from resources.connectors.source import Source, TellsMemberships
from resources.sources.files import SourceFolder

LARGEST = 32 << 20
"""Bytes of a file of memberships, and of the names that a query gives."""
LONGEST = 2_000
"""Bytes of one pair, which an index must hold."""
FILE = "_memberships.csv"
"""At the root of a source. Nowhere is it a document: it names people."""
QUERY = "memberships"
"""Stands for the file where a query tells them."""
_COLUMNS = ["principal", "group"]

Pairs = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Told:
    """What a source says: all pairs, or None where it cannot be read, for a `problem`. A file that is gone is one too:
    nobody is behind a principal then."""

    pairs: Pairs | None
    problem: str = ""

    def failure(self, source: str, name: str) -> Failure:
        return Failure(document_id(source, name), source, name, "raw_documents", "memberships", self.problem)


GONE = Told(frozenset(), f"{FILE}: it is not there, so nobody is behind a principal of this source")


def unread(problem: object) -> Told:
    return Told(None, f"{problem}; what was read before holds until it is too old")


def is_file(uri: str) -> bool:
    """Whether it is one of memberships by its name, also where none is looked for."""
    return uri.rpartition("/")[2].casefold() == FILE


def in_folder(folder: SourceFolder) -> Told:
    """What the file says, in the folder that a source is, or was brought to."""
    try:
        with folder.opened(folder.resolved(FILE)) as stream:
            content = stream.read(LARGEST + 1)
        return Told(parsed(content))
    except (FileNotFoundError, NotADirectoryError):
        return GONE
    except OSError as error:
        return unread(f"{FILE} cannot be read ({error.strerror})")
    except (DocumentError, ValueError) as error:
        return unread(error)


def fetched(connected: Source) -> Told:
    """What the file says of a source that is no folder, of which nothing else is read. Raises SourceError."""
    entry = next((entry for page in connected.entries() for entry in page if entry.uri == FILE), None)
    if entry is None:
        return GONE
    content = bytearray()
    try:
        connected.prepare([entry])
        for piece in connected.read(entry):
            content += piece
            if len(content) > LARGEST:
                break
        return Told(parsed(bytes(content)))
    except (DocumentError, ValueError) as error:
        return unread(error)


def asked(connected: Source) -> Told | None:
    """What a source says itself that knows memberships beside its entries; None where it does not."""
    rows = connected.memberships() if isinstance(connected, TellsMemberships) else None
    if rows is None:
        return None
    try:
        return Told(_bounded(rows))
    except (SourceError, ValueError) as error:
        return unread(error)


def _bounded(rows: Iterable[tuple[str | None, str | None]]) -> Pairs:
    pairs, size = set(), 0
    for row in rows:
        pairs.add(pair := _pair(row))
        size += sum(map(len, pair))
        if size > LARGEST:
            raise ValueError(f"its memberships are over {LARGEST >> 20} MB")
    return frozenset(pairs)


def parsed(content: bytes) -> Pairs:
    """The pairs of a CSV file with the columns `principal` and `group`. Raises ValueError naming the line."""
    if len(content) > LARGEST:
        raise ValueError(f"{FILE} is over {LARGEST >> 20} MB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{FILE} is not UTF-8 (byte {error.start})") from None
    if not text.endswith("\n"):
        # The last name of a file that was cut off may be the beginning of another's.
        raise ValueError(f"{FILE} does not end with a line end, so it may be cut off")
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        heads = [head.strip() for head in next(lines, [])]
        if sorted(heads) != sorted(_COLUMNS):
            raise ValueError(f"it must be {','.join(_COLUMNS)}")
        order = [heads.index(column) for column in _COLUMNS]
        return frozenset(
            _pair([line[at] for at in order] if len(line) == len(order) else line) for line in lines if line
        )
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{FILE}, line {lines.line_num}: {error}") from None


def _pair(line: Iterable[str | None]) -> tuple[str, str]:
    values = [value or "" for value in line]
    if len(values) != len(_COLUMNS):
        raise ValueError(f"{len(values)} values stand there, not a principal and a group")
    pair = principal_name(values[0]), group_name(values[1])
    if sum(len(name.encode("utf-8", "replace")) for name in pair) > LONGEST:
        raise ValueError(f"its names have over {LONGEST:,} bytes")
    return pair
