from __future__ import annotations

import re
from email import message_from_bytes

import pytest

from pipelines.parsing import mail as mail_parts
from pipelines.parsing.mail import (
    WHOLE,
    AttachmentNames,
    MailDocument,
    clean_name,
    document_name,
    documents_of,
    parameter,
)
from pipelines.parsing.mail import decoded_body as decoded
from resources.connectors.mail import mail_name
from resources.connectors.mail_client import Folder, folder_name, folder_of, groups, message_of, values
from tests.support import hostile_mails
from tests.support.imap_server import section, structure
from tests.support.letters import letter, with_files


def documents(raw: bytes) -> list[MailDocument]:
    return documents_of(values(as_pieces(structure(message_from_bytes(raw))))[0], len(raw))


def as_pieces(said: bytes) -> list:
    """As imaplib gives an answer with literals."""
    found: list = []
    while literal := re.search(rb"\{(\d+)\}\r\n", said):
        end = literal.end() + int(literal[1])
        found.append((said[: literal.end() - 2], said[literal.end() : end]))
        said = said[end:]
    return [*found, said]


def texts(raw: bytes) -> dict[str, bytes]:
    """What each document of a mail is, by its name."""
    message = message_from_bytes(raw)
    pieces = {
        "/".join(found.below): [
            item.encode() if isinstance(item, str) else section(raw, message, item.name) for item in found.pieces
        ]
        for found in documents(raw)
    }
    encodings = {"/".join(found.below): found.encoding for found in documents(raw)}
    return {name: b"".join(decoded(found, encodings[name])) for name, found in pieces.items()}


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize(
    ("pieces", "found"),
    [
        ([b'1 (UID 5 X "a\\"b" NIL "NIL" ())'], [b"1", [b"UID", b"5", b"X", b'a"b', None, b"NIL", []]]),
        ([(b"1 (BODY[1.MIME]<0> {3}", b"a)("), b" UID 5)"], [b"1", [b"BODY[1.MIME]<0>", b"a)(", b"UID", b"5"]]),
        ([b"BODY[HEADER.FIELDS (DATE TO)] NIL"], [b"BODY[HEADER.FIELDS (DATE TO)]", None]),
        ([b'(\\Noselect) "/" [Gmail]/Sent'], [[b"\\Noselect"], b"/", b"[Gmail]/Sent"]),
    ],
)
def test_answers_are_nested_lists(pieces: list, found: list) -> None:
    assert values(pieces) == found


@pytest.mark.parametrize("line", [b"(", b")", b"a)", b'"a', b"(" * 100 + b")" * 100, b"a " * 30_000, b'"' * 99_999])
def test_an_answer_that_is_none_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="an answer"):
        values([line])
    assert message_of([b"1 (" + line]) == {}


def test_answers_end_where_no_literal_follows() -> None:
    pieces = [(b"1 (X {1}", b"a"), (b" Y {1}", b"b"), b")", None, b"2 (X c)"]
    assert [message_of(group) for group in groups(pieces)] == [{"X": b"a", "Y": b"b"}, {"X": b"c"}]


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b"&BB8EPgRIBEIEMA-.A&-B", "Пошта.A&B"),
        (b"&ZeVnLIqe-", "日本語"),
        (b"INBOX", "INBOX"),
        ("Пошта".encode(), "Пошта"),
        (b"&AAA", "&AAA"),
        (b"&A-", "&A-"),
    ],
)
def test_names_of_folders_are_in_modified_utf_7(raw: bytes, name: str) -> None:
    assert folder_name(raw) == name


def test_folders_have_parts() -> None:
    assert folder_of([b'(\\HasChildren \\Junk) "." Inbox.a/b']) == Folder(
        b"Inbox.a/b", ("INBOX", "a/b"), frozenset({"\\haschildren", "\\junk"})
    )
    assert folder_of([b"() NIL x.y"]).parts == ("x.y",)
    with pytest.raises(ValueError, match="control"):
        _ = Folder(b"a\r\nLOGOUT", ("a",)).quoted_name


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("../../etc/passwd", "_.._etc_passwd"),
        ("a\\b\0c\r\nd\u202efdp.txt", "a_bcdfdp.txt"),
        (".hidden", "hidden"),
        (" .. ", ""),
        ("ы" * 200 + ".pdf", "ы" * 58 + ".pdf"),
        ("e\u0301", "é"),
        ("a.\ud800", "a"),
    ],
)
def test_names_are_parts_of_a_path(given: str, name: str) -> None:
    assert clean_name(given) == name


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ([b"FILENAME", b"plan.pdf"], "plan.pdf"),
        ([b"filename", b"=?utf-8?B?0L/Qu9Cw0L0ucGRm?="], "план.pdf"),
        ([b"filename*", b"utf-8''%D0%BF%D0%BB%D0%B0%D0%BD.pdf"], "план.pdf"),
        ([b"filename*0*", b"utf-8''%D0%BF", b"filename*1*", b"%D0%BB", b"filename*2", b"an.pdf"], "плan.pdf"),
        ([b"filename*", b"bogus''%FFa.pdf"], "ÿa.pdf"),
        ([b"filename", "план.pdf".encode()], "план.pdf"),
        ([b"filename", b'a"b\\c.pdf'], 'a"b\\c.pdf'),
        ([b"filename*0*", b"''%"], "%"),
        ([b"filename", None], ""),
        ([b"other", b"x", b"odd"], ""),
    ],
)
def test_parameters_are_decoded(parameters: list, name: str) -> None:
    assert parameter(parameters, "filename") == name


def test_a_mail_is_named_by_date_and_subject() -> None:
    head = b"Subject: =?utf-8?q?Re=3A_a/b?=\r\nDate: Mon, 02 Mar 2026 23:59:00 -1100\r\nMessage-ID: <1>\r\n\r\n"
    assert mail_name(head).startswith("2026-03-02 Re: a_b ")
    assert mail_name(head) == mail_name(head) != mail_name(head.replace(b"<1>", b"<2>"))
    for date in (b"never", b"Mon, 99 Foo 99999 99:99:99 +9999", b"", b"1 " * 1000):
        assert mail_name(b"Date: %b\r\n\r\n" % date).startswith("no subject ")


@pytest.mark.parametrize(
    ("said", "media_type", "name"),
    [
        ("plan.PDF", "application/octet-stream", "plan.PDF"),
        ("plan", "application/pdf", "plan.pdf"),
        ("", "application/pdf", "attachment.pdf"),
        ("", "message/rfc822", "message.eml"),
        ("Re: plan.pdf", "message/rfc822", "Re: plan.pdf.eml"),
        ("photo.gif", "image/gif", None),
        ("all.zip", "application/zip", None),
        ("plan.pdf.elements.json", "application/octet-stream", None),
        ("plan.pdf.meta.yaml", "application/octet-stream", None),
    ],
)
def test_a_readable_part_has_a_name_that_shows_its_type(said: str, media_type: str, name: str | None) -> None:
    assert document_name(said, media_type) == name


def test_names_within_a_mail_are_told_apart() -> None:
    names = AttachmentNames()
    given = ("a.txt", "A.TXT", "a.txt", "m.eml", "m.eml.eml", "m.pdf", "m")
    assert [names.take(name) for name in given] == [
        *("a.txt", "A~2.TXT", "a~3.txt", "m.eml", "m.eml~2.eml", "m.pdf", "~2.m"),
    ]


# ---------------------------------------------------------------- parts


def test_readable_parts_are_separate_and_other_parts_are_named() -> None:
    mail = with_files("Plans", plan_txt=b"=3D plan", photo_gif=b"picture")
    mail.add_attachment(with_files("Within", keys_csv=b"a,b"))
    found = texts(mail.as_bytes())
    assert list(found) == ["", "plan.txt", "Within.eml", "Within.eml/keys.csv"]
    assert (found["plan.txt"], found["Within.eml/keys.csv"]) == (b"=3D plan", b"a,b")
    own = message_from_bytes(found[""])
    assert [part.get_filename() for part in own.walk()] == [None, None, "photo.gif"]
    assert b"See below." in found[""] and b"cGljdHVyZQ" not in found[""]


def test_a_text_is_the_mail_and_not_attached_to_it() -> None:
    named = letter("Named")
    named.set_param("name", "body.txt")
    inline = letter("Inline")
    inline.make_mixed()
    inline.attach(letter("x", "The footer."))
    for mail in (letter("Plain"), named):
        assert [found.pieces for found in documents(mail.as_bytes())] == [WHOLE]
    only = letter("Only")
    only.add_header("Content-Disposition", "attachment", filename="plan.txt")
    assert list(texts(only.as_bytes())) == ["", "plan.txt"]


@pytest.mark.parametrize("name", list(hostile_mails.mails()))
def test_a_hostile_mail_is_a_bounded_number_of_documents(name: str) -> None:
    raw = hostile_mails.mails()[name]
    if name in ("mails within mails", "parts within parts", "many"):
        with pytest.raises(ValueError, match="more parts than are read"):
            documents(raw)
    else:
        found = documents(raw)
        assert found[0].below == () and 1 <= len(found) <= mail_parts.MOST_PARTS
        names = ["/".join(document.below).casefold() for document in found]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "structure",
    [None, [], [None], [b"TEXT"], [[b"TEXT"], b"MIXED"], [b"TEXT", b"PLAIN", None, None, None, b"7BIT", [b"1"]],
     [[b"A", b"B", None, None, None, b"", b"1"], [b"A", b"B", None, None, None, b"", b"1"], b"MIXED"],
     [b"A", b"B", None, None, None, b"", b"1", None, b"ATTACHMENT"], [[[[[]]]]]],
)  # fmt: skip
def test_an_invalid_structure_gives_the_mail_as_a_whole(structure: object) -> None:
    assert [found.pieces for found in documents_of(structure, 10)] == [WHOLE]


def test_a_mail_of_very_many_parts_is_one_document() -> None:
    files = {f"plan{number}_txt": b"plan" for number in range(mail_parts.MOST_PARTS - 2)}
    assert len(documents(with_files("Plans", **files).as_bytes())) == mail_parts.MOST_PARTS - 1
    files["another_txt"] = b"plan"
    assert [found.pieces for found in documents(with_files("Plans", **files).as_bytes())] == [WHOLE]


def test_mails_within_mails_are_looked_into_so_far() -> None:
    found = documents(hostile_mails.within(10))
    assert [len(document.below) for document in found] == [0, 1, 2, 3, 4, 5, 6]
    assert len(found[-1].pieces) == 1, "what is below it is within it"


# ---------------------------------------------------------------- encodings


@pytest.mark.parametrize(
    ("encoding", "text", "plain"),
    [
        ("base64", b"JVBE\r\nRi0x\r\n", b"%PDF-1"),
        ("base64", b"!J\0V-B_E\xff", b"%PD"),
        ("base64", b"JQ==UERG", b"%PDF"),
        ("base64", b"JVBER", b"%PD"),
        ("base64", b"====", b""),
        ("quoted-printable", b"a=3Db=\r\nc=\r\n\r\nd=", b"a=bc\r\nd"),
        ("quoted-printable", b"=ZZ==", b"=ZZ="),
        ("8bit", b"=3D", b"=3D"),
        ("", b"=3D", b"=3D"),
    ],
)
def test_encodings_are_undone_in_pieces(encoding: str, text: bytes, plain: bytes) -> None:
    assert b"".join(decoded([text], encoding)) == plain
    assert b"".join(decoded([text[at : at + 1] for at in range(len(text))], encoding)) == plain
