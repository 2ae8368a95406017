"""The cost of books and mails of a hostile author: in proportion to their size, and an error by name."""

from __future__ import annotations

import zipfile
from email.policy import EmailPolicy
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import DocumentError
from resources.parsers.registry import media_type_of, parse_file
from tests.support.growth import Parts, assert_linear

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="b.opf"/>'
    "</rootfiles></container>"
)


def _book(path: Path, items: str, spine: str, pages: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("mimetype", "application/epub+zip")
        package.writestr("META-INF/container.xml", CONTAINER)
        opf = f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}</manifest><spine>{spine}</spine></package>'
        package.writestr("b.opf", opf)
        for name, content in pages.items():
            package.writestr(name, content)
    return path


def _item(name: str) -> str:
    return f'<item id="{name}" href="{name}.xhtml" media-type="application/xhtml+xml"/>'


def _page(head: str = "") -> str:
    return f'<html xmlns="http://www.w3.org/1999/xhtml"><head>{head}</head><body><p class="a1">Hi.</p></body></html>'


LINK = '<link rel="stylesheet" href="c.css"/>'
OTHER = '<link rel="stylesheet" href="d.css"/>'


def _rules(count: int) -> str:
    return "".join(f".a{at}{{font-size:2em}}" for at in range(count))


def _of_many_links(path: Path, size: int) -> Path:
    return _book(path, _item("p"), '<itemref idref="p"/>', {"p.xhtml": _page(LINK * size), "c.css": _rules(size)})


def _of_many_pages(path: Path, size: int) -> Path:
    names = [f"p{at}" for at in range(size)]
    spine = "".join(f'<itemref idref="{name}"/>' for name in names)
    pages = {f"{name}.xhtml": _page(LINK + OTHER) for name in names}
    return _book(path, "".join(map(_item, names)), spine, {**pages, "c.css": _rules(10 * size), "d.css": _rules(size)})


def _of_many_items(path: Path, size: int) -> Path:
    names = [f"p{at}" for at in range(size)]
    spine = "".join(f'<itemref idref="{name}"/>' for name in names[: size // 2])
    return _book(path, "".join(map(_item, names)), spine, {"p0.xhtml": _page()})


@pytest.mark.parametrize(("make", "size"), [(_of_many_links, 200), (_of_many_pages, 50)])
def test_style_sheets_are_not_put_together_for_each_page_and_link(tmp_path: Path, make: object, size: int) -> None:
    def counted(length: int) -> dict[str, int]:
        parts = Parts()
        path = make(tmp_path / "book.epub", length)  # type: ignore[operator]
        parts.counted("parse", lambda: parse_file(path, media_type_of(path) or ""))
        return parts.steps

    assert_linear(counted, size)


def test_pages_outside_the_order_are_told(tmp_path: Path) -> None:
    path = _of_many_items(tmp_path / "book.epub", 8)
    assert parse_file(path, media_type_of(path) or "").warnings == (
        "3 pages of the reading order are missing in the file",
        "pages outside the reading order were not read: p4.xhtml, p5.xhtml, p6.xhtml, p7.xhtml",
    )


def test_a_later_sheet_of_a_page_is_above_an_earlier_one(tmp_path: Path) -> None:
    sheets = {"c.css": ".a1{display:none}", "d.css": ".a1{display:block}"}
    for links, texts in (
        (LINK + OTHER, ["Hi."]),
        (OTHER + LINK, []),
        (LINK + "<style>.a1{display:block}</style>", ["Hi."]),
    ):
        path = _book(tmp_path / "b.epub", _item("p"), '<itemref idref="p"/>', {"p.xhtml": _page(links), **sheets})
        found = parse_file(path, media_type_of(path) or "")
        assert ["".join(run.text for run in block.runs) for block in found.blocks] == texts


def test_mails_nested_without_end_are_an_error_by_name(tmp_path: Path) -> None:
    path = tmp_path / "deep.eml"
    path.write_text(
        "From: a@b.c\n" + "Content-Type: message/rfc822\n\n" * 1500 + "Subject: x\n\nhi\n", encoding="utf-8"
    )
    with pytest.raises(DocumentError, match="nested too deeply") as error:
        parse_file(path, media_type_of(path) or "")
    assert error.value.code == "limit_exceeded"


def test_a_warning_names_no_folder_that_is_another_one_each_time(tmp_path: Path) -> None:
    path = tmp_path / "notes.org"
    path.write_text('#+INCLUDE: "no-such-file.org"\n\nText.\n', encoding="utf-8")
    warnings = [parse_file(path, media_type_of(path) or "").warnings for _ in range(2)]
    assert warnings[0] == warnings[1] and len(warnings[0]) == 1 and "/" not in warnings[0][0]


def test_a_long_header_is_taken_apart_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library takes as long as the square of what it is given."""
    path, given, take_apart = tmp_path / "long.eml", list[int](), EmailPolicy.header_fetch_parse

    def noted(policy: EmailPolicy, name: str, value: str) -> Any:
        given.append(len(value))
        return take_apart(policy, name, value)

    monkeypatch.setattr(EmailPolicy, "header_fetch_parse", noted)
    path.write_text(f"From: a@b.c\nContent-Type: text/plain; {'a*0*=b; ' * 1_500}\n\nWords.\n", encoding="utf-8")
    assert parse_file(path, media_type_of(path) or "").blocks[-1].runs[0].text == "Words."
    assert 5_000 < max(given) <= 10_000


@pytest.mark.parametrize("said", ["a*0*", "charset*", "a*0", "a*0*=x''", "=", ";", "a*0*=; b*"])
def test_parameters_that_end_too_early_are_left_out(tmp_path: Path, said: str) -> None:
    path = tmp_path / "odd.eml"
    for header in (f"Content-Type: text/plain; {said}", f"Content-Disposition: inline; {said}"):
        path.write_text(f"From: a@b.c\n{header}\n\nWords.\n", encoding="utf-8")
        assert parse_file(path, media_type_of(path) or "").blocks[-1].runs[0].text == "Words."
