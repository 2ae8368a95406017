"""Mails whose words are not in one text: invitations, and texts around attachments."""

from __future__ import annotations

from email.message import Message
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path

import pytest

from pipelines.records import ParsedFile
from resources.parsers.text import email
from resources.parsers.text.invitations import MOST_ENTRIES, entries_in
from tests.support.places import DATA, needs_data

OUTLOOK = """BEGIN:VCALENDAR
METHOD:REQUEST
PRODID:Microsoft Exchange Server 2010
BEGIN:VTIMEZONE
TZID:W. Europe Standard Time
BEGIN:STANDARD
DTSTART:16010101T030000
END:STANDARD
END:VTIMEZONE
BEGIN:VEVENT
ORGANIZER;CN="Schulz, Anna":mailto:anna@example.com
ATTENDEE;ROLE=REQ-PARTICIPANT;CN=Bob:mailto:bob@example.com
ATTENDEE;CN=eva@example.com:MAILTO:eva@example.com
DESCRIPTION;LANGUAGE=de-DE:Bitte Unterlagen mitbringen.\\nKos
 ten\\, Termine\\; Umbau
SUMMARY;LANGUAGE=de-DE:Vorstandssitzung
DTSTART;TZID=W. Europe Standard Time:20261110T100000
DTEND;TZID=W. Europe Standard Time:20261110T113000
LOCATION:Raum 5\\, 2. OG
RRULE:FREQ=WEEKLY;COUNT=4
BEGIN:VALARM
DESCRIPTION:REMINDER
END:VALARM
END:VEVENT
END:VCALENDAR
"""
ENTRY = [
    "Event: Vorstandssitzung",
    "Start: 2026-11-10 10:00 (W. Europe Standard Time)",
    "End: 2026-11-10 11:30 (W. Europe Standard Time)",
    "Repeats: FREQ=WEEKLY;COUNT=4",
    "Location: Raum 5, 2. OG",
    "Organizer: Schulz, Anna <anna@example.com>",
    "Attendees: Bob <bob@example.com>, eva@example.com",
    "Bitte Unterlagen mitbringen.",
    "Kosten, Termine; Umbau",
]


def texts(text: str) -> list[str]:
    return ["".join(run.text for run in block.runs) for block in entries_in(text)[0]]


def test_an_invitation_of_outlook() -> None:
    blocks, warnings = entries_in(OUTLOOK)
    assert ["".join(run.text for run in block.runs) for block in blocks] == ENTRY
    assert warnings == ()
    assert blocks[4].metadata == {"kv.Location": "Raum 5, 2. OG"}


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("SUMMARY:Свято\r\nDTSTART;VALUE=DATE:20260824", ["Event: Свято", "Start: 2026-08-24"]),
        (
            "SUMMARY:会議の\n お知らせ\nDTSTART:20261110T010000Z",
            ["Event: 会議のお知らせ", "Start: 2026-11-10 01:00 (UTC)"],
        ),
        ("SUMMARY:Réunion\nDTSTART:20261110T100000", ["Event: Réunion", "Start: 2026-11-10 10:00"]),
        ("SUMMARY:Yıllık izin\nSTATUS:CANCELLED", ["Event: Yıllık izin", "Status: CANCELLED"]),
        ("summary:ישיבה\nX-ALT-DESC;FMTTYPE=text/html:<b>x</b>\nUID:7", ["Event: ישיבה"]),
        ("no colon\n:\nSUMMARY:\nLOCATION:Zürich", ["Location: Zürich"]),
    ],
)
def test_entries_of_other_programs(lines: str, found: list[str]) -> None:
    assert texts(f"BEGIN:VCALENDAR\nBEGIN:VEVENT\n{lines}\nEND:VEVENT\nEND:VCALENDAR\n") == found
    assert texts(f"BEGIN:VTODO\n{lines}\n") == found


def test_entries_beyond_the_bound_are_counted() -> None:
    blocks, warnings = entries_in("BEGIN:VEVENT\nSUMMARY:x\nEND:VEVENT\n" * (MOST_ENTRIES + 3))
    assert len(blocks) == MOST_ENTRIES
    assert warnings == ("3 further entries of a calendar were left out",)


# ---------------------------------------------------------------- mails


def _part(text: str, kind: str) -> MIMEText:
    return MIMEText(text, kind, "utf-8")


def _read(tmp_path: Path, message: Message, *parts: Message) -> ParsedFile:
    message["From"], message["Subject"] = "anna@example.com", "Sitzung"
    for part in parts:
        message.attach(part)
    path = tmp_path / "mail.eml"
    path.write_bytes(message.as_bytes())
    return email.parse(path)


def _body(parsed: ParsedFile) -> list[str]:
    return ["".join(run.text for run in block.runs) for block in parsed.blocks][2:]


@needs_data("field-cases")
def test_a_mail_that_is_only_an_invitation() -> None:
    found = _body(email.parse(DATA / "field-cases" / "l10-calendar.eml"))
    assert "Event: Board meeting" in found
    assert any("Room 5" in text for text in found)


def test_an_invitation_beside_an_empty_text(tmp_path: Path) -> None:
    parsed = _read(tmp_path, MIMEMultipart("alternative"), _part("", "plain"), _part(OUTLOOK, "calendar"))
    assert _body(parsed) == ENTRY
    assert parsed.warnings == ()


def test_an_invitation_that_repeats_the_text_and_is_attached_too(tmp_path: Path) -> None:
    shown = MIMEMultipart("alternative")
    for part in (
        _part("Bitte Unterlagen mitbringen.", "plain"),
        _part("<p>Bitte Unterlagen mitbringen.</p>", "html"),
        _part(OUTLOOK, "calendar"),
    ):
        shown.attach(part)
    attached = _part(OUTLOOK, "calendar")
    attached.replace_header("Content-Type", "application/ics; name=invite.ics")
    attached.add_header("Content-Disposition", "attachment", filename="invite.ics")
    parsed = _read(tmp_path, MIMEMultipart("mixed"), shown, attached)
    first = "Bitte Unterlagen mitbringen."
    assert _body(parsed) == [first, *(line for line in ENTRY if line != first)]
    assert parsed.warnings == ()


def test_texts_around_a_picture(tmp_path: Path) -> None:
    picture = _part("x", "plain")
    picture.replace_header("Content-Type", "image/gif")
    picture.add_header("Content-Disposition", "inline", filename="plan.gif")
    parsed = _read(
        tmp_path, MIMEMultipart("mixed"), _part("Перша частина.", "plain"), picture, _part("Друга частина.", "plain")
    )
    assert _body(parsed) == ["Перша частина.", "Друга частина."]
    assert parsed.warnings == ("attachments were not read: plan.gif",)


def test_texts_around_a_file_in_the_html_form(tmp_path: Path) -> None:
    mixed = MIMEMultipart("mixed")
    for part in (_part("<p>Teil eins</p>", "html"), _part("<p>Teil zwei</p>", "html")):
        mixed.attach(part)
    parsed = _read(tmp_path, MIMEMultipart("alternative"), _part("Teil eins", "plain"), mixed)
    assert _body(parsed) == ["Teil eins", "Teil zwei"]


def test_a_footer_that_a_list_adds(tmp_path: Path) -> None:
    related = MIMEMultipart("related")
    related.attach(_part("<p>한국어 본문입니다.</p>", "html"))
    parsed = _read(tmp_path, MIMEMultipart("mixed"), related, _part("Liste: https://example.org", "plain"))
    assert _body(parsed) == ["한국어 본문입니다.", "Liste: https://example.org"]
