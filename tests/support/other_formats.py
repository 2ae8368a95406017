"""One small handbook in the formats that have no reader of our own, written byte by byte or by the smallest library."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

LEAVE = "Staff receive twenty-eight days of annual leave."
CLAIMS = "Claims above fifty pounds need a receipt."
ROWS = (("Grade", "Days"), ("Porter", "28"), ("Registrar", "30"))
TITLE, AUTHOR = "Handbook of the hall", "The registrar"

RST = f"""\
Leave
=====

{LEAVE}

Carrying over
-------------

- Five days may be carried over.
- The registrar signs.

========= ====
Grade     Days
========= ====
Porter    28
Registrar 30
========= ====

Expenses
========

{CLAIMS}
"""
ORG = f"""\
#+TITLE: {TITLE}
#+AUTHOR: {AUTHOR}
#+DATE: <2024-03-05 Tue>

* Leave
{LEAVE}
** Carrying over
- Five days may be carried over.
- The registrar signs.

| Grade     | Days |
|-----------+------|
| Porter    |   28 |
| Registrar |   30 |

* Expenses
{CLAIMS}
"""
_HTML_ROWS = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in ROWS[1:])
HTML = (
    f"<h1>Leave</h1><p>{LEAVE}</p><h2>Carrying over</h2><ul><li>Five days may be carried over.</li>"
    f"<li>The registrar signs.</li></ul><table><thead><tr><th>Grade</th><th>Days</th></tr></thead>"
    f"<tbody>{_HTML_ROWS}</tbody></table><h1>Expenses</h1><p>{CLAIMS}</p>"
)
XML = f'<?xml version="1.0"?>\n<handbook><leave><p>{LEAVE}</p></leave><expenses><p>{CLAIMS}</p></expenses></handbook>'


_STYLES = (
    '<?xml version="1.0"?><office:document-styles {names} office:version="1.2"><office:font-face-decls/>'
    "<office:styles/><office:automatic-styles/><office:master-styles/></office:document-styles>"
)


META = (
    '<?xml version="1.0"?><office:document-meta office:version="1.2" '
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:meta="urn:oasis:names:tc:opendocument:xmlns:meta:1.0" xmlns:dc="http://purl.org/dc/elements/1.1/">'
    f"<office:meta><dc:title>{TITLE}</dc:title><meta:initial-creator>{AUTHOR}</meta:initial-creator>"
    "<meta:creation-date>2024-03-05T10:00:00</meta:creation-date></office:meta></office:document-meta>"
)
_BULLETS = (
    '<office:automatic-styles><text:list-style style:name="L"><text:list-level-style-bullet text:level="1" '
    'text:bullet-char="-"/></text:list-style></office:automatic-styles>'
)


def rtf() -> str:
    def row(cells: tuple[str, ...]) -> str:
        return r"\trowd\cellx3000\cellx6000 " + "".join(rf"\intbl {cell}\cell " for cell in cells) + r"\row" + "\n"

    return (
        r"{\rtf1\ansi{\stylesheet{\s1 heading 1;}{\s2 heading 2;}}" + "\n"
        rf"{{\info{{\title {TITLE}}}{{\author {AUTHOR}}}{{\creatim\yr2024\mo3\dy5}}}}" + "\n"
        rf"{{\pard\s1\outlinelevel0 Leave\par}}{{\pard {LEAVE}\par}}{{\pard\s2\outlinelevel1 Carrying over\par}}"
        + "".join(map(row, ROWS))
        + rf"{{\pard\s1\outlinelevel0 Expenses\par}}{{\pard {CLAIMS}\par}}}}"
    )


def write_epub(file: Path, body: str = HTML, page: str = "") -> None:
    """`page` is the file of its text, which is written where that is left out."""
    text = f'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body>{body}</body></html>'
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr(zipfile.ZipInfo("mimetype"), "application/epub+zip")
        package.writestr(
            "META-INF/container.xml",
            '<?xml version="1.0"?><container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
            '<rootfiles><rootfile full-path="book.opf" media-type="application/oebps-package+xml"/></rootfiles>'
            "</container>",
        )
        package.writestr(
            "book.opf",
            '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id">'
            '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="id">1</dc:identifier>'
            f"<dc:title>{TITLE}</dc:title><dc:creator>{AUTHOR}</dc:creator><dc:date>2024-03-05</dc:date>"
            "<dc:language>en</dc:language></metadata>"
            f'<manifest><item id="page" href="{page or "page.xhtml"}" media-type="application/xhtml+xml"/></manifest>'
            '<spine><itemref idref="page"/></spine></package>',
        )
        if not page:
            package.writestr("page.xhtml", text)


def write_odt(file: Path) -> None:
    cells = "".join(
        f"<table:table-row>{''.join(f'<table:table-cell><text:p>{cell}</text:p></table:table-cell>' for cell in row)}"
        "</table:table-row>"
        for row in ROWS
    )
    names = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "text", "table", "style")
    )
    content = (
        f'<?xml version="1.0"?><office:document-content {names} office:version="1.2">{_BULLETS}'
        "<office:body><office:text>"
        f'<text:h text:outline-level="1">Leave</text:h><text:p>{LEAVE}</text:p>'
        '<text:h text:outline-level="2">Carrying over</text:h><text:list text:style-name="L">'
        "<text:list-item><text:p>Five days may be carried over.</text:p></text:list-item>"
        "<text:list-item><text:p>The registrar signs.</text:p></text:list-item></text:list>"
        f'<table:table><table:table-column table:number-columns-repeated="2"/>{cells}</table:table>'
        f'<text:h text:outline-level="1">Expenses</text:h><text:p>{CLAIMS}</text:p>'
        "</office:text></office:body></office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.text"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr(zipfile.ZipInfo("mimetype"), kind)
        package.writestr("content.xml", content)
        package.writestr("styles.xml", _STYLES.format(names=names))
        package.writestr("meta.xml", META)
        package.writestr(
            "META-INF/manifest.xml",
            '<?xml version="1.0"?><manifest:manifest '
            'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
            f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/>'
            '<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/>'
            "</manifest:manifest>",
        )


def write_xls(file: Path) -> None:
    import xlwt

    book = xlwt.Workbook()
    sheet = book.add_sheet("Leave")
    for at, row in enumerate(ROWS):
        for column, cell in enumerate(row):
            sheet.write(at, column, cell)
    book.add_sheet("Notes").write(0, 0, CLAIMS)
    book.save(str(file))


def write_msg(
    file: Path,
    attachment: str = "",
    attached: bytes = b"the bytes of it",
    *,
    html: str = "",
    page: bytes = b"",
    code_page: int = 0,
) -> None:
    """A message of Outlook: its properties are streams of a compound file, named by their tags ([MS-OXMSG] 2.1). `html`
    is its text as a page, or `page` in the encoding of a code page."""

    def text(tag: str, value: str) -> tuple[str, bytes]:
        return f"__substg1.0_{tag}001F", value.encode("utf-16-le")

    def properties(header: int, tags: list[tuple[str, str]]) -> bytes:
        rows = b"".join(struct.pack("<HHIII", 0x001F, int(tag, 16), 6, 2 * len(value) + 2, 0) for tag, value in tags)
        return b"\0" * header + rows

    said = [
        ("001A", "IPM.Note"),
        ("0037", "Leave in May"),
        ("0042", AUTHOR),
        ("1000", f"{LEAVE}\r\n\r\n{CLAIMS}\r\n"),
        *([("1013", html)] if html else []),
    ]
    entries: dict[str, bytes | dict[str, bytes]] = dict(text(tag, value) for tag, value in said)
    count = 1 if attachment else 0
    header = struct.pack("<8xIIII8x", 0, count, 0, count)
    of_page = struct.pack("<HHIII", 0x0102, 0x1013, 6, len(page), 0) + struct.pack("<HHIII", 3, 0x3FDE, 6, code_page, 0)
    entries["__properties_version1.0"] = header + properties(0, said) + (of_page if page else b"")
    if page:
        entries["__substg1.0_10130102"] = page
    if attachment:
        named = [("3707", attachment)]
        entries["__attach_version1.0_#00000000"] = {
            "__properties_version1.0": properties(8, named)
            + struct.pack("<HHIII", 0x0102, 0x3701, 6, len(attached), 0),
            **dict(text(tag, value) for tag, value in named),
            "__substg1.0_37010102": attached,
        }
    file.write_bytes(compound_file(entries))


def compound_file(entries: dict[str, bytes | dict[str, bytes]]) -> bytes:
    """A compound file of streams, and of storages with streams, all under 4096 bytes ([MS-CFB])."""
    end, free, sector, mini = 0xFFFFFFFE, 0xFFFFFFFF, 512, 64
    stream, mini_fat = b"", list[int]()
    rows: list[list[object]] = [["Root Entry", 5, free, 0, 0]]

    def add(items: dict[str, bytes | dict[str, bytes]]) -> int:
        """The first of siblings that are chained to the right; later names sort after."""
        nonlocal stream
        first = free
        for name in sorted(items, key=lambda name: (len(name), name.upper()), reverse=True):
            found = items[name]
            row: list[object] = [name, 1 if isinstance(found, dict) else 2, first, 0, 0, free]
            if isinstance(found, dict):
                row[5] = add(dict(found))
            else:
                row[3], row[4] = len(mini_fat), len(found)
                count = max(1, -(-len(found) // mini))
                mini_fat.extend([*range(len(mini_fat) + 1, len(mini_fat) + count), end])
                stream += found.ljust(count * mini, b"\0")
            rows.append(row)
            first = len(rows) - 1
        return first

    top = add(entries)
    streams = -(-len(stream) // sector)
    mini_sectors = -(-4 * len(mini_fat) // sector)
    directories = -(-len(rows) // 4)
    # Sectors: the FAT, the directory, the FAT of small streams, then the small streams themselves.
    fat = [0xFFFFFFFD]
    for count in (directories, mini_sectors, streams):
        fat += [*range(len(fat) + 1, len(fat) + count), end]
    rows[0] = ["Root Entry", 5, free, 1 + directories + mini_sectors, len(stream), top]

    def entry(name: str, kind: int, right: int, start: int, size: int, child: int = free) -> bytes:
        coded = (name + "\0").encode("utf-16-le")
        place = struct.pack("<HBBIII16sIQQIQ", len(coded), kind, 1, free, right, child, b"", 0, 0, 0, start, size)
        return coded.ljust(64, b"\0") + place

    directory = b"".join(entry(*row) for row in rows).ljust(directories * sector, b"\0")  # type: ignore[arg-type]
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 16
    head += struct.pack(
        "<HHHHH6xIIIIIIIII", 0x3E, 3, 0xFFFE, 9, 6, 0, 1, 1, 0, 4096, 1 + directories, mini_sectors, end, 0
    )
    head += struct.pack("<I", 0) + struct.pack("<I", free) * 108
    table = b"".join(struct.pack("<I", number) for number in fat).ljust(sector, b"\xff")
    small = b"".join(struct.pack("<I", number) for number in mini_fat).ljust(mini_sectors * sector, b"\xff")
    return head + table + directory + small + stream.ljust(streams * sector, b"\0")


def write_all(folder: Path) -> dict[str, Path]:
    """One of each, by the ending of its name."""
    endings = ("rst", "org", "xml", "rtf", "epub", "odt", "xls", "msg", "tsv")
    made = {ending: folder / f"handbook.{ending}" for ending in endings}
    tsv = "".join("\t".join(row) + "\n" for row in ROWS) + f"Note\t{CLAIMS}\n"
    for ending, text in (("rst", RST), ("org", ORG), ("xml", XML), ("rtf", rtf()), ("tsv", tsv)):
        made[ending].write_text(text, encoding="utf-8")
    write_epub(made["epub"])
    write_odt(made["odt"])
    write_xls(made["xls"])
    write_msg(made["msg"])
    return made
