"""The PDFs that benchmarks/peers.py indexes, the copy that is modified, and the questions."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ADDED = "The badge office is open on Tuesdays and lends umbrellas."
_CITED = re.compile(r"\[([^\[\]#]+)#page=(\d+)\]")

Gold = tuple[str, int, int]
"""A file's name, and the first and last page that count."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """PDFs by name, the longest first; the first is modified, the second deleted, and then the last, the `small` one,
    if there are more than two, is modified and deleted too."""

    files: Sequence[Path]
    pages: Mapping[str, int]

    @property
    def modified(self) -> str:
        return self.files[0].name

    @property
    def deleted(self) -> str:
        return self.files[1].name

    @property
    def small(self) -> str | None:
        return self.files[-1].name if len(self.files) > 2 else None


def corpus(folder: Path) -> Corpus:
    """The PDFs directly in a folder. Raises SystemExit for fewer than two."""
    import pypdfium2

    pages = {}
    for file in sorted(folder.glob("*.pdf")):
        with pypdfium2.PdfDocument(file) as document:
            pages[file.name] = len(document)
    if len(pages) < 2:
        raise SystemExit(
            f"{folder} has {len(pages)} PDFs, and one is modified and another deleted: name a folder of more"
        )
    return Corpus([folder / name for name in sorted(pages, key=lambda name: (-pages[name], name))], pages)


def copied(files: Sequence[Path], folder: Path) -> None:
    """The files, and nothing else, in a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in files:
        shutil.copyfile(file, folder / file.name)


def write_modified(file: Path, target: Path) -> None:
    """A copy of a PDF with one more sentence at the bottom of its middle page."""
    import pypdfium2
    from pypdfium2 import raw

    with pypdfium2.PdfDocument(file) as document:
        page = document[len(document) // 2]
        words = ctypes.create_string_buffer((ADDED + "\0").encode("utf-16-le"))
        text = raw.FPDFPageObj_CreateTextObj(
            document.raw, raw.FPDFText_LoadStandardFont(document.raw, b"Helvetica"), 10
        )
        raw.FPDFText_SetText(text, ctypes.cast(words, ctypes.POINTER(raw.FPDF_WCHAR)))
        raw.FPDFPageObj_Transform(text, 1, 0, 0, 1, 72, 60)
        raw.FPDFPage_InsertObject(page.raw, text)
        raw.FPDFPage_GenerateContent(page.raw)
        page.close()
        document.save(target)


def questions_of(file: Path, names: Sequence[str]) -> list[tuple[str, list[Gold]]]:
    """Questions and their pages, of those whose pages are in files of these names. A line is a golden question
    ({"question", "gold": [{"uri", "page", "page_end"?}]}), or names pages in its answer ({"question", "truth"}, with
    [file.pdf#page=N]): of these page N and the next count, since an answer may go on there."""
    found = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.strip():
            continue
        value: dict[str, Any] = json.loads(line)
        gold = _gold(value)
        if gold and {name for name, _, _ in gold} <= set(names):
            found.append((str(value["question"]), gold))
    return found


def _gold(value: Mapping[str, Any]) -> list[Gold]:
    if "gold" in value:
        return [
            (Path(place["uri"]).name, place["page"], place.get("page_end") or place["page"])
            for place in value["gold"]
            if place.get("page")
        ]
    return [(name, int(page), int(page) + 1) for name, page in _CITED.findall(value.get("truth", ""))]
