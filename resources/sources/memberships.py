"""The memberships that a source reports: pairs of a principal of the source and a group of askers.

They are read completely or not at all. If they cannot be read, the earlier ones stay valid until they are too old.
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
"""Most bytes of a file of memberships, or characters of the names from a query, since all are in memory; more are
refused."""
LONGEST = 2_000
"""Most bytes of one pair, which a database index must be able to store."""
FILE = "_memberships.csv"
"""Name of the file of memberships at the root of a source. It is never a document, since it names people."""
QUERY = "memberships"
"""Name in failures in place of a file name if a query reports the memberships."""
_COLUMNS = ["principal", "group"]

Pairs = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ReadMemberships:
    """The answer of a source: all pairs, or None if they cannot be read, with the `problem`. A missing file is also a
    problem, and gives no pairs: no principal has members then."""

    pairs: Pairs | None
    problem: str = ""

    def failure(self, source: str, name: str) -> Failure:
        return Failure(document_id(source, name), source, name, "raw_documents", "memberships", self.problem)


GONE = ReadMemberships(frozenset(), f"{FILE}: it is not there, so nobody is behind a principal of this source")


def unread(problem: object) -> ReadMemberships:
    return ReadMemberships(None, f"{problem}; what was read before holds until it is too old")


def is_file(uri: str) -> bool:
    """Say whether a uri has the name of a file of memberships, even in a folder where such a file is not read."""
    return uri.rpartition("/")[2].casefold() == FILE


def in_folder(folder: SourceFolder) -> ReadMemberships:
    """Return the memberships in the file of a source's folder, or of the folder to which it was fetched."""
    try:
        with folder.open_file(folder.resolve(FILE)) as stream:
            content = stream.read(LARGEST + 1)
        return ReadMemberships(parse_pairs(content))
    except (FileNotFoundError, NotADirectoryError):
        return GONE
    except OSError as error:
        return unread(f"{FILE} cannot be read ({error.strerror})")
    except (DocumentError, ValueError) as error:
        return unread(error)


def fetch_memberships(connected: Source) -> ReadMemberships:
    """Return the memberships in the file of a source that is not a folder; nothing else is read. Raise SourceError."""
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
        return ReadMemberships(parse_pairs(bytes(content)))
    except (DocumentError, ValueError) as error:
        return unread(error)


def ask_memberships(connected: Source) -> ReadMemberships | None:
    """Return the memberships that a source reports without a file, or None if it does not."""
    rows = connected.memberships() if isinstance(connected, TellsMemberships) else None
    if rows is None:
        return None
    try:
        return ReadMemberships(_bounded_pairs(rows))
    except (SourceError, ValueError) as error:
        return unread(error)


def _bounded_pairs(rows: Iterable[tuple[str | None, str | None]]) -> Pairs:
    pairs, size = set(), 0
    for row in rows:
        pairs.add(pair := _pair(row))
        size += sum(map(len, pair))
        if size > LARGEST:
            raise ValueError(f"its memberships are over {LARGEST >> 20} MB")
    return frozenset(pairs)


def parse_pairs(content: bytes) -> Pairs:
    """Return the pairs of a CSV file with the columns `principal` and `group`. Raise ValueError naming the line."""
    if len(content) > LARGEST:
        raise ValueError(f"{FILE} is over {LARGEST >> 20} MB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{FILE} is not UTF-8 (byte {error.start})") from None
    if not text.endswith("\n"):
        # The last name of a truncated file may be the beginning of another name.
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
