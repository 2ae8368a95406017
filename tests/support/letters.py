"""Letters as people send them."""

from __future__ import annotations

from email.message import EmailMessage


def letter(subject: str, text: str = "See below.", number: int = 1) -> EmailMessage:
    made = EmailMessage()
    made["Subject"], made["From"], made["To"] = subject, "Ann <ann@example.org>", "bob@example.org"
    made["Date"], made["Message-ID"] = "Mon, 02 Mar 2026 10:00:00 +0000", f"<{number}@example.org>"
    made.set_content(text)
    return made


def with_files(subject: str, **files: bytes) -> EmailMessage:
    """With files attached, whose names have dots for underscores."""
    made = letter(subject)
    for name, content in files.items():
        kind = "pdf" if name.endswith("pdf") else "octet-stream"
        made.add_attachment(content, maintype="application", subtype=kind, filename=name.replace("_", "."))
    return made
