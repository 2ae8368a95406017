"""The model of a random life: a folder and its settings, what happens to them, and what should be served of them."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from tests.support.projects import Project

WORDS = re.findall(r"\w+", "harbour ledger lantern orchard pulley quarry rafter saddle thicket urn valve willow yarn")
SUFFIXES = (".txt", ".txt", ".md", ".html", ".pdf", ".docx")
STAFF, BOARD = ["staff"], ["board"]


def packed(text: str, suffix: str) -> bytes:
    """The text as a file of that kind, the same bytes for the same text."""
    if suffix == ".pdf":
        return _pdf(text)
    if suffix == ".docx":
        return _docx(text)
    return (f"<html><body><p>{text}</p></body></html>" if suffix == ".html" else text).encode()


def _pdf(text: str) -> bytes:
    from reportlab.lib.utils import simpleSplit
    from reportlab.pdfgen.canvas import Canvas

    made = io.BytesIO()
    canvas = Canvas(made, pagesize=(595, 842), invariant=True)
    for number, line in enumerate(simpleSplit(text, "Helvetica", 11, 450)):
        canvas.drawString(72, 760 - 14 * (number % 45), line)
        if number % 45 == 44:
            canvas.showPage()
    canvas.save()
    return made.getvalue()


def _docx(text: str) -> bytes:
    import docx

    document, made = docx.Document(), io.BytesIO()
    document.add_paragraph(text)
    document.save(made)
    return made.getvalue()


@dataclass
class File:
    """What a file says when it can be read, and what is served of it: the last text that a run has read, if any."""

    text: str
    data: bytes
    served: str | None = None
    broken: bool = False
    groups: list[str] | None = None
    blank: bool = False
    """Its side-car has groups that nobody can know."""


@dataclass
class Folder:
    """Files by uri, and the settings they are read under."""

    project: Project
    chance: random.Random
    files: dict[str, File]
    of_source: list[str] = field(default_factory=list)
    doubled: set[str] = field(default_factory=set)
    """Files that ever had a twin, or had one while a run moved them: a question is told of one of the two."""
    number: int = 0
    told: list[str] = field(default_factory=list)

    @property
    def code(self) -> int:
        """What a run of it ends with."""
        return 3 if self.failing() else 0

    def failing(self) -> set[str]:
        return {uri for uri, file in self.files.items() if file.broken or file.blank}

    def groups(self, uri: str) -> list[str]:
        own = self.files[uri].groups
        return self.of_source if own is None else own

    def run_was_made(self) -> None:
        """What a run that has ended has read, and withheld."""
        for file in self.files.values():
            if file.blank:
                file.served = None
            elif not file.broken:
                file.served = file.text

    def wanted(self) -> dict[str, tuple[str, bool, list[str]]]:
        """uri to the text that is served, whether it is marked stale, and who may find it."""
        return {
            uri: (file.served, file.broken, self.groups(uri))
            for uri, file in self.files.items()
            if file.served is not None
        }

    def public(self) -> dict[str, str]:
        """uri to the text that is served to everybody."""
        return {uri: text for uri, (text, _, groups) in self.wanted().items() if not groups}

    # ------------------------------------------------------------ documents

    def text(self) -> str:
        words = [self.chance.choice(WORDS) for _ in range(self.chance.randrange(6, 60))]
        self.number += 1
        return " ".join(f"The {word} {number} of life {self.number} is kept." for number, word in enumerate(words))

    def pick(self) -> str:
        return self.chance.choice(sorted(self.files))

    def put(self, uri: str, data: bytes) -> None:
        self.project.write(uri, data)

    def add(self) -> None:
        uri = f"{self.chance.choice(('', 'a/', 'b/c/'))}new-{self.number}{self.chance.choice(SUFFIXES)}"
        text = self.text()
        self.files[uri] = File(text, packed(text, PurePosixPath(uri).suffix))
        self.put(uri, self.files[uri].data)

    def twin(self) -> None:
        """The same bytes again, under another name."""
        like = self.pick()
        uri = f"twin-{self.number}{PurePosixPath(like).suffix}"
        self.number += 1
        if not self.files[like].broken:
            self.files[uri] = File(self.files[like].text, self.files[like].data)
            self.put(uri, self.files[uri].data)
            self.doubled |= {uri, like}

    def change(self) -> None:
        uri, text = self.pick(), self.text()
        file = self.files[uri]
        file.text, file.data, file.broken = text, packed(text, PurePosixPath(uri).suffix), False
        self.put(uri, file.data)

    def rename(self) -> None:
        """With its side-car."""
        uri = self.pick()
        to = f"moved/{self.number}{PurePosixPath(uri).suffix}"
        self.number += 1
        self.files[to] = self.files.pop(uri)
        self.files[to].served = None
        self.doubled |= {uri, to}
        (self.project.docs / to).parent.mkdir(exist_ok=True)
        for ending in ("", ".meta.yaml"):
            if (self.project.docs / f"{uri}{ending}").exists():
                (self.project.docs / f"{uri}{ending}").rename(self.project.docs / f"{to}{ending}")

    def delete(self) -> None:
        if len(self.files) > 3:
            uri = self.pick()
            self.forget(uri)
            del self.files[uri]
            (self.project.docs / uri).unlink()

    def corrupt(self) -> None:
        uri = self.pick()
        self.files[uri].broken = True
        self.put(uri, self.chance.randbytes(2000))

    def mend(self) -> None:
        """All that is broken or blank."""
        for uri, file in self.files.items():
            if file.broken:
                file.broken = False
                self.put(uri, file.data)
            if file.blank:
                self.forget(uri)

    # ------------------------------------------------------------ groups

    def forget(self, uri: str | None = None) -> None:
        """A side-car goes."""
        uri = uri or self.pick()
        self.files[uri].groups, self.files[uri].blank = None, False
        (self.project.docs / f"{uri}.meta.yaml").unlink(missing_ok=True)

    def restrict(self) -> None:
        uri = self.pick()
        self.files[uri].groups, self.files[uri].blank = BOARD, False
        self.project.write(f"{uri}.meta.yaml", "groups: [board]\n")

    def blank(self) -> None:
        uri = self.pick()
        self.files[uri].groups, self.files[uri].blank = None, True
        self.project.write(f"{uri}.meta.yaml", self.chance.choice(("groups:\n", "groups: []\n", "groups: [board\n")))

    def restrict_source(self) -> None:
        self.of_source = [] if self.of_source else STAFF
        (source,) = self.project.settings["sources"]
        self.project.configure(sources=[{**source, "groups": self.of_source}])

    # ------------------------------------------------------------ settings and generations

    def shape(self, model: str, tokens: int) -> None:
        settings = self.project.settings
        self.project.configure(
            embedder={**settings["embedder"], "model": model},
            chunking={**settings["chunking"], "target_tokens": tokens},
        )

    def swap(self) -> None:
        self.shape(self.chance.choice(("fake", "other")), self.project.settings["chunking"]["target_tokens"])

    def resize(self) -> None:
        self.shape(self.project.settings["embedder"]["model"], self.chance.choice((320, 80)))

    def roll_back(self) -> None:
        """And the settings with it, as its operator does."""
        ran = self.project.run("generations rollback")
        if ran.code:
            assert ran.json["error"]["code"] == "no_previous", ran.out
            return
        ((settings,),) = self.project.rows(
            "SELECT settings FROM pincite.generations JOIN pincite.live USING (generation)"
        )
        self.shape(settings["embedder"]["model"], settings["chunking"]["target_tokens"])

    def prune(self) -> None:
        ran = self.project.run("generations prune", "--keep", self.chance.choice(("1", "2")))
        assert ran.code == 0, ran.out + ran.err

    def act(self) -> None:
        acts: tuple[Callable[[], Any], ...] = (
            self.add, self.add, self.twin, self.change, self.change, self.rename, self.delete, self.corrupt, self.mend,
            self.forget, self.restrict, self.blank, self.restrict_source, self.swap, self.resize, self.roll_back,
            self.prune,
        )  # fmt: skip
        chosen = self.chance.choice(acts)
        self.told.append(chosen.__name__)
        chosen()
