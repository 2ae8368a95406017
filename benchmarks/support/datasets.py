"""The real sets beside the project as golden questions, one JSON object a line, and how each is indexed.

Every set keeps the rule by which its own authors count a hit: a passage of `policies` that begins on
page N may end on the next, so pages N and N+1 are gold; the excerpts of `chunking-evaluation` and the cells of
`tatqa` are offsets of the decoded source; `unlp-medicine` names one page; a chunk of `contextual-code` is one
page of a structural map; one of `summary-augmentation` is a document, of which its authors count the first three;
`sec-10-q` names documents; `ohr-manual`, `ohr-paper`, `filings` and its twin `filings-text` name pages.
"""

from __future__ import annotations

import csv
import fnmatch
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.support.chunking_data import questions_in
from benchmarks.support.enrichment_data import chunk_questions, code_questions, first_three, write_chunks, write_code
from benchmarks.support.tatqa_data import table_questions, write_tables

ROOT = Path(__file__).resolve().parents[2]
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


def sec_10_q(folder: Path) -> Iterator[Golden]:
    """Gold are the documents whose file names a question's pattern fits, a company's all four or one of them."""
    names = sorted(file.name for file in folder.glob("*.pdf"))
    with (folder / "questions.csv").open(newline="", encoding="utf-8-sig") as file:
        for number, row in enumerate(csv.DictReader(file)):
            places = [{"uri": name} for name in fnmatch.filter(names, row["Source Docs"])]
            yield {"id": f"sec-10-q-{number}", "question": row["Question"].strip(), "gold": places}


def native(folder: Path) -> Iterator[Golden]:
    """Sets whose questions are written in the project's own form."""
    yield from lines(folder / "questions.jsonl")


def filings_text(folder: Path) -> Iterator[Golden]:
    """The questions of `filings`, whose documents `write_filings_text` has made text files of."""
    for value in native(folder):
        gold = [{**place, "uri": str(Path(place["uri"]).with_suffix(".txt"))} for place in value["gold"]]
        yield {**value, "gold": gold}


def write_filings_text(folder: Path, place: Path) -> None:
    """Write each filing as a text file: what PDFium reads on each page, form feeds between. Tables stand as lines."""
    import pypdfium2

    place.mkdir(parents=True)
    for file in sorted((folder / "docs").glob("*.pdf")):
        with pypdfium2.PdfDocument(file) as document:
            pages = [page.get_textpage().get_text_range() for page in document]
        text = "\f".join(page.replace("\f", " ").replace("\r\n", "\n") for page in pages)
        (place / f"{file.stem}.txt").write_text(text, encoding="utf-8")


def library(folder: Path) -> Iterator[Golden]:
    """The project's own questions, as they are."""
    yield from lines(folder / "library.questions.jsonl")


def library_unanswerable(folder: Path) -> Iterator[Golden]:
    """Questions near the project's own documents that these do not answer."""
    yield from lines(folder / "unanswerable.jsonl")


def lines(file: Path) -> Iterator[Any]:
    with file.open(encoding="utf-8") as found:
        yield from (json.loads(line) for line in found if line.strip())


@dataclass(frozen=True)
class Dataset:
    """A set: its folder, the folder of its documents within that, and what is set to index them.

    `write` makes the documents where the set has none as files: into the folder `documents` beside the state.
    `evaluation` are arguments of an evaluation; `count` is how many questions there must be. `headline` are the
    metrics that its authors report, and `scores` counts as they do, by (Index.query, questions), where no metric
    of an evaluation does."""

    folder: Path
    documents: str
    golden: Callable[[Path], Iterable[Golden]]
    count: int
    include: tuple[str, ...] = ("**/*",)
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    write: Callable[[Path, Path], None] | None = None
    unanswerable: Callable[[Path], Iterable[Golden]] | None = None
    headline: tuple[str, ...] = ("recall@1", "recall@5", "recall@10", "mrr")
    scores: Callable[..., dict[str, float]] | None = None

    def documents_beside(self, state: Path) -> Path:
        """The folder of the documents, written where it has to be and is not."""
        if self.write is None:
            return self.folder / self.documents
        place = state.parent / "documents"
        if not place.exists():
            self.write(self.folder, place)
        return place

    def settings(self, state: Path, preset: str = "auto", splitter: str = "structure") -> dict[str, Any]:
        """The contents of a pincite.yaml that differs from the defaults in nothing else."""
        documents = self.documents_beside(state)
        source = {"name": self.folder.name, "path": str(documents), "include": list(self.include)}
        return {
            "state": str(state),
            "sources": [source],
            "embedder": {"preset": preset},
            "chunking": {"strategy": splitter},
        }

    def write_golden(self, file: Path, unanswerable: bool = False) -> Path:
        """The questions, and after them those that the documents do not answer where these are asked for too.

        Raises ValueError where the set has not the questions it should have."""
        questions = list(self.golden(self.folder))
        if len(questions) != self.count:
            raise ValueError(f"{self.folder}: {len(questions)} questions, not {self.count}")
        if unanswerable and self.unanswerable:
            questions += self.unanswerable(self.folder)
        lines = [json.dumps(each, ensure_ascii=False) for each in questions]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return file


_PAGES = ("accuracy_doc", "accuracy_page", "recall@1", "recall@3", "recall@5", "recall@20")
_SPANS = ("span_recall", "span_precision", "span_precision_omega", "span_iou")

DATASETS: Mapping[str, Dataset] = {
    "policies": Dataset(
        SHARED / "policies", ".", policies, 201, ("*.pdf",), unanswerable=policies_unanswerable
    ),
    "unlp-medicine": Dataset(
        SHARED / "unlp-medicine", "pdf", unlp_medicine, 263, ("*.pdf",), {"with_options": "lexical"}, headline=_PAGES
    ),
    "chunking-evaluation": Dataset(
        SHARED / "chunking-evaluation", ".", chunking_evaluation, 317, ("*.md",), headline=_SPANS
    ),
    "library": Dataset(
        LIBRARY, "library", library, 45, evaluation={"groups": ["hr"]}, unanswerable=library_unanswerable
    ),
    "summary-augmentation": Dataset(
        SHARED / "summary-augmentation", ".", chunk_questions, 100, write=write_chunks, scores=first_three
    ),
    "contextual-code": Dataset(
        SHARED / "contextual-code", ".", code_questions, 248, write=write_code,
        headline=("gold_recall@5", "gold_recall@10", "gold_recall@20"),
    ),
    "tatqa": Dataset(
        SHARED / "tatqa", ".", table_questions, 1668, write=write_tables,
        headline=("table_precision@3", "recall@1", "recall@5", "recall@10", "mrr"),
    ),
    "sec-10-q": Dataset(
        SHARED / "reports" / "sec-10-q", ".", sec_10_q, 195, ("*.pdf",),
        headline=("accuracy_doc", "gold_recall@5", "gold_recall@10", "gold_recall@20"),
    ),
    "ohr-manual": Dataset(SHARED / "ohr" / "manual", "docs", native, 676, ("*.txt",), headline=_PAGES),
    "ohr-paper": Dataset(SHARED / "ohr" / "paper", "docs", native, 631, ("*.txt",), headline=_PAGES),
    "filings": Dataset(SHARED / "filings", "docs", native, 46, ("*.pdf",), headline=_PAGES),
    "filings-text": Dataset(
        SHARED / "filings", ".", filings_text, 46, ("*.txt",), write=write_filings_text, headline=_PAGES
    ),
}  # fmt: skip
