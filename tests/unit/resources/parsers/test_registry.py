"""Media types by name, content checked, parsers found."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import DocumentError
from resources.parsers.registry import MEDIA_TYPES, check_content, media_type_of, parser_of


def test_every_media_type_has_a_parser() -> None:
    assert all(callable(parser_of(media_type)) for media_type in MEDIA_TYPES.values())


def test_media_type_by_name_alone() -> None:
    assert media_type_of(Path("not/there/A.PDF")) == "application/pdf"
    assert media_type_of(Path("a.exe")) is None


@pytest.mark.case(17)
@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.pdf", b"", "empty"),
        ("a.pdf", b"PK\x03\x04 not a pdf", "corrupt"),
        ("a.docx", b"%PDF-1.7", "corrupt"),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "corrupt"),
        ("a.xlsx", b"plain text", "corrupt"),
        ("a.txt", b"\x89PNG\r\n\x1a\n", "corrupt"),
        ("a.html", b"%PDF-1.4", "corrupt"),
    ],
)
def test_content_that_is_not_what_the_name_says(tmp_path: Path, name: str, content: bytes, code: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DocumentError) as caught:
        check_content(path, media_type_of(path) or "")
    assert caught.value.code == code
    assert name in str(caught.value)


def test_unsupported() -> None:
    with pytest.raises(DocumentError) as caught:
        parser_of("image/gif")
    assert caught.value.code == "unsupported"
