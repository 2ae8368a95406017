"""Questions by which the routes are chosen, beyond the sets of benchmarks/support/datasets.py.

`library-facts` are short questions about the project's own documents, most of them about one number. TAT-QA is
turned into one HTML document a table, the table as it is and then the paragraphs around it; gold is the
cell that answers, or each where several do, or the words, as offsets of that source. Taken are answers that
are read off, not calculated: those that are one cell each (ambiguous ones left out), and of the answers
out of a paragraph those whose words stand there once; so many of each, by a fixed seed. The documents say
nowhere whose figures they hold, so that some questions fit several; it is so for every route.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.support.chunking_tables import answer_cells
from benchmarks.support.datasets import LIBRARY, SHARED, Dataset, Golden, lines

TATQA = SHARED / "tatqa" / "dev.json"
SEED = 20_261_121
CELLS, TEXTS = 250, 150
"""Questions that cells answer, and that paragraphs answer."""

FROM_TABLES, FROM_TEXT = ("table", "table-text"), ("text",)


class Page:
    """A document of an entry, with the places of its cells and paragraphs as offsets of the source."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.uri = f"{entry['table']['uid']}.html"
        self.cells: dict[tuple[int, int], tuple[int, int]] = {}
        self.text_starts = 0
        self._parts: list[str] = []
        self._length = 0
        self._write("<html><body><table>")
        for row, cells in enumerate(entry["table"]["table"]):
            self._write("<tr>")
            for column, cell in enumerate(cells):
                self.cells[row, column] = self._element("td", cell)
            self._write("</tr>")
        self._write("</table>\n")
        self.text_starts = self._length
        for paragraph in entry["paragraphs"]:
            self._element("p", paragraph["text"])
            self._write("\n")
        self._write("</body></html>")

    @property
    def html(self) -> str:
        return "".join(self._parts)

    def _write(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)

    def _element(self, tag: str, text: str) -> tuple[int, int]:
        """Writes an element; where its text stands, without the space around it."""
        inner = escape(text, quote=False)
        start = self._length + len(f"<{tag}>") + len(inner) - len(inner.lstrip())
        self._write(f"<{tag}>{inner}</{tag}>")
        return start, start + len(inner.strip())


def _in_cells(entry: Mapping[str, Any], question: Mapping[str, Any], page: Page) -> list[tuple[int, int]]:
    found = []
    for answer in question["answer"]:
        cells = answer_cells(entry["table"]["table"], {"answer": [answer]})
        if len(cells) != 1:
            return []
        found.append(page.cells[cells[0]])
    return found


def _in_text(question: Mapping[str, Any], page: Page) -> list[tuple[int, int]]:
    words, source = escape(question["answer"][0].strip(), quote=False), page.html
    if len(question["answer"]) != 1 or source.count(words, page.text_starts) != 1:
        return []
    start = source.index(words, page.text_starts)
    return [(start, start + len(words))]


def _golden(data: Sequence[Mapping[str, Any]], kinds: Iterable[str]) -> Iterator[Golden]:
    for entry in data:
        page = Page(entry)
        for question in entry["questions"]:
            if question["answer_type"] not in ("span", "multi-span") or question["answer_from"] not in kinds:
                continue
            places = _in_text(question, page) if kinds == FROM_TEXT else _in_cells(entry, question, page)
            if places:
                gold = [{"uri": page.uri, "start": start, "end": end} for start, end in places]
                answer = "; ".join(question["answer"])
                yield {"id": f"tatqa-{question['uid']}", "question": question["question"].strip(), "answer": answer,
                       "gold": gold}  # fmt: skip


def tatqa_questions(data: Sequence[Mapping[str, Any]]) -> list[Golden]:
    """The sample, in the order of the file."""
    chance = random.Random(SEED)
    chosen: set[str] = set()
    every: list[Golden] = []
    for kinds, count in ((FROM_TABLES, CELLS), (FROM_TEXT, TEXTS)):
        found = list(_golden(data, kinds))
        chosen |= {question["id"] for question in chance.sample(found, min(count, len(found)))}
        every += found
    return [question for question in every if question["id"] in chosen]


def tatqa(place: Path) -> Dataset:
    """The set, with its documents written below `place`."""
    data = json.loads(TATQA.read_text(encoding="utf-8"))
    (place / "documents").mkdir(parents=True, exist_ok=True)
    for entry in data:
        page = Page(entry)
        file = place / "documents" / page.uri
        if not file.is_file() or file.read_text(encoding="utf-8") != page.html:
            file.write_text(page.html, encoding="utf-8")
    return Dataset(place, "documents", lambda folder: tatqa_questions(data), CELLS + TEXTS)


def library_facts(folder: Path) -> Iterator[Golden]:
    """Gold is the text alone: on a page that is named, any hit would count."""
    for line in lines(folder / "library.facts.jsonl"):
        yield {**line, "gold": [{"uri": gold["uri"], "quote": gold["quote"]} for gold in line["gold"]]}


LIBRARY_FACTS = Dataset(LIBRARY, "library", library_facts, 78, evaluation={"groups": ["hr"]})
