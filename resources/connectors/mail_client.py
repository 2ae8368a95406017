"""A read-only session with one IMAP server: commands, and answers (RFC 3501), bounded in time and bytes.

Connections use TLS with verified certificates unless the server is on loopback: `imaps` from the first byte, `imap`
by STARTTLS before anything else is sent. Atoms, strings and literals in answers are bytes.
"""

from __future__ import annotations

import base64
import imaplib
import re
import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

# ---------------------------------------------------------------- answers
#
# Answers are nested lists, after RFC 3501, section 9.


Piece = bytes | tuple[bytes, bytes] | None
"""A part of an answer from imaplib: a line, or the part of a line before a literal, with the literal."""
Message = dict[str, Any]
"""The values of a mail, by the requested items, such as `UID` or `BODY[1]<0>`."""
MOST_VALUES = 20_000
DEEPEST = 64
"""Most levels of nested lists, since a server may nest them without end."""
_TOKEN = re.compile(
    rb'[ \r\n\t]*+(?:([()])|"((?:[^"\\]|\\.)*+)("?+)|([^()\s"\[]*+(?:\[[^\]]*+\]?+[^()\s"\[]*+)?+))', re.DOTALL
)
"""Pattern of a bracket, a string with its closing quote, or an atom, such as `BODY[HEADER.FIELDS (DATE)]<0>`."""
LARGEST = (1 << 32) - 1
"""The largest number that the protocol allows for mails, folders and their validity."""
_MOST_DIGITS = 18
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_SHIFTED = re.compile(r"&([A-Za-z0-9+,]*+)-")


@dataclass(frozen=True, slots=True)
class Folder:
    """A mail folder. `raw` is its name for the server, `parts` its name for people. `marks` such as `\\junk` are in
    lower case."""

    raw: bytes
    parts: tuple[str, ...]
    marks: frozenset[str] = frozenset()

    @property
    def quoted_name(self) -> Any:
        """The name in the form that imaplib sends, which may be bytes as well as text. Raises ValueError."""
        if any(sign in self.raw for sign in b"\r\n\0"):
            raise ValueError("the name of a folder has control characters")
        return b'"' + self.raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def groups(data: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Yield the pieces of each answer; an answer ends with the line after which no literal follows."""
    group: list[Piece] = []
    for piece in data:
        if piece is None:
            continue
        group.append(piece)
        if isinstance(piece, bytes):
            yield group
            group = []


def values(group: Iterable[Piece]) -> list[Any]:
    """Return an answer's values. Raise ValueError if its brackets are unbalanced, it is nested deeper than DEEPEST or
    has more than MOST_VALUES."""
    stack: list[list[Any]] = [[]]
    for count, (bracket, value) in enumerate(token for piece in group for token in _tokens(piece)):
        if count > MOST_VALUES or len(stack) > DEEPEST:
            raise ValueError("an answer of more parts than are read")
        if bracket == b"(":
            stack.append([])
        elif bracket != b")":
            stack[-1].append(value)
        elif len(stack) > 1:
            closed = stack.pop()
            stack[-1].append(closed)
        else:
            raise ValueError("an answer that ends before it begins")
    if len(stack) > 1:
        raise ValueError("an answer that does not end")
    return stack[0]


def _tokens(piece: Piece) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield (bracket, None) for each bracket, and (b"", value) for each value; the value NIL is None."""
    text, literal = (piece[0][: piece[0].rindex(b"{")], piece[1]) if isinstance(piece, tuple) else (piece or b"", None)
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or (found.end() == at) or found[3] == b"":
            raise ValueError("an answer that cannot be read")
        at = found.end()
        bracket, string, _, atom = found.groups()
        if bracket:
            yield bracket, None
        elif string is not None:
            yield b"", _ESCAPED.sub(rb"\1", string)
        elif atom:
            yield b"", None if atom.upper() == b"NIL" else atom
    if literal is not None:
        yield b"", literal


def number(value: Any) -> int | None:
    return int(value) if isinstance(value, bytes) and value.isdigit() and len(value) <= _MOST_DIGITS else None


def message_of(group: Iterable[Piece]) -> Message:
    """Return the values of a FETCH answer, or an empty dict if it cannot be read."""
    try:
        *_, items = values(group)
        names = [name.decode("latin-1").upper() for name in items[::2]]
        return dict(zip(names, items[1::2], strict=True))
    except (ValueError, AttributeError, TypeError, IndexError):
        return {}


def folder_of(group: Sequence[Piece]) -> Folder:
    """Return the folder of a LIST answer. Raise ValueError."""
    marks, delimiter, raw, *_ = values(group)
    if not isinstance(raw, bytes) or not isinstance(delimiter, bytes | None) or not isinstance(marks, list):
        raise ValueError("an answer that names no folder")
    if not all(isinstance(mark, bytes) for mark in marks):
        raise ValueError("an answer that marks a folder with what is no mark")
    name = folder_name(raw)
    parts = name.split(folder_name(delimiter)) if delimiter else [name]
    if parts[0].upper() == "INBOX":
        parts[0] = "INBOX"
    return Folder(raw, tuple(parts), frozenset(mark.decode("latin-1").lower() for mark in marks))


def folder_name(raw: bytes) -> str:
    """Decode a name from the modified UTF-7 of IMAP (RFC 3501, 5.1.3), or from UTF-8, which some servers use."""
    if not raw.isascii():
        return raw.decode("utf-8", "replace")
    return _SHIFTED.sub(lambda found: _decode_shifted(found[1]) if found[1] else "&", raw.decode("ascii"))


def _decode_shifted(text: str) -> str:
    whole = text.replace(",", "/") + "=" * (-len(text) % 4)
    try:
        return base64.b64decode(whole).decode("utf-16-be", "replace")
    except ValueError:
        return f"&{text}-"


# ---------------------------------------------------------------- sessions


LOOPBACK = ("localhost", "127.0.0.1", "::1")
SILENCE = 60.0
"""Seconds without data from the server after which the session is ended."""
SECONDS = 600.0
"""Most seconds of one command, so that a slow server cannot delay a run forever."""
MOST_BYTES = 32 << 20
"""Most bytes of one answer, to bound memory. A fetch of known size has a separate limit."""
MOST_LINES = 200_000
"""Most lines of one answer: each is an object of about a hundred bytes, however short the line is."""
_CONNECTING = 10.0
_LONGEST_TOLD = 300
_MOST_LOOKED_AT = 10_000
_RECOGNISED = 6
"""Number of a password's letters in a text that count as a repetition of the password."""
_OAUTH = "XOAUTH2"
_OF_FOLDER = ("UIDVALIDITY", "EXISTS")


class MailUnreached(Exception):
    """No answer, or an unusable one; the message says why."""


class LoginRefused(MailUnreached):
    """The server rejects the account's credentials."""


class Declined(MailUnreached):
    """The server refuses this command, but other commands may follow."""


class Unanswered(MailUnreached):
    """The session ended before a valid answer."""


class Overlong(MailUnreached):
    """The answer is longer than the limit."""


@dataclass(frozen=True, slots=True)
class Account:
    host: str
    port: int
    user: str
    secret: str = field(repr=False)
    """The password, or a token with `oauth`."""
    oauth: bool
    tls: bool
    """True for TLS from the first byte on."""


class MailClient:
    """A client that connects with the first command, and again after a fault. Only one thread may use it at a time."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._wire: _Wire | None = None
        self._examined = b""
        self._validity: dict[bytes, int] = {}

    def folders(self) -> list[Folder]:
        """Return all folders of the account. Raise MailUnreached, as all other methods may."""
        with self._connection() as wire:
            status, data = wire.list()
            self._require(status, data)
            return [folder_of(group) for group in groups(data)]

    def examine(self, folder: Folder) -> tuple[int, int]:
        """Select a folder for later commands, and return (UIDVALIDITY, number of mails)."""
        self._examined = b""
        with self._connection() as wire:
            status, data = wire.select(folder.quoted_name, readonly=True)
            self._require(status, data)
            validity, there = (number(wire.untagged_responses.get(name, [None])[-1]) for name in _OF_FOLDER)
            if validity is None or there is None or max(validity, there) > LARGEST:
                raise MailUnreached("it does not say which mails the folder has")
            if self._validity.setdefault(folder.raw, validity) != validity:
                raise MailUnreached("the folder was made anew meanwhile")
            self._examined = folder.raw
            return validity, there

    def search(self, folder: Folder, *criteria: str) -> list[int]:
        """Return the UIDs of mails in the folder, ascending."""
        self._select(folder)
        with self._connection() as wire:
            status, data = wire.uid("SEARCH", *criteria)
            self._require(status, data)
            if data[0] is None:
                raise MailUnreached("it does not answer what the folder has")
            found = {number(uid) for line in data for uid in line.split()}
            if not all(uid is not None and uid <= LARGEST for uid in found):
                raise MailUnreached("it answers with what is no number of a mail")
            return sorted(uid for uid in found if uid)

    def count_expunged(self) -> int:
        """Return the number of mails that the server reported as removed since the folder was examined."""
        return self._wire.count_expunged() if self._wire else 0

    def fetch(self, folder: Folder, uids: Sequence[int], items: Iterable[str], most: int = 0) -> dict[int, Message]:
        """Return the values of mails in the folder, by UID. A mail that does not exist is left out."""
        self._select(folder)
        with self._connection(most) as wire:
            status, data = wire.uid("FETCH", ",".join(map(str, uids)), f"(UID {' '.join(items)})")
            self._require(status, data)
            found: dict[int, Message] = {}
            wanted = set(uids)
            for group in groups(data):
                message = message_of(group)
                uid = number(message.get("UID")) or 0
                if uid in wanted:
                    found.setdefault(uid, {}).update(message)
            return found

    def close(self) -> None:
        wire, self._wire, self._examined = self._wire, None, b""
        if wire is not None:
            with suppress(OSError):
                wire.shutdown()

    # ------------------------------------------------------------ session

    def _select(self, folder: Folder) -> None:
        if self._wire is None or self._examined != folder.raw:
            self.examine(folder)

    @contextmanager
    def _connection(self, most: int = 0) -> Iterator[_Wire]:
        """Yield the connection. End the session after an answer that is not understood, since more of it may arrive."""
        try:
            self._wire = self._wire or self._connect()
            self._wire.most = most or MOST_BYTES
            yield self._wire
        except Declined:
            raise
        except MailUnreached:
            self.close()
            raise
        except (imaplib.IMAP4.error, OSError, ValueError) as error:
            self.close()
            raise Unanswered(self._safe_text(error)) from None

    def _connect(self) -> _Wire:
        account = self._account
        context = ssl.create_default_context() if account.tls or account.host not in LOOPBACK else None
        wire = _Wire(account.host, account.port, context, account.tls)
        try:
            if context and not account.tls:
                wire.secure(context)
            self._sign_in(wire)
        except Exception as error:
            wire.shutdown()
            if isinstance(error, imaplib.IMAP4.error) and not isinstance(error, imaplib.IMAP4.abort):
                raise LoginRefused(self._safe_text(error)) from None
            raise
        return wire

    def _sign_in(self, wire: _Wire) -> None:
        """Sign in by a method that the server offers after TLS has begun. An offer from before TLS may come from an
        attacker."""
        status, offered = wire.capability()
        self._require(status, offered)
        account = self._account
        mechanism = _OAUTH if account.oauth else "PLAIN"
        if account.oauth or b"AUTH=PLAIN" in (offered[-1] or b"").upper().split():
            replies = iter((self._response(), b""))

            def reply(asked: bytes) -> bytes:
                with suppress(StopIteration):
                    return next(replies)
                raise MailUnreached("it asks for more than there is to say")

            wire.authenticate(mechanism, reply)
        elif (account.user + account.secret).isascii():
            wire.login(wire.quoted_text(account.user), account.secret)
        else:
            raise LoginRefused("it takes no name or password beyond ASCII")

    def _response(self) -> bytes:
        user, secret = self._account.user, self._account.secret
        said = f"user={user}\1auth=Bearer {secret}\1\1" if self._account.oauth else f"\0{user}\0{secret}"
        return said.encode()

    def _require(self, status: str, data: Sequence[object]) -> None:
        if status != "OK":
            raise Declined(self._safe_text(data[-1] if data else status))

    def _safe_text(self, said: object) -> str:
        """Return a server's message on one line, unless it may repeat the password, as some servers do."""
        text = said[:_MOST_LOOKED_AT].decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        text = text[:_MOST_LOOKED_AT]
        encoded = base64.b64encode(self._response()).decode()
        if any(_letters(secret)[:_RECOGNISED] in _letters(text) for secret in (encoded, self._account.secret)):
            return "what it says has the password in it"
        text = " ".join(text.split()) or type(said).__name__
        return text if len(text) <= _LONGEST_TOLD else f"{text[:_LONGEST_TOLD]}..."


def _letters(text: str) -> str:
    """Return the letters and digits of a text, so that a password is recognised in any notation."""
    return "".join(filter(str.isalnum, text)).casefold()


class _Wire(imaplib.IMAP4):
    """The connection. Its answers are bounded: by `most` in bytes, and by SILENCE and SECONDS in time."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None, tls: bool) -> None:
        self.most, self._left, self._ends = MOST_BYTES, MOST_BYTES, time.monotonic() + SECONDS
        self._held, self._context = bytearray(), context if tls else None
        self._lines, self._expunged = 0, 0
        super().__init__(host, port)

    def secure(self, context: ssl.SSLContext) -> None:
        """Start TLS by STARTTLS. Raise MailUnreached if the server does not start TLS, or has sent unprotected data."""
        status, _ = self.xatom("STARTTLS")
        if status != "OK" or self._held:
            raise MailUnreached("it does not go on by TLS (STARTTLS)")
        self.sock = context.wrap_socket(self.sock, server_hostname=self.host)

    @staticmethod
    def quoted_text(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    # ------------------------------------------------------------ overrides of imaplib's input and output

    def open(self, host: str = "", port: int = 143, timeout: float | None = None) -> None:
        self.host, self.port = host, port
        self.sock = socket.create_connection((host, port), _CONNECTING)
        if self._context is not None:
            self.sock = self._context.wrap_socket(self.sock, server_hostname=host)

    def send(self, data: bytes) -> None:  # type: ignore[override]
        """Send a command, whose answer has separate limits. Discard unsolicited data from before it, since a session
        lasts for thousands of commands."""
        self._left, self._lines, self._ends = self.most, 0, time.monotonic() + SECONDS
        self._expunged = self.count_expunged()
        self.untagged_responses.clear()
        self.sock.settimeout(SILENCE)
        self.sock.sendall(data)

    def select(self, mailbox: str = "INBOX", readonly: bool = False) -> Any:
        self._expunged = 0
        return super().select(mailbox, readonly)

    def count_expunged(self) -> int:
        """Return the number of mails that the server reported as removed since the folder was selected."""
        return self._expunged + len(self.untagged_responses.get("EXPUNGE", ()))

    def readline(self) -> bytes:
        self._lines += 1
        if self._lines > MOST_LINES:
            raise Overlong(f"its answer is over {MOST_LINES:,} lines")
        searched = 0
        while (end := self._held.find(b"\n", searched)) < 0:
            searched = len(self._held)
            if not self._more():
                return b""
        return self._take(end + 1)

    def read(self, size: int) -> bytes:
        if size > len(self._held) + self._left:
            raise Overlong(f"its answer is over {self.most:,} bytes")
        while len(self._held) < size:
            if not self._more():
                raise Unanswered("it ended the session amid an answer")
        return self._take(size)

    def _take(self, size: int) -> bytes:
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken

    def _more(self) -> bool:
        left = self._ends - time.monotonic()
        try:
            self.sock.settimeout(max(min(SILENCE, left), 0.001))
            piece = self.sock.recv(1 << 16)
        except TimeoutError:
            silent = f"it says nothing for {SILENCE:.0f} s"
            raise Unanswered(silent if left > SILENCE else _unended_answer()) from None
        if time.monotonic() > self._ends:
            raise Unanswered(_unended_answer())
        self._held += piece
        self._left -= len(piece)
        if self._left < 0:
            raise Overlong(f"its answer is over {self.most:,} bytes")
        return bool(piece)

    def shutdown(self) -> None:
        self.sock.close()


def _unended_answer() -> str:
    return f"its answer does not end within {SECONDS:.0f} s"
