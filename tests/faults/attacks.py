"""One document of each attack that is known: what it is made of, and what must come of it."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.pdf_objects import stream_bomb

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TYPES = "http://schemas.openxmlformats.org/package/2006"
ALIASES = 'a: &a ["ha", "ha", "ha", "ha", "ha", "ha", "ha", "ha", "ha"]\n' + "".join(
    f"{name}: &{name} [{', '.join([f'*{last}'] * 9)}]\n" for last, name in zip("abcdefgh", "bcdefghi", strict=True)
)
"""600 bytes that stand for 3 GB."""

Write = Callable[[Path], object]


@dataclass(frozen=True)
class Attack:
    """`ends` are the (stage, code) that it may fail with; none where it is a document like others, and served."""

    write: Write
    ends: frozenset[tuple[str, str]] = frozenset()


def _text(text: str) -> Write:
    return lambda path: path.write_text(text, encoding="utf-8")


def _beside(text: str) -> Write:
    """An innocent document with this side-car."""

    def write(path: Path) -> None:
        path.write_text("A note of the warden about the lamps.", encoding="utf-8")
        path.with_name(f"{path.name}.meta.yaml").write_text(text, encoding="utf-8")

    return write


def _package(**parts: str | bytes) -> Write:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
            for name, part in parts.items():
                package.writestr(name, part)

    return write


def _word(body: str, head: str = "") -> Write:
    return _package(**{"word/document.xml": f"{head}<w:document {W}><w:body>{body}</w:body></w:document>"})


def _sheet(rows: str, strings: str = "", more: str = "") -> Write:
    relation = f'<Relationship Id="{{}}" Type="{R}/{{}}" Target="{{}}"/>'.format
    root = f'<Relationships xmlns="{TYPES}/relationships">{{}}</Relationships>'.format
    return _package(
        **{
            "[Content_Types].xml": f'<Types xmlns="{TYPES}/content-types"/>',
            "_rels/.rels": root(relation("r1", "officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": f'<workbook {S} xmlns:r="{R}"><sheets><sheet name="A" sheetId="1" r:id="r1"/></sheets>'
            "</workbook>",
            "xl/_rels/workbook.xml.rels": root(
                relation("r1", "worksheet", "worksheets/sheet1.xml")
                + relation("r2", "sharedStrings", "sharedStrings.xml")
            ),
            "xl/sharedStrings.xml": f"<sst {S}>{strings}</sst>",
            "xl/worksheets/sheet1.xml": f"<worksheet {S}><sheetData>{rows}</sheetData>{more}</worksheet>",
        }
    )


def _pdf(lines: list[str]) -> Write:
    def write(path: Path) -> None:
        from reportlab.pdfgen.canvas import Canvas

        canvas = Canvas(str(path))
        for number, line in enumerate(lines):
            canvas.drawString(40, 780 - 14 * number, line)
        canvas.save()

    return write


_FORM = f"Name: {'_' * 60} Date: {'_' * 40}\n\nSignature: {'_' * 200}\n\nI agree to the terms of the hall.\n"
_CONTENTS = "\n".join(f"{n}. Chapter {n} of the rules {'.' * (20 + 9 * n)} {n + 2}" for n in range(1, 32))
_PARAGRAPHS = "".join(f"<w:p><w:r><w:t>{line}</w:t></w:r></w:p>" for line in f"{_FORM}{_CONTENTS}".splitlines() if line)
_ENTITIES = '<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {name} "{f"&{last};" * 10}">' for last, name in zip("abcdefghij", "bcdefghijk", strict=True)
)
_SHARED = f"<si><t>{'lamp ' * 6_000}</t></si>"
_CELLS = "".join(f'<row r="{n}"><c r="A{n}" t="s"><v>0</v></c></row>' for n in range(1, 5_001))

_FIELD = (
    '<w:tr><w:tc><w:p><w:r><w:t>Box {n}</w:t></w:r></w:p></w:tc><w:sdt><w:sdtPr><w:alias w:val="Field {n}"/></w:sdtPr>'
    "<w:sdtContent><w:tc><w:p><w:r><w:t>{n} pens</w:t></w:r></w:p></w:tc></w:sdtContent></w:sdt></w:tr>"
)
_FIELDS = f"<w:tbl>{''.join(_FIELD.format(n=n) for n in range(6_000))}</w:tbl>"
_SENTENCES = "\n\n".join(" ".join(f"The hall {at} opens at {n}." for n in range(700)) for at in range(60))
_CODE = "".join(f"a({n})\n" for n in range(50_000))

LIMIT = frozenset({("parsed_elements", "limit_exceeded")})
MAP = frozenset({("parsed_elements", "element_map"), ("parsed_elements", "element_map_limit")})
KILLED = LIMIT | {("parsed_elements", "timeout"), ("parsed_elements", "crashed")}

ATTACKS: Mapping[str, Attack] = {
    # Ordinary, and once without end.
    "form.txt": Attack(_text(_FORM)),
    "form.docx": Attack(_word(_PARAGRAPHS)),
    "form.pdf": Attack(_pdf([f"Signature: {'_' * 60}", f"Date: {'.' * 90}", "I agree to the terms of the hall."])),
    "form.html": Attack(_text(f"<p>Signature: {'_' * 60}</p><p>{'. ' * 90}</p><p>The terms of the hall.</p>")),
    "contents.md": Attack(_text(f"# Contents\n\n{_CONTENTS}\n\n# Chapter 1\n\nThe hall is open.\n")),
    "digits.md": Attack(
        _text(f"# {'1234567890' * 4}12345\n\nThe number of the hall.\n\n## {'1.' * 60}x\n\nMore of it.\n")
    ),
    "word.txt": Attack(_text("x" * 1_000_000)),
    "word.html": Attack(_text(f"<p>{'x' * 1_000_000}</p>")),
    "deep.md": Attack(_text("\n".join(" " * at + f"- item {at}" for at in range(3_000)))),
    # Small, and large inside.
    "strings.xlsx": Attack(_sheet(_CELLS, _SHARED), LIMIT),
    "aliases.md": Attack(
        _text(f"---\n{ALIASES}---\n\nThe lamps are lit.\n"), LIMIT | {("parsed_elements", "front_matter")}
    ),
    "beside.txt": Attack(
        _beside(ALIASES), frozenset({("raw_documents", "side_car"), ("raw_documents", "limit_exceeded")})
    ),
    "zeros.docx": Attack(_package(**{"word/document.xml": bytes(80 << 20)}), LIMIT),
    "entities.docx": Attack(_word("<w:p><w:r><w:t>&k;</w:t></w:r></w:p>", f"<!DOCTYPE d [{_ENTITIES}]>"), LIMIT),
    "stream.pdf": Attack(lambda path: path.write_bytes(stream_bomb()), KILLED),
    # Read in little room, and of much in what is made of it then.
    "fields.docx": Attack(_word(_FIELDS), frozenset({("structural_chunks", "limit_exceeded")})),
    "language.md": Attack(
        _text(f"```{'x' * 1_000_000}\n{_CODE}```\n"), frozenset({("packed_chunks", "limit_exceeded")})
    ),
    "sentences.txt": Attack(_text(_SENTENCES), frozenset({("sentences", "limit_exceeded")})),
    # Deep.
    "deep.html": Attack(
        _text("".join(f"<div><h{at % 6 + 1}>Heading {at}</h{at % 6 + 1}>" for at in range(10_000))), LIMIT
    ),
    "deep.elements.json": Attack(_text("[" * 100_000), MAP),
    # Broken.
    "empty.pdf": Attack(_text(""), frozenset({("parsed_elements", "empty")})),
    "half.pdf": Attack(_text("%PDF-1.7\n1 0 obj\n<< /Type /Catalog"), frozenset({("parsed_elements", "corrupt")})),
}
"""Name of a file to its attack."""
