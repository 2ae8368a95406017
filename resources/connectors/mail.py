"""Mail of an IMAP server as a source: each mail, and each attachment of a known format, is a document.

A mail never changes, so its structure is requested once and kept in a file; a listing only requests the existing mails.
A document's name is made of the mail's date, its subject and a hash of its headers, which are the same after a server
renumbers its mails. No mail is marked as read.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from email.parser import HeaderParser
from email.utils import parsedate_to_datetime
from itertools import groupby
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pipelines.errors import DocumentError, SettingsError, SourceError
from pipelines.parsing.mail import (
    WHOLE,
    MailDocument,
    MailSection,
    Pieces,
    clean_name,
    decoded_header,
    documents_of,
)
from pipelines.parsing.mail import decoded_body as decoded
from pipelines.plural import plural
from resources.connectors.mail_client import (
    Account,
    Declined,
    Folder,
    LoginRefused,
    MailClient,
    MailUnreached,
    Message,
    Overlong,
    Unanswered,
    number,
)
from resources.connectors.source import Entry, SourceAddress, options_of
from resources.hashes import bytes_hash
from resources.postgres.statements import statements

# ---------------------------------------------------------------- names of mails


HEADERS = "BODY.PEEK[HEADER.FIELDS (DATE SUBJECT MESSAGE-ID)]<0.4096>"
NAMED = "BODY[HEADER.FIELDS (DATE SUBJECT MESSAGE-ID)]<0>"
_MOST_HEADERS = 4096
"""Most bytes of headers that are requested and read; a server may send more."""

# ---------------------------------------------------------------- listed mails
#
# A name stays a mail's for as long as the mail exists.


def mail_name(headers: bytes) -> str:
    """Return a name for a mail from its date, its subject, and a hash of these and its Message-ID. It is the same on
    any server."""
    found = HeaderParser().parsestr(headers[:_MOST_HEADERS].decode("utf-8", "replace"))
    try:
        sent = parsedate_to_datetime(str(found["Date"])).date().isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        sent = ""
    subject = clean_name(decoded_header(str(found["Subject"] or ""))) or "no subject"
    return " ".join(filter(None, [sent, subject, bytes_hash(headers)[:8]]))


UNTOLD = "?"
"""Ending of the revision of a mail that the server could not describe: the next listing requests it again."""
_FEW = 40
_SMALL = 1 << 20


@dataclass(frozen=True, slots=True)
class MailRow:
    """A document and the way to fetch it; `octets` is the approximate number of bytes sent for it."""

    uri: str
    folder: bytes
    uid: int
    pieces: Pieces
    encoding: str
    octets: int

    @property
    def sections(self) -> tuple[str, ...]:
        return tuple(piece.name for piece in self.pieces if isinstance(piece, MailSection))

    @property
    def small(self) -> bool:
        """Say whether the document may be fetched together with others."""
        return self.octets <= _SMALL and len(self.pieces) <= _FEW


class KnownMails:
    """The documents of listed mails, stored in a file. Only one thread may use it at a time."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "mails.db"
        self._database = self._open_file()

    def _open_file(self) -> sqlite3.Connection:
        """Open the file. A damaged file is replaced by an empty one, so that all mails are requested again. Raise
        sqlite3.OperationalError."""
        try:
            return self._connect()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            self._file.unlink()
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._file, timeout=60.0, check_same_thread=False)
        for name in ("folders_table", "documents_table", "mails_index"):
            database.execute(_sql(name))
        return database

    def keep(self, folders: Collection[bytes]) -> None:
        """Delete the rows of all folders except these."""
        for folder, _ in self._database.execute(_sql("folders")).fetchall():
            if folder not in folders:
                self._forget_folder(folder)

    def forget_renumbered(self, folder: bytes, validity: int) -> None:
        """Forget the folder's mails if the server has renumbered them since."""
        if (folder, validity) not in self._database.execute(_sql("folders")).fetchall():
            self._forget_folder(folder)
            with self._database:
                self._database.execute(_sql("add_folder"), (folder, validity))

    def _forget_folder(self, folder: bytes) -> None:
        with self._database:
            for name in ("forget_mails", "forget_folder"):
                self._database.execute(_sql(name), (folder,))

    def mails(self, folder: bytes, after: int, last: int) -> dict[int, list[Entry]]:
        """Return entries by UID, for UIDs over `after` and up to `last`."""
        found: dict[int, list[Entry]] = {}
        for uid, *entry in self._database.execute(_sql("entries"), (folder, after, last)):
            found.setdefault(uid, []).append(Entry(*entry))
        return found

    def forget(self, folder: bytes, uids: Iterable[int]) -> None:
        with self._database:
            self._database.executemany(_sql("forget_mail"), [(folder, uid) for uid in uids])

    def add(self, folder: Folder, validity: int, mails: Mapping[int, Message]) -> None:
        """Store the server's descriptions of mails. A mail without a description is requested again by the next
        listing."""
        with self._database:
            for uid, message in sorted(mails.items()):
                self._database.executemany(_sql("add_document"), self._rows(folder, validity, uid, message))

    def _rows(self, folder: Folder, validity: int, uid: int, message: Message) -> Iterator[tuple[object, ...]]:
        mail, size = self._name(folder, uid, message), number(message.get("RFC822.SIZE")) or 0
        for document in documents_of(message.get("BODYSTRUCTURE"), size):
            pieces = json.dumps([piece if isinstance(piece, str) else [piece.name] for piece in document.pieces])
            revision = f"{validity}.{uid}.{bytes_hash(pieces.encode())[:8] if message else UNTOLD}"
            exact = size if document.pieces == WHOLE and size else None
            yield _uri(mail, document), folder.raw, uid, revision, exact, pieces, document.encoding, document.octets

    def _name(self, folder: Folder, uid: int, message: Message) -> str:
        """Return the name of the mail's file without its ending; it is also the folder of the mail's attachments."""
        heads = [value for key, value in message.items() if key.startswith("BODY[HEADER.FIELDS")]
        own = mail_name(heads[0]) if heads and isinstance(heads[0], bytes) else f"mail {uid}"
        name = "/".join([*(clean_name(part) or "_" for part in folder.parts), own])
        if not self._is_taken(name):
            return name
        if not self._is_taken(f"{name}~{uid}"):  # the name is of a copy, or of another mail that claims to be one
            return f"{name}~{uid}"
        return f"{name}~{uid}~{bytes_hash(folder.raw)[:8]}"  # two folders whose names read alike

    def _is_taken(self, name: str) -> bool:
        asked = {"mail": f"{name}.eml", "from": f"{name}/", "to": f"{name}0"}
        return self._database.execute(_sql("taken"), asked).fetchone() is not None

    def row(self, entry: Entry) -> MailRow | None:
        """Return the row with the data to fetch an entry in its revision, or None if it is unknown."""
        found = self._database.execute(_sql("document"), (entry.uri, entry.revision)).fetchone()
        if found is None:
            return None
        folder, uid, pieces, encoding, octets = found
        made = tuple(piece if isinstance(piece, str) else MailSection(*piece) for piece in json.loads(pieces))
        return MailRow(entry.uri, folder, uid, made, encoding, octets)

    def close(self) -> None:
        self._database.close()


def _uri(mail: str, document: MailDocument) -> str:
    """Return a document's name: `NAME.eml` for a mail, and a path below `NAME` for its attachments."""
    if not document.below:
        return f"{mail}.eml"
    *mails, name = document.below
    return "/".join([mail, *(above.removesuffix(".eml") for above in mails), name])


def _sql(name: str) -> str:
    return statements("mail")[name]


# ---------------------------------------------------------------- source of mails


_PAGE = 200
_PIECE = 1 << 20
_TOGETHER = 4 << 20
"""Most bytes of one fetch of several documents, to bound memory."""
_FAILING = 3
"""Number of consecutive mails at which a server may fail until a listing is given up: the fault is then not in the
mails."""
_PLAIN = ("RFC822.SIZE", HEADERS)
_ALL = (*_PLAIN, "BODYSTRUCTURE")
_LAST_UID = 1 << 32
_PORTS = {"imap": 143, "imaps": 993}
_PASSWORD = "IMAP_PASSWORD"
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_NOT_BELOW = frozenset({"\\junk", "\\trash", "\\all", "\\flagged"})
"""Special uses (RFC 6154) of folders that "all folders" excludes: junk, trash, and views of other folders."""
_NO_MAILS = frozenset({"\\noselect", "\\nonexistent"})


def connect(address: SourceAddress) -> MailSource:
    """Return the source of an address.

    Options: `below` (true: include subfolders, or all folders if the address names no folder), `without` (excluded
    folders, separated by commas), `since` (YYYY-MM-DD), `auth` (password, or xoauth2 for a token), `password_env` (the
    environment variable with the password).
    """
    options = options_of(address, below="false", without=None, since=None, auth="password", password_env=None)
    parts = urlsplit(address.url)
    try:
        port = parts.port or _PORTS[parts.scheme]
    except ValueError:
        raise SettingsError(f"source {address.name!r}: the port in its path is not a number; correct it") from None
    if not parts.hostname or not parts.username:
        raise SettingsError(f"source {address.name!r}: write its path as {parts.scheme}://USER@HOST/FOLDER")
    if options["below"] not in ("true", "false"):
        raise SettingsError(f"source {address.name!r}: its option below must be true or false")
    if options["auth"] not in ("password", "xoauth2"):
        raise SettingsError(f"source {address.name!r}: its option auth must be password or xoauth2")
    secret = _secret(address.name, options["password_env"])
    oauth, tls = options["auth"] == "xoauth2", parts.scheme == "imaps"
    client = MailClient(Account(parts.hostname, port, unquote(parts.username), secret, oauth, tls))
    wanted = _Wanted(
        tuple(unquote(part) for part in parts.path.split("/") if part),
        options["below"] == "true",
        [tuple(name.strip().strip("/").split("/")) for name in options["without"].split(",") if name.strip()],
        _since_criterion(address.name, options["since"]),
    )
    try:
        return MailSource(address, client, wanted)
    except sqlite3.Error as error:
        raise _unkept(address, error) from None


def _unkept(address: SourceAddress, error: Exception) -> SourceError:
    told = f"what is known of its mails cannot be kept in {address.folder} ({error}); make room there"
    return SourceError(f"source {address.name!r}: {told}. Nothing was changed", "disk")


def _secret(name: str, variable: str) -> str:
    """Return the password from the environment. Errors do not repeat a variable's name from the settings, since a user
    may have written the password there."""
    if variable and not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", variable):
        raise SettingsError(f"source {name!r}: its option password_env must be the name of an environment variable")
    secret = os.environ.get(variable or _PASSWORD, "").strip("\r\n")
    if not secret:
        which = "that its option password_env names" if variable else _PASSWORD
        told = f"the environment variable {which} is not set; put the password there, or an app's password or token"
        raise SourceError(f"source {name!r}: {told}", "credentials")
    if not secret.isprintable():
        raise SourceError(
            f"source {name!r}: the password in the environment has control characters; set it without them",
            "credentials",
        )
    return secret


def _since_criterion(name: str, text: str) -> str:
    """Return the search criterion for mails since a day, in English in any locale, or "" without a day."""
    if not text:
        return ""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise SettingsError(f"source {name!r}: its option since must be a day in the form YYYY-MM-DD") from None
    return f"SINCE {day.day:02}-{_MONTHS[day.month - 1]}-{day.year}"


class _Wanted:
    """The choice of folders, and of the mails in them."""

    def __init__(self, at: tuple[str, ...], below: bool, without: Collection[tuple[str, ...]], since: str) -> None:
        self.at, self.below, self._without, self.since = at or (() if below else ("INBOX",)), below, without, since
        if self.at and self.at[0].upper() == "INBOX":
            self.at = ("INBOX", *self.at[1:])

    def has(self, folder: Folder) -> bool:
        if not self.below:
            return folder.parts == self.at
        inside = folder.parts[: len(self.at)] == self.at and not folder.marks & _NO_MAILS
        out = any(folder.parts[: len(name)] == name for name in self._without) or folder.marks & _NOT_BELOW
        return inside and (folder.parts == self.at or not out)


class MailSource:
    at_once = 1

    def __init__(self, address: SourceAddress, client: MailClient, wanted: _Wanted) -> None:
        self._address, self._client, self._wanted = address, client, wanted
        self._known = KnownMails(address.folder)
        self._ready: dict[str, Path] = {}
        self._place = tempfile.TemporaryDirectory(prefix="pincite-mail-")

    # ------------------------------------------------------------ listing

    def entries(self) -> Iterator[Sequence[Entry]]:
        try:
            folders = {folder.raw: folder for folder in self._client.folders() if self._wanted.has(folder)}
            if not folders:
                raise self._fault(f"there is no folder {'/'.join(self._wanted.at)!r}")
            self._known.keep(folders)
            for folder in folders.values():
                yield from self._of_folder(folder)
        except MailUnreached as error:
            raise self._fault(str(error), isinstance(error, LoginRefused)) from None
        except sqlite3.Error as error:
            raise _unkept(self._address, error) from None

    def _of_folder(self, folder: Folder) -> Iterator[list[Entry]]:
        validity, there = self._client.examine(folder)
        self._known.forget_renumbered(folder.raw, validity)
        uids, after = self._uids(folder, there), 0
        for at in range(0, max(len(uids), 1), _PAGE):
            page = uids[at : at + _PAGE]
            last = page[-1] if at + _PAGE < len(uids) else _LAST_UID
            known = self._known.mails(folder.raw, after, last)
            untold = {uid for uid, (first, *_) in known.items() if first.revision.endswith(UNTOLD)}
            self._known.forget(folder.raw, untold | known.keys() - set(page))
            if new := [uid for uid in page if uid not in known or uid in untold]:
                self._known.add(folder, validity, self._fetch_structures(folder, new))
                known = self._known.mails(folder.raw, after, last)
            yield [entry for uid in page for entry in known.get(uid, ())]
            after = last

    def _uids(self, folder: Folder, there: int) -> list[int]:
        """Return the mails that are not marked as deleted. Raise MailUnreached if the server's list is incomplete."""
        found = self._client.search(folder, "ALL")
        if len(found) < there - self._client.count_expunged():
            raise MailUnreached(f"it tells {len(found)} of {plural(there, 'mail')} in {'/'.join(folder.parts)}")
        if self._wanted.since:
            found = self._client.search(folder, self._wanted.since)
        deleted = set(self._client.search(folder, "DELETED"))
        return [uid for uid in found if uid not in deleted]

    def _fetch_structures(self, folder: Folder, uids: Sequence[int]) -> dict[int, Message]:
        """Return the structure of each mail; it is empty for a mail at which the server fails.

        A mail that was deleted in the meantime is left out. Raise MailUnreached if the server fails at several
        consecutive mails, since the cause is then not in the mails.
        """
        found, failing = dict[int, Message](), 0
        with suppress(Declined, Unanswered, Overlong):
            found = self._client.fetch(folder, uids, _ALL)
        for uid in [uid for uid in uids if uid not in found]:
            try:
                found |= self._alone(folder, uid)
                failing = 0
            except (Declined, Unanswered):
                failing += 1
                if failing == _FAILING:
                    raise
        if lost := [uid for uid in uids if uid not in found]:
            found |= {uid: {} for uid in self._client.search(folder, "UID", ",".join(map(str, lost)))}
        return found

    def _alone(self, folder: Folder, uid: int) -> dict[int, Message]:
        """Return the description of one mail, without a structure that is too long or cannot be understood."""
        with suppress(Overlong):
            if found := self._client.fetch(folder, [uid], _ALL):
                return found
        return self._client.fetch(folder, [uid], _PLAIN)

    # ------------------------------------------------------------ reading

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Fetch small documents with the same sections together. A failure is reported when the document is read."""
        self._ready.clear()
        rows = [row for entry in entries if (row := self._known.row(entry)) and row.small]
        for (folder, sections), alike in groupby(sorted(rows, key=_alike), key=_alike):
            for batch in _batches(alike):
                uids, most = [row.uid for row in batch], 2 * sum(row.octets for row in batch) + _PIECE
                items = [f"BODY.PEEK[{name}]" for name in sections]
                try:
                    found = self._client.fetch(Folder(folder, ()), uids, items, most)
                except LoginRefused as error:
                    raise self._fault(str(error), True) from None
                except MailUnreached:
                    continue
                for row in batch:
                    self._keep(row, found.get(row.uid, {}))

    def _keep(self, row: MailRow, message: Message) -> None:
        given = [piece if isinstance(piece, str) else _section(message, piece.name) for piece in row.pieces]
        if None in given:
            return
        file = Path(self._place.name, str(len(self._ready)))
        raw = (piece.encode("latin-1", "replace") if isinstance(piece, str) else piece or b"" for piece in given)
        with suppress(OSError), open(file, "wb") as stream:
            stream.writelines(decoded(raw, row.encoding))
            stream.flush()
            self._ready[row.uri] = file

    def read(self, entry: Entry) -> Generator[bytes]:
        row = self._known.row(entry)
        if row is None:
            raise DocumentError(
                f"{entry.uri}: the mail has changed since the listing; the next run reads it again", "changed"
            )
        file = self._ready.pop(entry.uri, None)
        if file is None:
            yield from decoded(self._stream(row), row.encoding)
            return
        with open(file, "rb") as stream:
            while piece := stream.read(_PIECE):
                yield piece
        file.unlink()

    def _stream(self, row: MailRow) -> Iterator[bytes]:
        for piece in row.pieces:
            if isinstance(piece, str):
                yield piece.encode("latin-1", "replace")
                continue
            at, more = 0, True
            while more:
                found = self._piece(row, piece.name, at)
                if len(found) > _PIECE:
                    raise DocumentError(
                        f"{row.uri}: the server sends more than was requested; the next run tries again", "unreadable"
                    )
                yield found
                at, more = at + len(found), len(found) == _PIECE

    def _piece(self, row: MailRow, name: str, at: int) -> bytes:
        try:
            item = f"BODY.PEEK[{name}]<{at}.{_PIECE}>"
            found = self._client.fetch(Folder(row.folder, ()), [row.uid], [item], 2 * _PIECE)
        except LoginRefused as error:
            raise self._fault(str(error), True) from None
        except MailUnreached as error:
            raise DocumentError(f"{row.uri}: the server does not send the mail: {error}", "unreadable") from None
        if row.uid not in found:
            raise DocumentError(
                f"{row.uri}: the mail was deleted after the listing; the next run leaves it out", "changed"
            )
        return _section(found[row.uid], name, f"<{at}>") or b""

    def close(self) -> None:
        self._client.close()
        self._known.close()
        self._place.cleanup()

    def _fault(self, told: str, refused: bool = False) -> SourceError:
        remedy = "See the user in its path, and the password in the environment. " if refused else ""
        said = f"source {self._address.name!r}: cannot list {self._address.url}: {told}"
        return SourceError(f"{said}. {remedy}Nothing was changed", "credentials" if refused else None)


def _alike(row: MailRow) -> tuple[bytes, tuple[str, ...]]:
    return row.folder, row.sections


def _batches(rows: Iterable[MailRow]) -> Iterator[list[MailRow]]:
    """Yield batches of rows that are small enough to be fetched together."""
    batch: list[MailRow] = []
    for row in rows:
        if batch and (len(batch) == _PAGE or sum(item.octets for item in batch) + row.octets > _TOGETHER):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _section(message: Message, name: str, origin: str = "") -> bytes | None:
    """Return a section of a mail, b"" if the server has no content for it, or None if the server does not answer."""
    for key in (f"BODY[{name}]{origin}", f"BODY[{name}]"):
        if key in message:
            found = message[key]
            return found if isinstance(found, bytes) else b""
    return None
