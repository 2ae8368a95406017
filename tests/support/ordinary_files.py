"""The documents of ordinary.py as files, with what each format brings along: merged cells, formulas and comments, notes
of slides, attachments, tags that nobody closed."""

from __future__ import annotations

import csv
import html
import json
import random
import re
import textwrap
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from tests.support.ordinary import KINDS, Part, Parts, made

DEJAVU = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
ASIAN = {"STSong-Light": "\u4e00-\u9fff", "HeiseiMin-W3": "\u3040-\u30ff", "HYSMyeongJo-Medium": "\uac00-\ud7a3"}
"""Fonts that every reader of PDF brings along, to what they write."""
MOST_SLIDE_ROWS, MOST_COLUMNS = 20, 40
Write = Callable[[Path, Parts, random.Random], None]


def lines_of(part: Part) -> list[str]:
    if part.kind == "table":
        return ["  ".join(row) for row in part.rows]
    mark = {"item": "  " * (part.level - 1) + "- "}.get(part.kind, "")
    return [mark + line for line in part.text.split("\n")]


# ---------------------------------------------------------------- text


def text(path: Path, parts: Parts, chance: random.Random) -> None:
    blank = chance.choice(("\n\n", "\n\n", "\n", "\r\n\r\n"))
    path.write_bytes(blank.join("\n".join(lines_of(part)) for part in parts).encode())


def markdown(path: Path, parts: Parts, chance: random.Random) -> None:
    """Lists as deep as they say, fences, pipe tables; sometimes front matter."""
    said = [f"---\ntitle: {path.stem}\nversion: '2'\nlanguage: en\n---"] if chance.random() < 0.3 else []
    for part in parts:
        if part.kind == "heading":
            said.append(f"{'#' * part.level} {part.text}")
        elif part.kind == "item":
            said.append(f"{'  ' * (part.level - 1)}{chance.choice('-*+')} {part.text}")
        elif part.kind == "table":
            head, *body = part.rows
            rows = [head, ("---",) * len(head), *body]
            said.append("\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows))
        else:
            said.append(f"```\n{part.text}\n```" if part.kind == "code" else part.text)
    path.write_text("\n\n".join(said), encoding="utf-8")


def rows_of(parts: Parts) -> list[tuple[str, ...]]:
    """Tables as they are, all else a row of one cell."""
    return [row for part in parts for row in (part.rows or [(line,) for line in lines_of(part)])]


def delimited(path: Path, parts: Parts, chance: random.Random) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        mark = "\t" if path.suffix == ".tsv" else chance.choice(",;")
        csv.writer(stream, delimiter=mark).writerows(rows_of(parts))


def page(path: Path, parts: Parts, chance: random.Random) -> None:
    """HTML as one meets it: tags not closed or nested wrongly, scripts, styles, tables in tables, inline styles."""
    said = ["<!doctype html><html><head><title>", html.escape(path.stem), "</title><script>var a='<p>';</script>"]
    said.append("<style>p{color:red}</style><body><nav><ul><li><a href='#'>Home<li>Contact</ul></nav><div><div>")
    for part in parts:
        body = html.escape(part.text)
        if part.kind == "heading":
            said.append(f"<h{part.level}><b>{body}</h{part.level}></b>")
        elif part.kind == "item":
            said.append(f"{'<ul>' * part.level}<li>{body}{'</ul>' * part.level}")
        elif part.kind == "table":
            rows = ("<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in row) for row in part.rows)
            said.append(f"<table><tr><td><table>{''.join(rows)}</table></table>")
        elif part.kind == "code":
            said.append(f"<pre><code>{body}</pre>")
        else:
            said.append(chance.choice((f"<p>{body}", f"<div><span>{body}<br></div>", f"<p><p><font size=2>{body}</p>")))
    path.write_text("\n".join(said), encoding="utf-8")


def mail(path: Path, parts: Parts, chance: random.Random) -> None:
    """Plain or HTML, with attachments: a text, a table, a mail in the mail."""
    message = EmailMessage()
    message["From"], message["To"] = "Ann Other <ann@example.org>", "board@example.org"
    message["Subject"], message["Date"] = f"Re: Fwd: {path.stem}", "Mon, 02 Nov 2026 09:00:00 +0200"
    body = "\n\n".join("\n".join(lines_of(part)) for part in parts)
    message.set_content(body)
    if chance.random() < 0.5:
        message.add_alternative(
            f"<html><body><blockquote>{html.escape(body)}</blockquote></body></html>", subtype="html"
        )
    message.add_attachment(f"Attached. {parts[0].text[:200]}", filename="note.txt")
    message.add_attachment(b"a,b\n1,2\n", maintype="text", subtype="csv", filename="table.csv")
    if chance.random() < 0.3:
        inner = EmailMessage()
        inner["Subject"] = "Inner"
        inner.set_content(parts[-1].text or "Nothing.")
        message.add_attachment(inner)
    path.write_bytes(message.as_bytes())


def element_map(path: Path, parts: Parts, chance: random.Random) -> None:
    kinds = {"item": "list_item"}
    elements: list[dict[str, Any]] = []
    for part in parts:
        if part.kind == "table":
            cells = [
                {"row": row, "column": column, "text": cell, "header": row == 0}
                for row, cells in enumerate(part.rows)
                for column, cell in enumerate(cells)
                if cell
            ]
            elements.append({"kind": "table", "cells": cells})
        else:
            level = {"level": part.level} if part.kind in ("heading", "item") else {}
            elements.append({"kind": kinds.get(part.kind, part.kind), "text": part.text, **level})
    value = {"version": 1, "origin": "tests", "document": {"title": path.stem}, "elements": elements}
    path.write_text(json.dumps(value), encoding="utf-8")


# ---------------------------------------------------------------- office


def word_file(path: Path, parts: Parts, chance: random.Random) -> None:
    import docx

    document = docx.Document()
    document.core_properties.title = path.stem
    for part in parts:
        if part.kind == "heading":
            document.add_heading(_plain(part.text), part.level)
        elif part.kind == "table":
            _word_table(document, part)
        elif part.kind == "item":
            document.add_paragraph(_plain(part.text), style="List Bullet" if part.level == 1 else "List Bullet 2")
        else:
            document.add_paragraph(_plain(part.text))
    document.sections[0].header.paragraphs[0].text = "Confidential"
    document.save(str(path))


def _word_table(document: Any, part: Part) -> None:
    rows = [row[:MOST_COLUMNS] for row in part.rows]
    table = document.add_table(len(rows), len(rows[0]))
    cells = iter(table._cells)
    for row in rows:
        for text_ in row:
            next(cells).text = _plain(text_)
    if len(rows) > 2 and len(rows[0]) > 1:
        table.cell(1, 0).merge(table.cell(2, 0))


def _plain(value: str) -> str:
    return "".join(char for char in value if char >= " " or char in "\n\t")


def slides(path: Path, parts: Parts, chance: random.Random) -> None:
    """A slide for each heading and each so many lines; notes; tables cut to what a slide holds."""
    from pptx import Presentation
    from pptx.util import Inches

    deck = Presentation()
    slide: Any = None
    for part in parts:
        full = slide is None or len(slide.shapes.placeholders[1].text_frame.paragraphs) > 12
        if part.kind == "heading" or full:
            slide = deck.slides.add_slide(deck.slide_layouts[1])
            slide.shapes.title.text = _plain(part.text)[:200] or "Slide"
            slide.notes_slide.notes_text_frame.text = f"Say this slowly: {_plain(part.text)[:300]}"
        if part.kind == "table":
            rows = [row[:8] for row in part.rows[:MOST_SLIDE_ROWS]]
            made_ = slide.shapes.add_table(len(rows), len(rows[0]), Inches(1), Inches(3), Inches(8), Inches(3)).table
            for at, row in enumerate(rows):
                for column, cell in enumerate(row):
                    made_.cell(at, column).text = cell
        elif part.kind != "heading":
            paragraph = slide.shapes.placeholders[1].text_frame.add_paragraph()
            paragraph.text, paragraph.level = _plain(part.text), min(part.level - 1, 8)
    deck.save(str(path))


def workbook(path: Path, parts: Parts, chance: random.Random) -> None:
    """All rows on one sheet, with merged titles, comments and formulas; a second sheet, and a hidden one."""
    import openpyxl
    from openpyxl.comments import Comment

    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Main"
    for row in rows_of(parts):
        sheet.append([_plain(cell)[:32_000] for cell in row])
    sheet.insert_rows(1)
    sheet["A1"] = "Merged title"
    sheet.merge_cells("A1:C1")
    sheet["A2"].comment = Comment("Checked by the auditor.", "A")
    other = book.create_sheet("Sums")
    for number in range(1, 30):
        other.append([f"Line {number}", number * 3, f"=B{number}*2", f"=SUM(B1:B{number})", number % 2 == 0])
    book.create_sheet("Hidden").sheet_state = "hidden"
    book.save(path)


# ---------------------------------------------------------------- PDF


def pdf(path: Path, parts: Parts, chance: random.Random) -> None:
    """Lines of text on pages, tables in columns, headers and footers; one column or two."""
    from reportlab.pdfgen.canvas import Canvas

    name = _fonts()
    canvas, two, y, left, number = Canvas(str(path), pagesize=(595, 842)), chance.random() < 0.2, 780.0, 60.0, 1
    for size, line in _set(parts, 45 if two else 95):
        if y < 70:
            left, y = (320.0, 780.0) if two and left < 100 else (60.0, 780.0)
            if left < 100:
                canvas.setFont(name, 8)
                canvas.drawString(60, 30, f"{path.stem} – page {number}")
                canvas.showPage()
                number += 1
        asian = (font for font, letters in ASIAN.items() if re.search(f"[{letters}]", line[0]))
        canvas.setFont(next(asian, name), size)
        for at, cell in enumerate(line):
            canvas.drawString(left + at * 90, y, cell)
        y -= size * 1.35
    canvas.save()


def _fonts() -> str:
    """Makes the fonts known; the name of the one for what is not Asian."""
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont
    from reportlab.pdfbase.ttfonts import TTFont

    if "STSong-Light" not in pdfmetrics.getRegisteredFontNames():
        for font in ASIAN:
            pdfmetrics.registerFont(UnicodeCIDFont(font))
        if Path(DEJAVU).exists():
            pdfmetrics.registerFont(TTFont("Ordinary", DEJAVU))
    return "Ordinary" if Path(DEJAVU).exists() else "Helvetica"


def _set(parts: Parts, width: int) -> list[tuple[float, list[str]]]:
    """Lines as cells, with their size; a wide table is cut to six columns and 600 rows, a line to 40,000 characters."""
    found: list[tuple[float, list[str]]] = []
    for part in parts:
        if part.kind == "table":
            found += [(7.0, [cell[:24] for cell in row[:6]]) for row in part.rows[:600]]
            continue
        size = {"heading": 18.0 - part.level, "code": 7.0}.get(part.kind, 9.5)
        for line in lines_of(part):
            found += [(size, [piece]) for piece in textwrap.wrap(_plain(line)[:40_000], width) or [""]]
    return found


FORMATS: Mapping[str, Write] = {
    ".pdf": pdf,
    ".docx": word_file,
    ".pptx": slides,
    ".xlsx": workbook,
    ".html": page,
    ".md": markdown,
    ".txt": text,
    ".log": text,
    ".csv": delimited,
    ".tsv": delimited,
    ".eml": mail,
    ".elements.json": element_map,
}
OFFICE = (".pdf", ".docx", ".pptx", ".xlsx")


def combinations() -> list[tuple[str, str]]:
    """(kind, format): every kind in every format, the office formats and PDF twice as often."""
    return [(kind, suffix) for suffix in (*FORMATS, *OFFICE) for kind in KINDS]


def write(folder: Path, number: int) -> Path:
    """The document of this number: kind and format in turn, content by its number."""
    kind, suffix = (pairs := combinations())[number % len(pairs)]
    path = folder / kind / f"{kind}-{number:04d}{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    FORMATS[suffix](path, made(kind, number), random.Random(number))
    return path
