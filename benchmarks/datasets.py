"""The real sets beside the project as golden questions, one JSON object a line, and how each is indexed.

Every set keeps the rule by which its own authors count a hit: a passage of `policies` that begins on
page N may end on the next, so pages N and N+1 are gold; the excerpts of `chunking-evaluation` are
offsets of the decoded source; `unlp-medicine` names one page.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.chunking_data import questions_in

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"
LIBRARY = ROOT / "tests" / "data"

Golden = dict[str, Any]
"""One golden question: {"id", "question", "options"?, "answer"?, "gold": [place, ...]}."""

_CITED = re.compile(r"\[([^\[\]#]+)#page=(\d+)\]")


def policies(folder: Path) -> Iterator[Golden]:
    """Gold is the page that the reference answer cites and the next one."""
    for number, value in enumerate(lines(folder / "questions.jsonl")):
        answer = value["truth"]
        places = [{"uri": uri, "page": int(page), "page_end": int(page) + 1} for uri, page in _CITED.findall(answer)]
        text = _CITED.sub("", answer).strip()
        yield {"id": f"policies-{number}", "question": value["question"], "answer": text, "gold": places}


def policies_unanswerable(folder: Path) -> Iterator[Golden]:
    """Questions that the six files do not answer."""
    for number, value in enumerate(lines(folder / "unanswerable.jsonl")):
        yield {"id": f"policies-none-{number}", "question": value["question"], "gold": []}


def unlp_medicine(folder: Path) -> Iterator[Golden]:
    """Gold is one page; the options go along, for `--with-options`."""
    with (folder / "questions.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield {
                "id": f"unlp-{row['Question_ID']}",
                "question": row["Question"],
                "options": {letter: row[letter] for letter in "ABCDEF" if row[letter].strip()},
                "answer": row["Correct_Answer"],
                "gold": [{"uri": row["Doc_ID"], "page": int(row["Page_Num"])}],
            }


def chunking_evaluation(folder: Path) -> Iterator[Golden]:
    """Gold are excerpts, as offsets of the source; those that touch are one."""
    for number, asked in enumerate(questions_in(folder)):
        places = [{"uri": f"{asked.document}.md", "start": start, "end": end} for start, end in asked.gold]
        yield {"id": f"chunking-{number}", "question": asked.text, "gold": places}


def library(folder: Path) -> Iterator[Golden]:
    """The project's own questions, as they are."""
    yield from lines(folder / "library.questions.jsonl")


def lines(file: Path) -> Iterator[Any]:
    with file.open(encoding="utf-8") as found:
        yield from (json.loads(line) for line in found if line.strip())


@dataclass(frozen=True)
class Dataset:
    """A set: its folder, the folder of its documents within that, and what is set to index them.

    `evaluation` are arguments of an evaluation; `count` is how many questions there must be."""

    folder: Path
    documents: str
    golden: Callable[[Path], Iterable[Golden]]
    count: int
    include: tuple[str, ...] = ("**/*",)
    evaluation: Mapping[str, Any] = field(default_factory=dict)

    def settings(self, state: Path, preset: str = "auto", splitter: str = "structure") -> dict[str, Any]:
        """The contents of a pincite.yaml that differs from the defaults in nothing else."""
        source = {"name": self.folder.name, "path": str(self.folder / self.documents), "include": list(self.include)}
        return {
            "state": str(state),
            "sources": [source],
            "embedder": {"preset": preset},
            "chunking": {"strategy": splitter},
        }

    def write_golden(self, file: Path) -> Path:
        """Raises ValueError where the set has not the questions it should have."""
        lines = [json.dumps(each, ensure_ascii=False) for each in self.golden(self.folder)]
        if len(lines) != self.count:
            raise ValueError(f"{self.folder}: {len(lines)} questions, not {self.count}")
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return file


DATASETS: Mapping[str, Dataset] = {
    "policies": Dataset(SHARED / "policies", ".", policies, 201, ("*.pdf",)),
    "unlp-medicine": Dataset(
        SHARED / "unlp-medicine", "pdf", unlp_medicine, 263, ("*.pdf",), {"with_options": "lexical"}
    ),
    "chunking-evaluation": Dataset(SHARED / "chunking-evaluation", ".", chunking_evaluation, 317, ("*.md",)),
    "library": Dataset(LIBRARY, "library", library, 45, evaluation={"groups": ["hr"]}),
}
