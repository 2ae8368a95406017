"""What a source of mail knows of the mails that it has listed, in a file of its own: for each of their documents, by
its name, where it is to be had. A name stays a mail's for as long as the mail is there."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from resources.connectors.mail_answers import Folder, Message, number
from resources.connectors.mail_names import cleaned, mail_name
from resources.connectors.mail_parts import WHOLE, Document, Pieces, Section, documents_of
from resources.connectors.source import Entry
from resources.hashes import bytes_hash
from resources.postgres.statements import statements

UNTOLD = "?"
"""Ends the revision of a mail of which the server told nothing: it is asked again by the next listing."""
_FEW = 40
_SMALL = 1 << 20


@dataclass(frozen=True, slots=True)
class Row:
    """A document; `octets` is about how much is sent for it."""

    uri: str
    folder: bytes
    uid: int
    pieces: Pieces
    encoding: str
    octets: int

    @property
    def sections(self) -> tuple[str, ...]:
        return tuple(piece.name for piece in self.pieces if isinstance(piece, Section))

    @property
    def small(self) -> bool:
        """Whether it may be fetched as one of several."""
        return self.octets <= _SMALL and len(self.pieces) <= _FEW


class KnownMails:
    """For one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "mails.db"
        self._database = self._opened()

    def _opened(self) -> sqlite3.Connection:
        """Of a file that is damaged nothing is known, and all is asked for again. Raises sqlite3.OperationalError."""
        try:
            return self._connected()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            self._file.unlink()
            return self._connected()

    def _connected(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._file, timeout=60.0, check_same_thread=False)
        for name in ("folders_table", "documents_table", "mails_index"):
            database.execute(_sql(name))
        return database

    def keep(self, folders: Collection[bytes]) -> None:
        """Forgets all other folders."""
        for folder, _ in self._database.execute(_sql("folders")).fetchall():
            if folder not in folders:
                self._forget_folder(folder)

    def under(self, folder: bytes, validity: int) -> None:
        """Forgets mails of the folder that have other numbers by now."""
        if (folder, validity) not in self._database.execute(_sql("folders")).fetchall():
            self._forget_folder(folder)
            with self._database:
                self._database.execute(_sql("add_folder"), (folder, validity))

    def _forget_folder(self, folder: bytes) -> None:
        with self._database:
            for name in ("forget_mails", "forget_folder"):
                self._database.execute(_sql(name), (folder,))

    def mails(self, folder: bytes, after: int, last: int) -> dict[int, list[Entry]]:
        """Entries by UID, of UIDs over `after` and up to `last`."""
        found: dict[int, list[Entry]] = {}
        for uid, *entry in self._database.execute(_sql("entries"), (folder, after, last)):
            found.setdefault(uid, []).append(Entry(*entry))
        return found

    def forget(self, folder: bytes, uids: Iterable[int]) -> None:
        with self._database:
            self._database.executemany(_sql("forget_mail"), [(folder, uid) for uid in uids])

    def add(self, folder: Folder, validity: int, mails: Mapping[int, Message]) -> None:
        """What the server says of mails: none of one of which it can say nothing."""
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
        """Of the mail's file, without its ending, and of the folder of what is attached to it."""
        heads = [value for key, value in message.items() if key.startswith("BODY[HEADER.FIELDS")]
        own = mail_name(heads[0]) if heads and isinstance(heads[0], bytes) else f"mail {uid}"
        name = "/".join([*(cleaned(part) or "_" for part in folder.parts), own])
        if not self._taken(name):
            return name
        if not self._taken(f"{name}~{uid}"):  # of a copy, or what says that it is one
            return f"{name}~{uid}"
        return f"{name}~{uid}~{bytes_hash(folder.raw)[:8]}"  # two folders whose names read alike

    def _taken(self, name: str) -> bool:
        asked = {"mail": f"{name}.eml", "from": f"{name}/", "to": f"{name}0"}
        return self._database.execute(_sql("taken"), asked).fetchone() is not None

    def row(self, entry: Entry) -> Row | None:
        """Where an entry is to be had in its revision."""
        found = self._database.execute(_sql("document"), (entry.uri, entry.revision)).fetchone()
        if found is None:
            return None
        folder, uid, pieces, encoding, octets = found
        made = tuple(piece if isinstance(piece, str) else Section(*piece) for piece in json.loads(pieces))
        return Row(entry.uri, folder, uid, made, encoding, octets)

    def close(self) -> None:
        self._database.close()


def _uri(mail: str, document: Document) -> str:
    """A mail is named `NAME.eml`, and what is attached to it stands below `NAME`."""
    if not document.below:
        return f"{mail}.eml"
    *mails, name = document.below
    return "/".join([mail, *(above.removesuffix(".eml") for above in mails), name])


def _sql(name: str) -> str:
    return statements("mail")[name]
