"""Texts, tables, pages and mails as people have them: encodings, delimited files and aligned text."""

from __future__ import annotations

from email.message import EmailMessage
from pathlib import Path

import pytest

from pipelines.errors import DocumentError
from pipelines.records import Block, ParsedFile
from resources.parsers import html, unstructured
from resources.parsers.source_text import decoded_words, read_text
from resources.parsers.text import delimited, email, plain
from tests.support import other_formats
from tests.support.places import DATA, needs_data

CASES = DATA / "field-cases"


def text_of(block: Block) -> str:
    return " ".join("".join(f"{'' if run.joined else ' '}{run.text}" for run in block.runs).split())


def texts(parsed: ParsedFile, *kinds: str) -> list[str]:
    return [text_of(block) for block in parsed.blocks if not kinds or block.kind in kinds]


def rows(block: Block) -> list[list[str]]:
    found: dict[int, list[str]] = {}
    for cell in block.cells:
        found.setdefault(cell.row, []).append("".join(run.text for run in cell.runs))
    return list(found.values())


def header(block: Block) -> list[str]:
    return ["".join(run.text for run in cell.runs) for cell in block.cells if cell.header]


# ---------------------------------------------------------------- encodings


@needs_data("field-cases")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("v11-sjis.csv", "商品,価格\n鉛筆,100\n消しゴム,80\n"),
        ("t04-big5.txt", "員工手冊\n\n第一章 總則\n員工每年有十四天年假。\n"),
        ("t11-tis620.txt", "ข้อบังคับการทำงาน พนักงานมีวันลาพักร้อนสิบวันต่อปี\n"),
        ("t12-iso2022jp.txt", "就業規則 社員は年に十日の有給休暇がある。\n"),
    ],
)
def test_texts_in_old_encodings(name: str, text: str) -> None:
    found, warnings = read_text(CASES / name)
    assert found == text
    assert len(warnings) == 1 and warnings[0].startswith("the text is not UTF-8; it was read as ")


@needs_data("field-cases")
def test_a_page_that_declares_latin_1() -> None:
    parsed = html.parse(CASES / "h12-latin1.html")
    assert (texts(parsed), parsed.warnings) == (["It’s € 5 – fine."], ())


@needs_data("field-cases")
def test_a_mail_without_an_encoding() -> None:
    parsed = email.parse(CASES / "l04-nocharset-8bit.eml")
    assert texts(parsed) == ["Hinweis", "From: a@example.org", "Die Gebühr beträgt 5 €."]
    assert parsed.warnings == ("the text is not UTF-8; it was read as cp1252",)


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        (b'<meta charset="gb2312">', "gb18030"),
        (b'<meta charset="gb2312">', "utf-8-sig"),
        (b'<meta charset="windows-1251">', "utf-16"),
        (b'<meta http-equiv="Content-Type" content="text/html; charset=GBK">', "gb18030"),
        (b"<META content='text/html;charset=gb_2312-80' http-equiv='content-type'>", "gb18030"),
        (b'<meta charset="utf-16">', "utf-8"),
        (b'<?xml version="1.0" encoding="GB18030"?>', "gb18030"),
        (b'<!-- <meta charset="koi8-r"> --><meta charset=gbk>', "gb18030"),
        (b'<meta name="note" content="charset=koi8-r"><meta charset=gbk>', "gb18030"),
        (b'<meta charset="x-unknown"><meta charset="gbk">', "gb18030"),
        (b"", "gb18030"),
        (b'<meta charset="iso-8859-1">', "gb18030"),
    ],
)
def test_pages_say_how_they_are_encoded(tmp_path: Path, head: bytes, encoding: str) -> None:
    body = "<p>员工每年享有十四天带薪年假。申请应当提前一周以书面形式提交。</p>"
    page = head.decode() + body if encoding == "utf-16" else None
    path = tmp_path / "a.html"
    path.write_bytes(
        page.encode(encoding)
        if page
        else b"\xef\xbb\xbf" * (encoding == "utf-8-sig") + head + body.encode(encoding.removesuffix("-sig"))
    )
    assert texts(html.parse(path)) == ["员工每年享有十四天带薪年假。申请应当提前一周以书面形式提交。"]


@pytest.mark.parametrize(
    ("declared", "encoding", "text"),
    [
        ("iso-8859-1", "cp1252", "It’s € 5 – “fine”."),
        ("gb2312", "gb18030", "员工手册：朱镕基"),
        ("ks_c_5601-1987", "cp949", "똠방각하의 휴가는 14일이다."),
        ("x-sjis", "cp932", "①㈱ 日本語の規則"),
        ("tis-620", "cp874", "พนักงานมีสิทธิลา “สิบวัน”"),
        ("iso-2022-jp", "iso2022_jp", "就業規則を守る。"),
        ("us-ascii", "cp1252", "Die Gebühr beträgt fünf Euro für jeden Tag."),
        ("iso-8859-1", "cp1251", "Працівник має право на відпустку тривалістю 24 дні."),
        ("utf-8", "cp1250", "Zaměstnanec má nárok na dovolenou v délce pěti týdnů."),
        ("unknown-8bit", "koi8-r", "Работник имеет право на отпуск."),
        ("", "big5", "員工每年享有十四天特別休假。"),
        ("", "utf-8", "Gebühr 5 €"),
    ],
)
def test_mails_in_old_encodings(tmp_path: Path, declared: str, encoding: str, text: str) -> None:
    kind = f"Content-Type: text/plain{'; charset=' * bool(declared)}{declared}\r\n"
    head = f"Subject: x\r\nFrom: a@b.c\r\n{kind}Content-Transfer-Encoding: 8bit\r\n\r\n"
    path = tmp_path / "a.eml"
    path.write_bytes(head.encode() + text.encode(encoding))
    assert texts(email.parse(path))[2:] == [text]


@pytest.mark.parametrize(
    ("encoding", "code_page", "text"),
    [
        ("cp1251", 1251, "Працівник має право на відпустку."),
        ("cp1251", 1252, "Працівник має право на відпустку тривалістю 24 дні."),
        ("utf-8", 1252, "Gebühr 5 €"),
        ("cp1252", 28591, "It’s € 5 – “fine”"),
        ("gb18030", 936, "员工手册：朱镕基"),
        ("cp932", 50220, "就業規則を守ること。有給休暇は二十日である。"),
    ],
)
def test_pages_of_outlook_messages(tmp_path: Path, encoding: str, code_page: int, text: str) -> None:
    path = tmp_path / "a.msg"
    other_formats.write_msg(path, page=f"<html><body><p>{text}</p></body></html>".encode(encoding), code_page=code_page)
    assert texts(unstructured.parse(path))[-1] == text


def test_the_transport_of_a_page_in_a_mail_comes_before_the_page(tmp_path: Path) -> None:
    page = '<meta charset="iso-8859-1"><p>Працівник має право на відпустку.</p>'
    head = "Subject: x\r\nContent-Type: text/html; charset=windows-1251\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
    path = tmp_path / "a.eml"
    path.write_bytes(head.encode() + page.encode("cp1251"))
    parsed = email.parse(path)
    assert (texts(parsed)[-1], parsed.warnings) == ("Працівник має право на відпустку.", ())


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("=?gb2312?B?1OyB8Q==?=", "造侎"),
        ("=?GB2312?B?1MbEzw==?= =?gb2312?B?wrc=?=", "云南路"),
        ("=?shift_jis?B?h0CHig==?=", "①㈱"),
        ("=?iso-8859-1?Q?5_=80_=96_ok?=", "5 € – ok"),
        ("=?ks_c_5601-1987?B?jGM=?=", "똠"),
        ("=?iso-2022-jp?B?GyRCPSI2SBsoQg==?=", "就業"),
        ("=?utf-8?B?0J/RgNCw0LLQuNC7?= =?utf-8?B?0LA=?= x", "Правила x"),
        ("=?utf-8?B?0J/R?= =?utf-8?B?gNC+?=", "Про"),
        ("=?utf-8*uk?Q?=D0=AF?= <a@b.c>", "Я <a@b.c>"),
        ("=?x-none?Q?Gr=FC=DFe?= and =?bad", "Grüße and =?bad"),
        ("=?utf-8?B?!?=", ""),
        ("plain", "plain"),
    ],
)
def test_encoded_words_of_headers(header: str, text: str) -> None:
    assert decoded_words(header) == text


@pytest.mark.parametrize(
    ("declared", "encoding", "subject"),
    [
        ("utf-8", "utf-8", "Правила відпусток"),
        ("windows-1251", "cp1251", "Правила"),
        ("iso-8859-1", "utf-8", "Gebühren: Правила"),
        ("koi8-r", "koi8-r", "Правила отпуска"),
        ("", "cp1251", "Правила відпусток на рік"),
        ("", "cp1252", "Gebühren für Übungen"),
    ],
)
def test_headers_in_eight_bits(tmp_path: Path, declared: str, encoding: str, subject: str) -> None:
    kind = f"Content-Type: text/plain; charset={declared}\r\n" if declared else ""
    path = tmp_path / "a.eml"
    path.write_bytes(f"Subject: {subject}\r\nFrom: a@b.c\r\n{kind}\r\ntext\r\n".encode(encoding))
    parsed = email.parse(path)
    assert (texts(parsed)[0], parsed.properties["title"]) == (subject, subject)


def test_headers_of_a_composed_mail(tmp_path: Path) -> None:
    message = EmailMessage()
    message["Subject"], message["From"] = "Відпустка " * 20, '"Ґудзь, Іван" <a@b.c>'
    message.set_content("Текст")
    path = tmp_path / "a.eml"
    path.write_bytes(message.as_bytes())
    found = texts(email.parse(path))
    assert found[0] == ("Відпустка " * 20).strip() and "Ґудзь, Іван" in found[1] and found[1].endswith(" <a@b.c>")


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.html", "a.eml"])
def test_garbled_text_is_no_document(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    head = b"Subject: x\r\n\r\n" if name == "a.eml" else b""
    path.write_bytes(head + bytes(byte | 0x80 if byte > 32 else byte for byte in b"The staff may leave at noon. " * 8))
    reader = {"a.txt": plain, "a.csv": delimited, "a.html": html, "a.eml": email}[name]
    with pytest.raises(DocumentError, match=rf"^{name}: .*save the file as UTF-8$") as raised:
        reader.parse(path)
    assert raised.value.code == "corrupt"


# ---------------------------------------------------------------- delimited files


def shape(path: Path) -> list[object]:
    """Return paragraphs as texts, pairs as metadata, and tables as rows with `*` before header cells."""
    found: list[object] = []
    source = read_text(path)[0]
    for block in delimited.parse(path).blocks:
        cells: dict[int, list[str]] = {}
        for cell in block.cells:
            cells.setdefault(cell.row, []).append("*" * cell.header + "".join(run.text for run in cell.runs))
        for run in (*block.runs, *(run for cell in block.cells for run in cell.runs)):
            if run.source_start is not None:
                assert source[run.source_start : run.source_end].replace('""', '"') == run.text
            else:
                assert run.text == ": "
        found.append(list(cells.values()) if cells else block.metadata or text_of(block))
    return found


@needs_data("field-cases")
def test_the_line_that_names_the_delimiter() -> None:
    assert shape(CASES / "v06-sep.csv") == [[["*name", "*value"], ["alpha", "1"], ["beta", "2"]]]


QUANTITIES = [["*name", "*qty", "*price"], ["A", "1", "2.50"], ["B", "2", "3.00"]]
DELIMITED = {
    "sep with a tab": ("SEP=\t\r\na\tb\r\n1\t2", [[["*a", "*b"], ["1", "2"]]]),
    "sep in quotes": ('"sep=|"\nx|y\n1|2\n', [[["*x", "*y"], ["1", "2"]]]),
    "sep against the sniffed": ("sep=;\na,b;c,d\n1,2;3,4\n", [[["*a,b", "*c,d"], ["1,2", "3,4"]]]),
    "lines above and below": (
        "Sales report 2025\n\nPeriod: January - March\nname,qty,price\nA,1,2.50\nB,2,3.00\n\nTotal: 5.50\nSource: us\n",
        ["Sales report 2025", "Period: January - March", QUANTITIES, "Total: 5.50", "Source: us"],
    ),
    "lines padded by a sheet": (
        "Sales;;\nPeriod:;2025;\n;;\nname;qty;price\nA;1;2.50\nB;2;3.00\n;;\nTotal;;5.50\nNote: without tax;;\n",
        ["Sales", {"kv.Period": "2025"}, [*QUANTITIES, ["Total", "", "5.50"]], "Note: without tax"],
    ),
    "a title right above": (
        "Title\nname,amount\nA,1\nB,2\n",
        ["Title", [["*name", "*amount"], ["A", "1"], ["B", "2"]]],
    ),
    "commas in the lines above": (
        "Report, May 2025\nPeriod: 1 May, 2025, to 31 May\nname,qty,price,sum\nA,1,2.50,2.50\nB,2,3.00,6.00\n",
        [
            "Report, May 2025",
            "Period: 1 May, 2025, to 31 May",
            [["*name", "*qty", "*price", "*sum"], ["A", "1", "2.50", "2.50"], ["B", "2", "3.00", "6.00"]],
        ],
    ),
    "a short row of names": (
        "name,city\nAnn,Kyiv,x\nBob,Lviv,y\n",
        [[["*name", "*city"], ["Ann", "Kyiv", "x"], ["Bob", "Lviv", "y"]]],
    ),
    "labels above": (
        "Company,ACME\nPeriod,2025\n\nname,qty,price\nA,1,2.50\nB,2,3.00\n",
        [{"kv.Company": "ACME"}, {"kv.Period": "2025"}, QUANTITIES],
    ),
    "a long note below": (
        f"name,qty,price\nA,1,2.50\nB,2,3.00\n{'All prices are without tax and transport. ' * 2},,\n",
        [QUANTITIES, "All prices are without tax and transport. All prices are without tax and transport."],
    ),
    "two tables": (
        "name,qty\nA,1\nB,2\n\nregion,total\nN,5\nS,6\n",
        [[["*name", "*qty"], ["A", "1"], ["B", "2"]], [["*region", "*total"], ["N", "5"], ["S", "6"]]],
    ),
    "empty rows between rows": ("name,value\n\nA,1\n\nB,2\n", [[["*name", "*value"], ["A", "1"], ["B", "2"]]]),
    "decimal commas": (
        "назва;ціна\nхліб;12,50\nсіль;9,00\n",
        [[["*назва", "*ціна"], ["хліб", "12,50"], ["сіль", "9,00"]]],
    ),
    "decimal commas without a header": ("1,5;2,5\n3,5;4,5\n", [[["1,5", "2,5"], ["3,5", "4,5"]]]),
    "semicolons in values": (
        "who,city\nDoe; J,Kyiv\nRoe; B,Lviv\n",
        [[["*who", "*city"], ["Doe; J", "Kyiv"], ["Roe; B", "Lviv"]]],
    ),
    "ragged rows": (
        "name,qty,price\nA,1\nB,2,3,extra,more\nC\nD,4,5\n",
        [[["*name", "*qty", "*price"], ["A", "1"], ["B", "2", "3", "extra", "more"], ["C"], ["D", "4", "5"]]],
    ),
    "quotes": (
        'Item,Text\n1,"He said ""no""\nand left"\n2, "a,b"\n3,5" pipe\n4,"open b\n5,"a" b\n',
        [
            [
                ["*Item", "*Text"],
                ["1", 'He said "no"\nand left'],
                ["2", "a,b"],
                ["3", '5" pipe'],
                ["4", '"open b'],
                ["5", '"a" b'],
            ]
        ],
    ),
    "labels of groups": (
        "name,qty,price\nNorth,,\nA,1,2\nSouth,,\nB,1,3\n",
        [[["*name", "*qty", "*price"], ["North", "", ""], ["A", "1", "2"], ["South", "", ""], ["B", "1", "3"]]],
    ),
    "two rows of names": (
        ",2024,,2025,\nName,Q1,Q2,Q1,Q2\nA,1,2,3,4\n",
        [[["*", "*2024", "*", "*2025", "*"], ["*Name", "*Q1", "*Q2", "*Q1", "*Q2"], ["A", "1", "2", "3", "4"]]],
    ),
    "a delimiter at each end": ("name,qty,\nA,x,\n", [[["*name", "*qty", "*"], ["A", "x", ""]]]),
    "numbered rows": (
        ",name,city\n0,A,Kyiv\n1,B,Lviv\n",
        [[["*", "*name", "*city"], ["0", "A", "Kyiv"], ["1", "B", "Lviv"]]],
    ),
    "one column": ("only\nlines\nhere\n", [[["*only"], ["lines"], ["here"]]]),
    "one row": ("a,b\n", [[["a", "b"]]]),
    "nothing but the delimiter": ("sep=;\n", []),
}


@pytest.mark.parametrize(("text", "found"), DELIMITED.values(), ids=DELIMITED)
def test_delimited_files(tmp_path: Path, text: str, found: list[object]) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text, newline="")
    assert shape(path) == found


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig", "cp1251"])
def test_a_delimited_file_in_other_encodings(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("Звіт за рік\r\n\r\nназва;ціна\r\nхліб;12,50\r\nсіль;9,00\r\n".encode(encoding))
    assert shape(path) == ["Звіт за рік", [["*назва", "*ціна"], ["хліб", "12,50"], ["сіль", "9,00"]]]


def test_a_tab_separated_file_of_commas(tmp_path: Path) -> None:
    for text in ("a\tb,c\n1\t2,3\n", "a,b\n1,2\n"):
        path = tmp_path / "a.tsv"
        path.write_text(text)
        (table,) = shape(path)
        assert [len(row) for row in table] == [2, 2]  # type: ignore[attr-defined]


# ---------------------------------------------------------------- tables in plain text


def plain_shape(text: str) -> list[object]:
    """Return paragraphs as texts, other blocks with their kinds, and tables as rows with `*` before header cells."""
    found: list[object] = []
    for block in plain.blocks_of_text(text):
        cells: dict[int, list[str]] = {}
        for cell in block.cells:
            words = " ".join(run.text for run in cell.runs)
            cells.setdefault(cell.row, []).append("*" * cell.header + words)
        for run in (*block.runs, *(run for cell in block.cells for run in cell.runs)):
            assert text[run.source_start : run.source_end] == run.text
        found.append(list(cells.values()) if cells else f"{block.kind}: {text_of(block)}")
    return found


FEES = [["*Group", "*Single", "*Month"], ["Adults", "4.50", "40.00"], ["Children", "2.00", "18.00"]]


@needs_data("field-cases")
def test_a_table_with_a_rule_below_its_names() -> None:
    source = (CASES / "t06-wrapped.txt").read_text()
    assert plain_shape(source)[-2:] == ["paragraph: Fee table:", FEES]


DRAWN = {
    "a rule without columns": (
        "Group      Single   Month\n-------------------------\nAdults       4.50   40.00\n"
        "Children     2.00   18.00\n=========================\nAll          6.50   58.00\n",
        [[*FEES, ["All", "6.50", "58.00"]]],
    ),
    "a grid of a database": (
        "+------+-----+\n| name | qty |\n+------+-----+\n| A    |   1 |\n| B    |   2 |\n+------+-----+\n2 rows\n",
        [[["*name", "*qty"], ["A", "1"], ["B", "2"]], "paragraph: 2 rows"],
    ),
    "a grid with rows over two lines": (
        "+--------+--------+\n| Head 1 | Head 2 |\n+========+========+\n"
        "| row 1  | text   |\n| goes   | and    |\n| on     |        |\n"
        "+--------+--------+\n| row 2  | more   |\n+--------+--------+\n",
        [[["*Head 1", "*Head 2"], ["row 1 goes on", "text and"], ["row 2", "more"]]],
    ),
    "a grid with a total": (
        "+---+---+\n| a | b |\n+---+---+\n| x | 1 |\n| y | 2 |\n+---+---+\n| z | 3 |\n+---+---+\n",
        [[["*a", "*b"], ["x", "1"], ["y", "2"], ["z", "3"]]],
    ),
    "bars without a frame": (
        " id | name\n----+------\n  1 | A\n  2 | B\n(2 rows)\n",
        [[["*id", "*name"], ["1", "A"], ["2", "B"]], "paragraph: (2 rows)"],
    ),
    "as in Markdown": (
        "Fees:\na | b \\| c\n:--- | ---:\n1 | 2\nThat is all.\n",
        ["paragraph: Fees:", [["*a", "*b \\| c"], ["1", "2"]], "paragraph: That is all."],
    ),
    "bars without a rule": ("| що | ціна |\n| хліб | 12,50 |\n", [[["*що", "*ціна"], ["хліб", "12,50"]]]),
    "lines of a frame": (
        "┌────────┬───────┐\n│ Gruppe │ Preis │\n├────────┼───────┤\n│ Alle   │ 5     │\n└────────┴───────┘\n",
        [[["*Gruppe", "*Preis"], ["Alle", "5"]]],
    ),
    "rules above and below": (
        "=====  =====\n  A    not A\n=====  =====\nFalse  True\nTrue   False\n=====  =====\n",
        [[["*A", "*not A"], ["False", "True"], ["True", "False"]]],
    ),
    "names and values over two lines": (
        "Prices of today in the shop\nName of the   Price  Note\nitem          UAH\n------------  -----  -----------\n"
        "Bread of rye  12.50  fresh every\n                     morning\nSalt           9.00  -\n",
        [
            "paragraph: Prices of today in the shop",
            [
                ["*Name of the item", "*Price UAH", "*Note"],
                ["Bread of rye", "12.50", "fresh every morning"],
                ["Salt", "9.00", "-"],
            ],
        ],
    ),
    "empty cells": (
        "Region  Year  Value\n------  ----  -----\nNorth   2020  5\n        2021  6\nSouth         7\n",
        [[["*Region", "*Year", "*Value"], ["North", "2020", "5"], ["", "2021", "6"], ["South", "", "7"]]],
    ),
    "Chinese": (
        "名称        价格   备注\n----------  -----  ----\n苹果        12.50  甜\n红富士苹果   8.00  脆\n",
        [[["*名称", "*价格", "*备注"], ["苹果", "12.50", "甜"], ["红富士苹果", "8.00", "脆"]]],
    ),
    "columns alone": ("City    Cost\nLviv    12\nOslo    30\n", [[["*City", "*Cost"], ["Lviv", "12"], ["Oslo", "30"]]]),
    "a title with a gap": (
        "Section 1   Scope\n-----------------\nIt holds for all.\n",
        ["heading: Section 1 Scope", "paragraph: It holds for all."],
    ),
    "a signature": ("Regards\n-- \nAnn   Smith\n", ["paragraph: Regards -- Ann Smith"]),
    "commands": ("cat a | sort\nls | wc\n", ["paragraph: cat a | sort", "paragraph: ls | wc"]),
    "marks of Markdown": (
        "# No heading\n\n**bold** and `code`\n",
        ["paragraph: # No heading", "paragraph: **bold** and `code`"],
    ),
}


@pytest.mark.parametrize(("text", "found"), DRAWN.values(), ids=DRAWN)
def test_tables_drawn_in_plain_text(text: str, found: list[object]) -> None:
    assert plain_shape(text) == found


def test_escaped_control_characters_of_a_sheet(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text("Назва,note_x000D_\nперша_x000D_,get_x86_path\n", encoding="utf-8")
    found = [[text.strip() for text in row] for row in rows(delimited.parse(path).blocks[0])]
    assert found == [["Назва", "note"], ["перша", "get_x86_path"]]
