"""TAT-QA as documents to index, and its questions.

Each table is one HTML document, with the paragraphs around it below. Gold is, as offsets of that source, what
the answer is read off: the cell or the words of each answer, the figures that an arithmetic answer is worked
out from, the labels that are counted. Where one of these stands at several places, or is written otherwise than
it stands, its place is the whole table, or the paragraphs that the set names, for an answer from text. A figure
that stands nowhere is a constant, such as the 2 of a mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.support.chunking_tables import plain

TATQA = "dev.json"
_PARTS = re.compile(r"[-−+*/()\[\]<>=;]|(?<!\d),|,(?!\d)")
_NO_FIGURE = re.compile(r"[^\d.]")

Place = tuple[int, int]


class Page:
    """The document of an entry, and where its table, cells and paragraphs stand in it, without the space around
    them."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.uri = f"{entry['table']['uid']}.html"
        self.cells: list[tuple[str, Place]] = []
        self.paragraphs: dict[str, tuple[str, Place]] = {}
        self._written: list[str] = []
        self._length = 0
        self._write("<html><body><table>")
        start = self._length
        for row in entry["table"]["table"]:
            self._write("<tr>")
            self.cells += [(plain(cell), self._element("td", cell)) for cell in row]
            self._write("</tr>")
        self.table = start, self._length
        self._write("</table>\n")
        for paragraph in sorted(entry["paragraphs"], key=lambda each: int(each["order"])):
            self.paragraphs[str(paragraph["order"])] = paragraph["text"], self._element("p", paragraph["text"])
            self._write("\n")
        self._write("</body></html>")

    @property
    def html(self) -> str:
        return "".join(self._written)

    def _write(self, text: str) -> None:
        self._written.append(text)
        self._length += len(text)

    def _element(self, tag: str, text: str) -> Place:
        inner = escape(text, quote=False)
        start = self._length + len(f"<{tag}>") + len(inner) - len(inner.lstrip())
        self._write(f"<{tag}>{inner}</{tag}>")
        return start, start + len(inner.strip())

    def in_cells(self, text: str) -> list[Place]:
        """The cells that are a text, or a figure written with other signs."""
        wanted, figure = plain(text), _NO_FIGURE.sub("", text)
        return [
            place
            for cell, place in self.cells
            if cell and (cell == wanted or (figure and _NO_FIGURE.sub("", cell) == figure))
        ]

    def in_paragraphs(self, text: str, orders: Sequence[str]) -> list[Place]:
        words = escape(text.strip(), quote=False)
        found = []
        for order in orders:
            start, end = self.paragraphs[order][1]
            found += [(start + m.start(), start + m.end()) for m in re.finditer(re.escape(words), self.html[start:end])]
        return found


def write_tables(folder: Path, place: Path) -> None:
    place.mkdir(parents=True)
    for page in map(Page, _entries(folder)):
        (place / page.uri).write_text(page.html, encoding="utf-8")


def table_questions(folder: Path) -> Iterator[dict[str, Any]]:
    for entry in _entries(folder):
        page = Page(entry)
        for question in entry["questions"]:
            gold = [{"uri": page.uri, "start": start, "end": end} for start, end in places_of(page, question)]
            yield {
                "id": f"tatqa-{question['uid']}",
                "question": question["question"].strip(),
                "answer": _written(question),
                "gold": gold,
            }


def places_of(page: Page, question: Mapping[str, Any]) -> list[Place]:
    """Gold places in the order of the document, each once."""
    orders = [str(order) for order in question["rel_paragraphs"]] or list(page.paragraphs)
    in_table, in_text = "table" in question["answer_from"], "text" in question["answer_from"]
    rest = [page.table] if in_table else [page.paragraphs[order][1] for order in orders]
    found: set[Place] = set()
    for part in _read_off(question):
        places = page.in_cells(part) if in_table else []
        if len(places) != 1 and in_text:
            places = page.in_paragraphs(part, orders)
        if places or not _worked_out(question):
            found.update(places if len(places) == 1 else rest)
    return sorted(found or rest)


def _read_off(question: Mapping[str, Any]) -> list[str]:
    if question["answer_type"] in ("span", "multi-span"):
        return list(question["answer"])
    if question["answer_type"] == "count":
        return [part.strip() for part in question["derivation"].split("##")]
    parts = [part.strip(" $%") for part in _PARTS.split(question["derivation"])]
    return [part for part in parts if any(map(str.isdigit, part))]


def _worked_out(question: Mapping[str, Any]) -> bool:
    return question["answer_type"] == "arithmetic"


def _written(question: Mapping[str, Any]) -> str:
    answer = question["answer"]
    return "; ".join(answer) if isinstance(answer, list) else f"{answer} {question['scale']}".strip()


def _entries(folder: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads((folder / TATQA).read_text(encoding="utf-8"))
    return entries
