"""The parts of a mail's file that are documents of their own, and the bounds of reading them."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import DocumentError
from resources.sources import mail_parts
from resources.sources.mail_parts import Attachment, holds_parts, part_of_mail, parts_of_mail, possible_mails
from tests.support.letters import letter, with_files
from tests.support.other_formats import write_msg
from tests.support.places import DATA, needs_data


def parts(mail: EmailMessage | bytes) -> dict[str, bytes]:
    content = mail if isinstance(mail, bytes) else mail.as_bytes()
    return {part.below: part.content for part in parts_of_mail(io.BytesIO(content), "a.eml")}


def test_a_name_leads_into_each_mail_on_its_way() -> None:
    assert holds_parts("in/A.EML") and holds_parts("a.msg") and not holds_parts("a.txt")
    assert list(possible_mails("in/a.eml/b.eml/c.txt")) == [("in/a.eml", "b.eml/c.txt"), ("in/a.eml/b.eml", "c.txt")]


def test_attachments_have_the_bytes_that_were_attached() -> None:
    found = parts(with_files("Plans", plan_pdf=b"%PDF-1.4 \x00\xff", plan_zip=b"PK"))
    assert found == {"plan.pdf": b"%PDF-1.4 \x00\xff"}


def test_one_attachment_is_read_from_its_mail_as_it_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mail = tmp_path / "a.eml"
    divided = 0

    def counted(*given: Any) -> Iterator[Attachment]:
        nonlocal divided
        divided += 1
        return parts_of_mail(*given)

    def read(name: str) -> bytes:
        with open(mail, "rb") as stream:
            return part_of_mail(stream, "a.eml", name)

    monkeypatch.setattr(mail_parts, "parts_of_mail", counted)
    mail.write_bytes(with_files("Plans", one_txt=b"one", two_txt=b"two").as_bytes())
    assert (read("one.txt"), read("two.txt"), divided) == (b"one", b"two", 1)
    with pytest.raises(FileNotFoundError):
        read("other.txt")
    mail.write_bytes(with_files("Plans", one_txt=b"one more").as_bytes())
    assert read("one.txt") == b"one more" and divided == 2


def test_a_logo_in_the_text_is_no_document_and_an_attached_scan_is() -> None:
    mail = letter("Plans")
    mail.add_alternative("<p>See <img src='cid:logo'></p>", subtype="html")
    mail.get_payload()[1].add_related(b"\x89PNG logo", "image", "png", cid="<logo>", filename="logo.png")  # type: ignore[union-attr, index]
    assert parts(mail) == {}


def test_an_attached_text_keeps_the_encoding_that_the_mail_says() -> None:
    mail = letter("Rules")
    mail.add_attachment("правила", filename="rules.txt", charset="koi8-u", cte="8bit")
    assert parts(mail) == {"rules.txt": "правила\n".encode()}


def test_attached_mails_are_documents_and_so_is_what_they_hold() -> None:
    mail = letter("Outer")
    mail.add_attachment(with_files("Inner", plan_txt=b"plan"))
    found = parts(mail)
    assert list(found) == ["Inner.eml", "Inner.eml/plan.txt"]
    assert found["Inner.eml"].startswith(b"Subject: Inner") and found["Inner.eml/plan.txt"] == b"plan"


@pytest.mark.parametrize("media_type", ["application/octet-stream", "message/rfc822"])
def test_a_mail_that_is_attached_as_a_file_has_its_attachments_too(media_type: str) -> None:
    inner = with_files("Inner", plan_txt=b"plan").as_bytes()
    head = f"Content-Type: {media_type}; name=Fwd.eml\nContent-Transfer-Encoding: base64\n".encode()
    outer = b"Subject: Outer\nContent-Type: multipart/mixed; boundary=q\n\n--q\n%b\n%b\n--q--\n"
    found = parts(outer % (head + b"Content-Disposition: attachment\n", base64.encodebytes(inner)))
    assert found == {"Fwd.eml": inner, "Fwd.eml/plan.txt": b"plan"}


def test_a_mail_in_an_outlook_message_has_its_attachments_too(tmp_path: Path) -> None:
    write_msg(tmp_path / "a.msg", "Fwd.eml", with_files("Inner", plan_txt=b"plan").as_bytes())
    with open(tmp_path / "a.msg", "rb") as stream:
        assert [part.below for part in parts_of_mail(stream, "a.msg")] == ["Fwd.eml", "Fwd.eml/plan.txt"]


def test_an_attached_mail_that_cannot_be_divided_is_a_document_and_costs_no_others() -> None:
    mail = letter("Outer")
    mail.add_attachment(b"no mail", maintype="application", subtype="octet-stream", filename="old.msg")
    mail.add_attachment(b"plan", maintype="application", subtype="octet-stream", filename="plan.txt")
    first, second = parts_of_mail(io.BytesIO(mail.as_bytes()), "a.eml")
    assert (first.below, second) == ("old.msg", Attachment("plan.txt", b"plan"))
    assert first.undivided.startswith("a.eml/old.msg: its attachments cannot be read (")


def test_mails_deep_within_mails_are_not_divided_and_that_is_told() -> None:
    mail = with_files("Deep", plan_txt=b"plan")
    for _ in range(6):
        outer = letter("Deep")
        outer.add_attachment(mail)
        mail = outer
    found = list(parts_of_mail(io.BytesIO(mail.as_bytes()), "a.eml"))
    assert [part.below.count("/") for part in found] == [0, 1, 2, 3, 4]
    assert [bool(part.undivided) for part in found] == [False] * 4 + [True]
    assert found[-1].undivided.endswith("not read, since 5 mails are around the mail: save them as files")


def test_attachments_without_end_are_not_read() -> None:
    mail = letter("Outer")
    for _ in range(4):
        inner = with_files("Inner", **{f"plan{at}_txt": b"plan" for at in range(80)}).as_bytes()
        mail.add_attachment(inner, maintype="application", subtype="octet-stream", filename="inner.eml")
    found = list(parts_of_mail(io.BytesIO(mail.as_bytes()), "a.eml"))
    assert [part.below for part in found if part.undivided] == ["inner~4.eml"]
    assert len(found) == 4 + 3 * 80


def test_two_attachments_of_one_name_are_told_apart() -> None:
    mail = letter("Plans")
    for text in (b"one", b"two"):
        mail.add_attachment(text, maintype="application", subtype="octet-stream", filename="plan.txt")
    assert parts(mail) == {"plan.txt": b"one", "plan~2.txt": b"two"}


def test_names_lead_nowhere_else() -> None:
    mail = letter("Plans")
    for name in ("../../etc/passwd.txt", "a\\b.txt", ".hidden.txt"):
        mail.add_attachment(b"text", maintype="application", subtype="octet-stream", filename=name)
    assert list(parts(mail)) == ["_.._etc_passwd.txt", "a_b.txt", "hidden.txt"]


def test_a_mail_that_is_too_large_is_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail_parts, "LARGEST", 1000)
    with pytest.raises(DocumentError, match=r"^a\.eml: its attachments are not read, since it is larger") as raised:
        parts(with_files("Plans", plan_txt=b"x" * 2000))
    assert raised.value.code == "limit_exceeded"


def test_boundaries_without_end_are_not_parsed() -> None:
    nested = "".join(f'Content-Type: multipart/mixed; boundary="b{at}"\n\n--b{at}\n' for at in range(200))
    with pytest.raises(DocumentError, match="more than 100 boundaries"):
        parts(nested.encode())


def test_mails_within_mails_without_end_are_a_damaged_mail() -> None:
    with pytest.raises(DocumentError, match="cannot be read") as raised:
        parts(b"Content-Type: message/rfc822\n\n" * 5000)
    assert raised.value.code == "corrupt"


def test_a_message_of_outlook_that_is_none_is_told() -> None:
    with pytest.raises(DocumentError, match=r"^a\.msg: its attachments cannot be read"):
        list(parts_of_mail(io.BytesIO(b"no mail"), "a.msg"))


def test_attachments_of_a_message_of_outlook_are_documents(tmp_path: Path) -> None:
    write_msg(tmp_path / "a.msg", "plan.txt")
    with open(tmp_path / "a.msg", "rb") as stream:
        assert [(part.below, part.content) for part in parts_of_mail(stream, "a.msg")] == [
            ("plan.txt", b"the bytes of it")
        ]


@needs_data("field-cases/l01-nested-rfc822.eml")
def test_a_forwarded_mail_of_the_field_cases_is_a_document() -> None:
    found = parts((DATA / "field-cases/l01-nested-rfc822.eml").read_bytes())
    assert list(found) == ["Inner quote.eml"]
    assert b"Subject: Inner quote" in found["Inner quote.eml"] and b"The forw" in found["Inner quote.eml"]
