"""Mail of an IMAP server as a source: mails and what is attached to them, whatever senders and servers do."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext

import pytest

from pipelines.errors import DocumentError, SettingsError, SourceError
from pipelines.settings.sources import SourceSettings
from resources.connectors import mail_client
from resources.connectors.source import connect
from tests.support.imap_server import DRIBBLE, DROP, ENDLESS, HANG, ImapServer, imap_server
from tests.support.letters import letter, with_files

pytestmark = pytest.mark.integration

FERRY = "The ferry crosses the river twice an hour in summer."
CHOIR = "The choir sings in May."


@dataclass
class Found:
    """What a source gives now: texts by uri, without the hash at the end of a mail's name."""

    revisions: dict[str, str]
    texts: dict[str, str]

    @property
    def names(self) -> list[str]:
        return sorted(self.texts)


def plain(uri: str) -> str:
    """Without the hash that ends a mail's name."""
    folder, *parts = uri.split("/")
    mail = parts[0].removesuffix(".eml")
    head, _, tail = mail.rpartition(" ")
    return "/".join([folder, head + tail[8:] + (".eml" if mail != parts[0] else ""), *parts[1:]])


def settings(server: ImapServer, folder: str = "", **options: str) -> SourceSettings:
    return SourceSettings(name="mail", path=server.address(folder), options=options)


def found(server: ImapServer, folder: Path, at: str = "", **options: str) -> Found:
    with closing(connect(settings(server, at, **options), folder)) as source:
        entries = [entry for page in source.entries() for entry in page]
        source.prepare(entries)
        texts = {plain(entry.uri): b"".join(source.read(entry)).decode("utf-8", "replace") for entry in entries}
        return Found({plain(entry.uri): entry.revision for entry in entries}, texts)


def fault(server: ImapServer, folder: Path, at: str = "") -> str:
    """What is said where the source cannot be listed."""
    with pytest.raises(SourceError) as caught:
        found(server, folder, at)
    assert server.password not in str(caught.value) and "Nothing was changed" in str(caught.value)
    return str(caught.value)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ImapServer]:
    with imap_server() as made:
        monkeypatch.setenv("IMAP_PASSWORD", made.password)
        yield made


# ---------------------------------------------------------------- mails and what is attached


def test_an_attachment_is_a_document_of_its_own(server: ImapServer, tmp_path: Path) -> None:
    mail = with_files("The ferry", plan_md=FERRY.encode(), photos_zip=b"PK\3\4zip")
    mail.add_attachment(with_files("An older letter", choir_txt=CHOIR.encode()))
    server.put(mail.as_bytes())
    texts = found(server, tmp_path).texts
    name = "INBOX/2026-03-02 The ferry"
    assert sorted(texts) == [
        f"{name}.eml",
        f"{name}/An older letter.eml",
        f"{name}/An older letter/choir.txt",
        f"{name}/plan.md",
    ]
    assert (texts[f"{name}/plan.md"], texts[f"{name}/An older letter/choir.txt"]) == (FERRY, CHOIR)
    own = texts[f"{name}.eml"]
    assert "See below." in own and "photos.zip" in own and "plan.md" not in own and "older letter" not in own
    within = texts[f"{name}/An older letter.eml"]
    assert "Subject: An older letter" in within and "choir.txt" not in within


def test_a_mail_without_attachments_is_what_the_server_has(server: ImapServer, tmp_path: Path) -> None:
    mail = letter("Both", "Plain.")
    mail.add_alternative("<p>HTML.</p>", subtype="html")
    server.put(mail.as_bytes())
    assert found(server, tmp_path).texts == {"INBOX/2026-03-02 Both.eml": mail.as_string()}


def test_mails_that_are_known_are_not_asked_for_again(server: ImapServer, tmp_path: Path) -> None:
    for number in range(300):
        server.put(letter(f"Letter {number}", number=number).as_bytes())
    before = found(server, tmp_path)
    assert len(before.names) == 300 and len(server.fetched()) < 5, "they are fetched together"
    with closing(connect(settings(server), tmp_path)) as source:
        assert sum(len(page) for page in source.entries()) == 300
    assert not any("FETCH" in command for command in server.asked)
    server.put(letter("A new one").as_bytes())
    del server.folders["INBOX"].mails[7]
    server.folders["INBOX"].mails[8].deleted = True
    now = found(server, tmp_path)
    assert now.names == sorted({*before.names, "INBOX/2026-03-02 A new one.eml"} - _named("Letter 6", "Letter 7"))
    assert {now.revisions[name] == before.revisions[name] for name in now.names if "new" not in name} == {True}


def _named(*subjects: str) -> set[str]:
    return {f"INBOX/2026-03-02 {subject}.eml" for subject in subjects}


def test_mails_that_are_numbered_anew_keep_their_names_and_are_fetched_anew(server: ImapServer, tmp_path: Path) -> None:
    for subject in ("One", "Two", "Three"):
        server.put(with_files(subject, plan_txt=subject.encode()).as_bytes())
    before = found(server, tmp_path)
    server.number_anew(first=2)
    now = found(server, tmp_path)
    assert now.texts == before.texts
    assert not set(now.revisions.values()) & set(before.revisions.values())


def test_copies_are_told_apart_for_as_long_as_they_are_there(server: ImapServer, tmp_path: Path) -> None:
    for text in ("first", "second", "third"):
        server.put(letter("Same", text).as_bytes())
    texts = found(server, tmp_path).texts
    assert [text.rpartition("\n\n")[2].strip() for text in texts.values()] == ["first", "second", "third"]
    del server.folders["INBOX"].mails[1]
    now = found(server, tmp_path).texts
    assert now == {name: text for name, text in texts.items() if "first" not in text}


def test_folders_are_taken_by_their_names(server: ImapServer, tmp_path: Path) -> None:
    server.delimiter = "."
    for name, marks in {"Пошта": "", "Пошта.A&B": "", "Пошта.Junk": "\\Junk", "Пошта.none": "\\Noselect"}.items():
        server.put(letter(name).as_bytes(), name)
        server.folders[name].marks = marks
    assert found(server, tmp_path / "", "Пошта").names == ["Пошта/2026-03-02 Пошта.eml"]
    assert found(server, tmp_path, "%D0%9F%D0%BE%D1%88%D1%82%D0%B0/A&B").names
    with closing(connect(settings(server, "Пошта", below="true"), tmp_path)) as source:
        names = {entry.uri.rpartition("/")[0] for page in source.entries() for entry in page}
        assert names == {"Пошта", "Пошта/A&B"}
    assert found(server, tmp_path, "inbox").names == []
    server.folders["Пошта"].marks = "\\Noselect"
    with closing(connect(settings(server, "Пошта", below="true"), tmp_path)) as source:
        assert {entry.uri.rpartition("/")[0] for page in source.entries() for entry in page} == {"Пошта/A&B"}
    server.folders["Пошта"].marks = ""
    assert "no folder 'nowhere'" in fault(server, tmp_path, "nowhere")
    with closing(connect(settings(server, below="true", without="Пошта/A&B, INBOX"), tmp_path)) as source:
        assert {entry.uri.split("/")[0] for page in source.entries() for entry in page} == {"Пошта"}


def test_only_mails_since_a_day_are_taken(server: ImapServer, tmp_path: Path) -> None:
    server.put(letter("Old").as_bytes(), day=date(2025, 12, 31))
    server.put(letter("New").as_bytes(), day=date(2026, 1, 1))
    assert found(server, tmp_path, since="2026-01-01").names == ["INBOX/2026-03-02 New.eml"]
    for day in ("yesterday", "2026-13-01", '2026-01-01" DELETED'):
        with pytest.raises(SettingsError, match="since must be a day"):
            found(server, tmp_path, since=day)


# ---------------------------------------------------------------- who signs in


@pytest.mark.parametrize("offers", ["IMAP4rev1 AUTH=PLAIN", "IMAP4rev1"])
def test_a_wrong_password_is_told_without_it(
    offers: str, server: ImapServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.offers = offers
    for wrong in ("another", 'with "quotes" and \\'):
        monkeypatch.setenv("IMAP_PASSWORD", wrong)
        for server.repeats in (False, True):
            with pytest.raises(SourceError) as caught:
                found(server, tmp_path)
            told = str(caught.value)
            assert caught.value.code == "credentials" and "password in the environment" in told
            assert ("AUTHENTICATIONFAILED" in told) is not server.repeats
            assert not any(secret in told for secret in ("another", "quotes", "AGFubg"))


@pytest.mark.parametrize("offers", ["IMAP4rev1 AUTH=PLAIN", "IMAP4rev1"])
def test_a_password_is_taken_from_the_variable_that_is_named(
    offers: str, server: ImapServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.offers, server.password, server.user = offers, 'a "quoted\\ one', "ann@example.org"
    server.put(letter("One").as_bytes())
    monkeypatch.setenv("MAIL_PASSWORD", server.password)
    for path in (server.address(), server.address().replace("ann@", "ann%40")):
        source = SourceSettings(name="mail", path=path, options={"password_env": "MAIL_PASSWORD"})
        with closing(connect(source, tmp_path)) as connected:
            assert sum(len(page) for page in connected.entries()) == 1


def test_a_token_signs_in(server: ImapServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.token = "t0ken"
    monkeypatch.setenv("IMAP_PASSWORD", "t0ken")
    assert found(server, tmp_path, auth="xoauth2").names == []
    monkeypatch.setenv("IMAP_PASSWORD", "past")
    with pytest.raises(SourceError, match="AUTHENTICATIONFAILED") as caught:
        found(server, tmp_path, auth="xoauth2")
    assert caught.value.code == "credentials" and "past" not in str(caught.value)


@pytest.mark.parametrize("said", ["hunter two", "hunter2"], ids=["no-name", "unset"])
def test_a_password_in_place_of_its_variable_is_not_repeated(said: str, server: ImapServer, tmp_path: Path) -> None:
    with pytest.raises((SettingsError, SourceError), match="password_env") as caught:
        connect(settings(server, password_env=said), tmp_path)
    assert said not in str(caught.value)


def test_a_missing_password_names_the_variable(
    server: ImapServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("IMAP_PASSWORD")
    with pytest.raises(SourceError, match="IMAP_PASSWORD is not set") as caught:
        connect(settings(server), tmp_path)
    assert caught.value.code == "credentials"


# ---------------------------------------------------------------- TLS


@pytest.fixture
def certificate(server: ImapServer, tmp_path: Path) -> Path:
    """Of the server, which nobody vouches for."""
    file = tmp_path / "certificate.pem"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost")
    make = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", file, "-out", file)
    subprocess.run([*make[:-1], tmp_path / "own.pem", *names], check=True, capture_output=True)
    server.context = SSLContext(PROTOCOL_TLS_SERVER)
    server.context.load_cert_chain(tmp_path / "own.pem", file)
    return tmp_path / "own.pem"


def test_a_certificate_is_verified(
    certificate: Path, server: ImapServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put(letter("One").as_bytes())
    source = SourceSettings(name="mail", path=server.address(scheme="imaps"))
    with closing(connect(source, tmp_path)) as connected, pytest.raises(SourceError, match="CERTIFICATE_VERIFY_FAILED"):
        list(connected.entries())
    assert server.asked == []
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with closing(connect(source, tmp_path)) as connected:
        assert sum(len(page) for page in connected.entries()) == 1


def test_beyond_loopback_nothing_is_said_before_tls(
    certificate: Path, server: ImapServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail_client, "LOOPBACK", ())
    context, server.context = server.context, None
    assert "STARTTLS" in fault(server, tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server.starttls = context
    server.put(letter("One").as_bytes())
    assert len(found(server, tmp_path).names) == 1
    server.asked.clear()
    server.faults["STARTTLS"] = b"TAG OK go on\r\n* CAPABILITY IMAP4rev1\r\n"
    assert "STARTTLS" in fault(server, tmp_path), "what was said before TLS may be another's"
    assert not [command for command in server.asked if command.startswith(("AUTHENTICATE", "LOGIN"))]


# ---------------------------------------------------------------- hostile servers


@pytest.mark.parametrize(
    ("at", "said", "told"),
    [
        ("LIST", DROP, "EOF"),
        ("LIST", b'* LIST () "/" INBOX\r\nTAG NO [SERVERBUG] later\r\n', "later"),
        ("EXAMINE", b"TAG OK done\r\n", "does not say which mails"),
        ("EXAMINE", b"* 1 EXISTS\r\n* OK [UIDVALIDITY 0x7] x\r\nTAG OK done\r\n", "does not say which mails"),
        ("SEARCH ALL", b"* SEARCH 1\r\nTAG OK done\r\n", "tells 1 of 3 mails"),
        ("SEARCH ALL", b"* SEARCH 1", "EOF"),
        ("SEARCH ALL", b"TAG OK done\r\n", "does not answer"),
        ("SEARCH ALL", b"* SEARCH 1 one\r\nTAG OK done\r\n", "no number"),
        ("SEARCH DELETED", b"* BYE later\r\n", "later"),
        ("SEARCH ALL", ENDLESS, "is over"),
        ("SEARCH ALL", b"* 1 FETCH {99999999999}\r\nx", "is over"),
        ("SEARCH ALL", b"* 1 FETCH {" + b"9" * 5000 + b"}\r\nx", "digits"),
        ("SEARCH ALL", HANG, "says nothing for 1 s"),
        ("SEARCH ALL", DRIBBLE, "does not end within 1 s"),
        ("BODYSTRUCTURE", b"* 1 FETCH (UID 1 BODYSTRUCTURE {4}\r\ntoo long\r\nby far)\r\n", "unexpected response"),
        ("BODYSTRUCTURE", b"* 1 FETCH (UID 1 BODYSTRUCTURE {900}\r\ntoo short)\r\n", "amid an answer"),
        ("AUTHENTICATE", b"+ \r\n+ \r\n+ \r\n+ \r\nTAG OK\r\n", "more than there is to say"),
        ("CAPABILITY", b"\x16\x03\x01 nonsense\r\n", "unexpected response"),
    ],
)
def test_a_listing_that_is_not_whole_is_none(
    at: str, said: bytes, told: str, server: ImapServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for subject in ("One", "Two", "Three"):
        server.put(letter(subject).as_bytes())
    server.faults[at] = said
    with monkeypatch.context() as patched:
        patched.setattr(mail_client, "MOST_BYTES", 1 << 20)
        if said in (HANG, DRIBBLE):
            patched.setattr(mail_client, "SILENCE" if said == HANG else "SECONDS", 1.0)
        assert told in fault(server, tmp_path)
    server.faults.clear()
    assert len(found(server, tmp_path).names) == 3


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"* BYE full\r\n", b"\0" * 100_000])
def test_a_server_that_is_no_mail_server_is_named(
    greeting: bytes, server: ImapServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail_client, "SILENCE", 0.3)
    server.greeting, server.faults["CAPABILITY"] = greeting, DROP
    assert "cannot list imap://ann@127.0.0.1" in fault(server, tmp_path)


def test_a_server_that_ails_while_it_is_read_fails_single_mails(
    server: ImapServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for subject in ("One", "Two"):
        server.put(letter(subject, "x" * 3_000_000 if subject == "Two" else "").as_bytes())
    with closing(connect(settings(server), tmp_path)) as source:
        one, two = (entry for page in source.entries() for entry in page)
        for said in (DROP, HANG, b"* 1 FETCH (UID 1 BODY[] {3}\r\nlonger\r\n\r\n", b"TAG NO [SERVERBUG] broken\r\n"):
            server.faults[r"BODY.PEEK\[\]"] = said
            with monkeypatch.context() as patched:
                patched.setattr(mail_client, "SILENCE", 0.3 if said == HANG else 60.0)
                source.prepare([one, two])
                for entry in (one, two):
                    with pytest.raises(DocumentError, match="the server does not send the mail") as caught:
                        list(source.read(entry))
                    assert caught.value.code == "unreadable"
        server.faults = {r"<1048576\.": DROP}
        source.prepare([one, two])
        assert b"Subject: One" in b"".join(source.read(one))
        with pytest.raises(DocumentError, match="the server does not send the mail"):
            list(source.read(two))
        server.faults.clear()
        assert len(b"".join(source.read(two))) == two.size
        del server.folders["INBOX"].mails[2]
        source.prepare([two])
        with pytest.raises(DocumentError, match="was deleted after the listing") as caught:
            list(source.read(two))
        assert caught.value.code == "changed"
        server.number_anew()
        server.faults["FETCH"] = DROP
        with pytest.raises(DocumentError):
            list(source.read(one))
        server.faults.clear()
        with pytest.raises(DocumentError, match="made anew"):
            list(source.read(one))


@pytest.mark.parametrize("said", [b"TAG NO [SERVERBUG] broken\r\n", b"* BYE internal error\r\n", DROP])
def test_a_mail_that_the_server_cannot_tell_of_is_asked_for_again(
    said: bytes, server: ImapServer, tmp_path: Path
) -> None:
    """And the others are what they are. A server may end the session at a mail that is damaged."""
    for subject in ("One", "Two"):
        server.put(with_files(subject, plan_txt=b"plan").as_bytes())
    server.faults = {r"FETCH (1,2|2) .*SIZE": said}
    with closing(connect(settings(server), tmp_path)) as source:
        uris = [entry.uri for page in source.entries() for entry in page]
        assert len(uris) == 3 and uris[2] == "INBOX/mail 2.eml"
    server.faults.clear()
    assert len(found(server, tmp_path).names) == 4


def test_a_structure_without_end_is_not_taken_for_one(
    server: ImapServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mail is one document, and those beside it are not touched by it."""
    monkeypatch.setattr(mail_client, "MOST_BYTES", 1 << 20)
    for subject in ("One", "Two"):
        server.put(with_files(subject, plan_txt=b"plan").as_bytes())
    endless = b"* 2 FETCH (UID 2 BODYSTRUCTURE (" + b'("TEXT" "PLAIN" NIL NIL NIL "7BIT" 1 1)' * 50_000
    server.faults = {r"FETCH (1,2|2) .*BODYSTRUCTURE": endless}
    names = found(server, tmp_path).names
    assert names == sorted([*_named("One", "Two"), "INBOX/2026-03-02 One/plan.txt"])
    server.asked.clear()
    assert found(server, tmp_path).names == names
    assert not any("BODYSTRUCTURE" in command for command in server.asked)


def test_a_damaged_mail_database_is_rebuilt(server: ImapServer, tmp_path: Path) -> None:
    server.put(with_files("One", plan_txt=b"plan").as_bytes())
    before = found(server, tmp_path)
    (tmp_path / "mails.db").write_bytes(b"no database" * 1000)
    now = found(server, tmp_path)
    assert (now.texts, now.revisions) == (before.texts, before.revisions)
    (tmp_path / "mails.db").unlink()
    (tmp_path / "mails.db").mkdir()
    with pytest.raises(SourceError, match="cannot be kept") as caught:
        connect(settings(server), tmp_path)
    assert caught.value.code == "disk"


@pytest.mark.parametrize(
    ("at", "said", "told"),
    [
        ("LIST", b'* LIST () ("/") INBOX\r\nTAG OK done\r\n', "names no folder"),
        ("LIST", b'* LIST ((a)) "/" INBOX\r\nTAG OK done\r\n', "marks a folder"),
        ("LIST", b'* LIST (NIL) "/" INBOX\r\nTAG OK done\r\n', "marks a folder"),
        ("LIST", b"* LIST ()\r\nTAG OK done\r\n", "values to unpack"),
        ("EXAMINE", b"* 1 EXISTS\r\n* OK [UIDVALIDITY 9999999999999999999] x\r\nTAG OK done\r\n", "which mails"),
        ("EXAMINE", b"* 9999999999 EXISTS\r\n* OK [UIDVALIDITY 1] x\r\nTAG OK done\r\n", "which mails"),
        ("SEARCH ALL", b"* SEARCH 1 2 99999999999\r\nTAG OK done\r\n", "no number of a mail"),
        ("SEARCH ALL", b"* SEARCH 1 2 9999999999999999999\r\nTAG OK done\r\n", "no number of a mail"),
        ("SEARCH ALL", b"* SEARCH 1 -2 3\r\nTAG OK done\r\n", "no number of a mail"),
        ("SEARCH ALL", b"* 1 X\r\n" * 3000 + b"TAG OK done\r\n", "over 2,000 lines"),
        ("SEARCH ALL", b"* 1 X {0}\r\n" * 3000 + b"TAG OK done\r\n", "over 2,000 lines"),
        ("SEARCH ALL", b"OTHER9 OK done\r\n", "unexpected"),
    ],
)
def test_malformed_server_replies_fail_the_source(
    at: str, said: bytes, told: str, server: ImapServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail_client, "MOST_LINES", 2000)
    for subject in ("One", "Two"):
        server.put(letter(subject).as_bytes())
    server.faults[at] = said
    assert told in fault(server, tmp_path)
    server.faults.clear()
    assert len(found(server, tmp_path).names) == 2


def test_unsolicited_server_responses_are_not_kept(server: ImapServer) -> None:
    """A session lasts for thousands of commands. But mails that went meanwhile are known."""
    for subject in ("One", "Two", "Three"):
        server.put(letter(subject).as_bytes())
    flood = b"".join(b"* %d JUNK%c\r\n" % (at, 65 + at % 26) for at in range(1000))
    server.faults = {
        "SEARCH ALL": b"* 3 EXPUNGE\r\n" + flood + b"* SEARCH 1 2\r\nTAG OK done\r\n",
        "SEARCH DELETED": b"* SEARCH\r\nTAG OK done\r\n",
    }
    client = mail_client.MailClient(
        mail_client.Account("127.0.0.1", server.port, server.user, server.password, False, False)
    )
    with closing(client):
        (folder,) = client.folders()
        client.examine(folder)
        assert (client.search(folder, "ALL"), client.count_expunged()) == ([1, 2], 1)
        assert (client.search(folder, "DELETED"), client.count_expunged()) == ([], 1)
        assert client._wire is not None and not any("JUNK" in kind for kind in client._wire.untagged_responses)
        client.examine(folder)
        assert client.count_expunged() == 0


def test_mails_of_folders_whose_names_read_alike_are_told_apart(server: ImapServer, tmp_path: Path) -> None:
    listed = (b"a", b'"&AGE-"', b'"a&AAE-"', b'"a&IAs-"')
    server.faults = {
        "LIST": b"".join(b'* LIST () "/" %b\r\n' % name for name in listed) + b"TAG OK done\r\n",
        "EXAMINE": b"* 1 EXISTS\r\n* OK [UIDVALIDITY 1] x\r\nTAG OK done\r\n",
        "SEARCH DELETED": b"* SEARCH\r\nTAG OK done\r\n",
        "SEARCH": b"* SEARCH 1\r\nTAG OK done\r\n",
        "FETCH": b"* 1 FETCH (UID 1 RFC822.SIZE 3 BODY[HEADER.FIELDS (DATE SUBJECT MESSAGE-ID)]<0> {12}\r\n"
        b"Subject: a\r\n)\r\nTAG OK done\r\n",
    }
    with closing(connect(settings(server, below="true"), tmp_path)) as source:
        uris = [entry.uri for page in source.entries() for entry in page]
    assert len(set(uris)) == 4 and {uri.split("/")[0] for uri in uris} == {"a"}


def test_a_mail_is_told_of_once_however_often_a_server_says_it(server: ImapServer, tmp_path: Path) -> None:
    """And what it says of mails that were not asked for is nothing."""
    server.put(letter("One").as_bytes())
    told = b"".join(b"* 1 FETCH (UID 1 X%d 1)\r\n* 2 FETCH (UID %d X 1)\r\n" % (at, at + 2) for at in range(20_000))
    server.faults = {"FETCH": told + b"TAG OK done\r\n"}
    with closing(connect(settings(server), tmp_path)) as source:
        assert [entry.uri for page in source.entries() for entry in page] == ["INBOX/mail 1.eml"]


def test_a_piece_that_is_longer_than_was_asked_for_fails_its_mail(server: ImapServer, tmp_path: Path) -> None:
    server.put(letter("One", "x" * 1_500_000).as_bytes())
    server.faults = {
        "PEEK.*<0[.]": b"* 1 FETCH (UID 1 BODY[]<0> {1200000}\r\n" + b"x" * 1_200_000 + b")\r\nTAG OK x\r\n"
    }
    with closing(connect(settings(server), tmp_path)) as source:
        (entry,) = [entry for page in source.entries() for entry in page]
        server.faults = {r"FETCH 1 .UID BODY.PEEK\[\]<0[.]": server.faults.popitem()[1]}
        with pytest.raises(DocumentError, match="more than was requested"):
            list(source.read(entry))


def test_a_greeting_that_is_signed_in_already_is_not_believed(server: ImapServer, tmp_path: Path) -> None:
    server.greeting = b"* PREAUTH welcome\r\n"
    fault(server, tmp_path)
