"""A small IMAP server on loopback (RFC 3501), whose mails and faults a test changes while it runs."""

from __future__ import annotations

import base64
import re
import socketserver
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from email import message_from_bytes
from email.message import Message

from tests.support.waiting import HANG_SECONDS

DROP = b""
"""The session ends."""
HANG = b"hang"
"""Nothing is said any more."""
ENDLESS = b"endless"
"""A line that never ends."""
DRIBBLE = b"dribble"
"""So does this, and a sign of it at a time."""
_PARTIAL = re.compile(r"(.*?)(?:<(\d+)\.(\d+)>)?\Z", re.DOTALL)
_ITEM = re.compile(r"BODY\.PEEK\[([^\]]*)\](<\d+\.\d+>)?|BODYSTRUCTURE|RFC822\.SIZE|UID")


@dataclass
class Mail:
    raw: bytes
    day: date = date(2026, 3, 2)
    deleted: bool = False


@dataclass
class Mailbox:
    validity: int = 1
    next_uid: int = 1
    marks: str = ""
    mails: dict[int, Mail] = field(default_factory=dict)


@dataclass
class ImapServer:
    """`faults` by a part of a command: bytes that are said in the answer's place, with TAG where the tag goes, after
    which the session ends unless TAG is in them; or one of DROP, HANG, ENDLESS, DRIBBLE."""

    port: int = 0
    user: str = "ann"
    password: str = "s3cret word"
    token: str = ""
    repeats: bool = False
    """What it was given, where that is wrong."""
    offers: str = "IMAP4rev1 AUTH=PLAIN"
    greeting: bytes = b"* OK ready\r\n"
    delimiter: str = "/"
    folders: dict[str, Mailbox] = field(default_factory=lambda: {"INBOX": Mailbox()})
    faults: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    context: ssl.SSLContext | None = None
    """Of TLS from the first byte on."""
    starttls: ssl.SSLContext | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def address(self, folder: str = "", scheme: str = "imap") -> str:
        return f"{scheme}://{self.user}@127.0.0.1:{self.port}/{folder}"

    def put(self, raw: bytes, folder: str = "INBOX", day: date = date(2026, 3, 2)) -> int:
        box = self.folders.setdefault(folder, Mailbox())
        box.mails[box.next_uid] = Mail(raw, day)
        box.next_uid += 1
        return box.next_uid - 1

    def number_anew(self, folder: str = "INBOX", first: int = 1) -> None:
        box = self.folders[folder]
        box.validity += 1
        box.mails = dict(enumerate(box.mails.values(), start=first))
        box.next_uid = first + len(box.mails)

    def fetched(self) -> list[str]:
        """What was asked for of contents since this was asked last."""
        found = [line for line in self.asked if "FETCH" in line and "BODYSTRUCTURE" not in line]
        self.asked.clear()
        return found


class _Session(socketserver.StreamRequestHandler):
    server: _Listener
    disable_nagle_algorithm = True

    def handle(self) -> None:
        self.mails = self.server.mails
        self.box: Mailbox | None = None
        with suppress(OSError):
            self.wfile.write(self.mails.greeting)
            while line := self.rfile.readline():
                tag, _, command = line.decode("utf-8").rstrip("\r\n").partition(" ")
                self.mails.asked.append(command)
                if not self._answered(tag, command):
                    return

    def _answered(self, tag: str, command: str) -> bool:
        for part, said in self.mails.faults.items():
            if re.search(part, command):
                return self._at_fault(tag, said)
        verb, _, rest = command.partition(" ")
        answer = getattr(self, f"_{verb.lower()}", None)
        self._say(f"{tag} {answer(rest) if answer else 'BAD unknown command'}")
        if verb == "STARTTLS" and self.mails.starttls:
            self.request = self.mails.starttls.wrap_socket(self.connection, server_side=True)
            self.setup()
        return verb != "LOGOUT"

    def _at_fault(self, tag: str, said: bytes) -> bool:
        if said == HANG:
            self.mails.ended.wait(HANG_SECONDS)
        while said == ENDLESS and not self.mails.ended.is_set():
            self.wfile.write(b"* OK " + b"x" * 65536)
        while said == DRIBBLE and not self.mails.ended.wait(0.01):
            self.wfile.write(b"*")
        self.wfile.write(said.replace(b"TAG", tag.encode()) if said not in (HANG, ENDLESS, DRIBBLE) else b"")
        return b"TAG" in said

    def _say(self, line: str | bytes) -> None:
        self.wfile.write((line.encode() if isinstance(line, str) else line) + b"\r\n")

    # ------------------------------------------------------------ commands

    def _capability(self, rest: str) -> str:
        self._say(f"* CAPABILITY {self.mails.offers}")
        return "OK done"

    def _login(self, rest: str) -> str:
        password = self.mails.password.replace("\\", r"\\").replace('"', r"\"")
        if rest == f'"{self.mails.user}" "{password}"':
            return "OK done"
        return f"NO [AUTHENTICATIONFAILED] wrong{f': LOGIN {rest}' * self.mails.repeats}"

    def _authenticate(self, rest: str) -> str:
        self._say("+ ")
        said = self.rfile.readline().strip()
        user, password, token = self.mails.user, self.mails.password, self.mails.token
        right = f"user={user}\1auth=Bearer {token}\1\1" if rest == "XOAUTH2" else f"\0{user}\0{password}"
        if base64.b64decode(said) == right.encode():
            return "OK done"
        if rest == "XOAUTH2":
            self._say("+ eyJzdGF0dXMiOiI0MDAifQ==")
            self.rfile.readline()
        return f"NO [AUTHENTICATIONFAILED] wrong{f': {said.decode()}' * self.mails.repeats}"

    def _starttls(self, rest: str) -> str:
        return "OK go on" if self.mails.starttls else "BAD no TLS here"

    def _logout(self, rest: str) -> str:
        self._say("* BYE")
        return "OK done"

    def _list(self, rest: str) -> str:
        for name, box in self.mails.folders.items():
            self._say(f'* LIST ({box.marks}) "{self.mails.delimiter}" "{_shifted(name)}"')
        return "OK done"

    def _examine(self, rest: str) -> str:
        name = next((name for name in self.mails.folders if f'"{_shifted(name)}"' == rest), None)
        if name is None:
            return "NO no such folder"
        self.box = self.mails.folders[name]
        self._say(f"* {len(self.box.mails)} EXISTS")
        self._say(f"* OK [UIDVALIDITY {self.box.validity}] UIDs")
        return "OK [READ-ONLY] examined"

    def _uid(self, rest: str) -> str:
        assert self.box is not None
        verb, _, rest = rest.partition(" ")
        if verb == "SEARCH":
            self._say(f"* SEARCH {' '.join(str(uid) for uid, mail in self.box.mails.items() if _has(rest, uid, mail))}")
            return "OK done"
        uids, _, items = rest.partition(" ")
        for at, (uid, mail) in enumerate(self.box.mails.items(), start=1):
            if uid in _numbers(uids):
                self._say(b"* %d FETCH (%b)" % (at, b" ".join(_values(uid, mail.raw, items))))
        return "OK done"


def _numbers(text: str) -> set[int]:
    return {int(number) for number in text.split(",")}


def _has(criteria: str, uid: int, mail: Mail) -> bool:
    name, _, value = criteria.partition(" ")
    if name == "UID":
        return uid in _numbers(value)
    if name == "SINCE":
        return mail.day >= datetime.strptime(value, "%d-%b-%Y").date()
    return mail.deleted if name == "DELETED" else True


def _values(uid: int, raw: bytes, items: str) -> Iterator[bytes]:
    message = message_from_bytes(raw)
    for item in _ITEM.finditer(items):
        if item[0] == "UID":
            yield b"UID %d" % uid
        elif item[0] == "RFC822.SIZE":
            yield b"RFC822.SIZE %d" % len(raw)
        elif item[0] == "BODYSTRUCTURE":
            yield b"BODYSTRUCTURE " + structure(message)
        else:
            found, begin = section(raw, message, item[1]), ""
            if item[2]:
                at, size = map(int, item[2][1:-1].split("."))
                found, begin = found[at : at + size], f"<{at}>"
            yield f"BODY[{item[1]}]{begin} ".encode() + b"{%d}\r\n%b" % (len(found), found)


# ---------------------------------------------------------------- what mails consist of


def section(raw: bytes, message: Message, name: str) -> bytes:
    """What `BODY[name]` is."""
    if not name:
        return raw
    if name.startswith("HEADER.FIELDS"):
        wanted = {field.lower() for field in name[name.index("(") + 1 : -1].split()}
        return _head([(key, value) for key, value in message.raw_items() if key.lower() in wanted])
    numbers, kind = re.fullmatch(r"([\d.]*?)\.?(HEADER|MIME)?", name).groups()  # type: ignore[union-attr]
    part, within = message, message
    for number in filter(None, numbers.split(".")):
        if part.get_content_type() == "message/rfc822" and part is not within:
            part = within = part.get_payload(0)  # type: ignore[assignment]
        part = part.get_payload(int(number) - 1) if part.is_multipart() else part  # type: ignore[assignment]
    if kind == "HEADER":
        return _head((part.get_payload(0) if numbers else part).raw_items())  # type: ignore[union-attr]
    if kind == "MIME":
        return _head(part.raw_items())
    if part.get_content_type() == "message/rfc822" and part.is_multipart():
        return bytes(part.get_payload(0))  # type: ignore[arg-type]
    return _body(part)


def _head(items: object) -> bytes:
    lines = "".join(f"{key}: {value}\r\n" for key, value in items)  # type: ignore[attr-defined]
    return lines.encode("ascii", "surrogateescape") + b"\r\n"


def _body(part: Message) -> bytes:
    return str(vars(part)["_payload"]).encode("ascii", "surrogateescape")  # get_payload guesses at a charset


def structure(part: Message) -> bytes:
    """BODYSTRUCTURE."""
    kind, _, subtype = part.get_content_type().partition("/")
    if kind == "multipart" and part.is_multipart():
        below = b"".join(structure(item) for item in part.get_payload())  # type: ignore[arg-type]
        return b'(%b "%b" %b NIL NIL)' % (below, subtype.encode(), _parameters(part, "content-type"))
    mail = kind == "message" and subtype == "rfc822" and part.is_multipart()
    within = part.get_payload(0) if mail else None
    body = bytes(within) if mail else _body(part)  # type: ignore[arg-type]
    encoding = str(part.get("Content-Transfer-Encoding", "7bit")).encode()
    found = b'"%b" "%b" %b NIL NIL "%b" %d' % (
        kind.encode(), subtype.encode(), _parameters(part, "content-type"), encoding, len(body)
    )  # fmt: skip
    if mail:
        subject = str(within["Subject"] or "").encode("ascii", "replace")  # type: ignore[index]
        envelope = b'NIL "%b" NIL NIL NIL NIL NIL NIL NIL NIL' % subject
        found += b" (%b) %b 1" % (envelope, structure(within))  # type: ignore[arg-type]
    elif kind == "text":
        found += b" %d" % body.count(b"\n")
    disposition = part.get_content_disposition()
    said = b'("%b" %b)' % (disposition.encode(), _parameters(part, "content-disposition")) if disposition else b"NIL"
    return b"(%b NIL %b NIL NIL)" % (found, said)


def _parameters(part: Message, header: str) -> bytes:
    """As they stand, encodings and all; what is longer or has other signs as a literal."""
    said = [value for name, value in part.raw_items() if name.lower() == header]
    text = "".join(said[:1]).encode("ascii", "surrogateescape")
    found = re.findall(rb';\s*([^\s=;]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s]*))', text)
    pairs = [value for name, quoted, plain in found for value in (name, quoted or plain)]
    return b"(%b)" % b" ".join(map(_string, pairs)) if pairs else b"NIL"


def _string(value: bytes) -> bytes:
    if len(value) > 100 or re.search(rb"[^ -~]", value):
        return b"{%d}\r\n%b" % (len(value), value)
    return b'"%b"' % value


def _shifted(name: str) -> str:
    """In modified UTF-7."""

    def shift(found: re.Match[str]) -> str:
        text = base64.b64encode(found[0].encode("utf-16-be")).decode().rstrip("=").replace("/", ",")
        return f"&{text}-"

    return re.sub(r"[^ -~]+", shift, name.replace("&", "&-"))


class _Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    mails: ImapServer

    def get_request(self):
        connection, address = super().get_request()
        context = self.mails.context
        return (context.wrap_socket(connection, server_side=True) if context else connection), address

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes in the middle is what tests do."""


@contextmanager
def imap_server() -> Iterator[ImapServer]:
    """With an empty INBOX."""
    mails, deepest = ImapServer(), sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)  # a mail may be deeper than what puts it together again
    with _Listener(("127.0.0.1", 0), _Session) as listener:
        listener.mails, mails.port = mails, listener.server_address[1]
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield mails
        finally:
            mails.ended.set()
            listener.shutdown()
            thread.join()
            sys.setrecursionlimit(deepest)
