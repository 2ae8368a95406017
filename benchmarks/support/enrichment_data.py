"""Two sets with chunks of their own as documents to index, their questions, and how the first is scored.

`summary-augmentation`: each chunk is a document. Its text was read off a web page, so marks of Markdown in
it are escaped. `contextual-code`: each file is a document, given as a structural map with one block of
code and one page for each ready-made chunk, so that the page splitter gives just these chunks.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

_MARK = re.compile(r"([!-/:-@\[-`{-~])")
_WORD = re.compile(r"\w+")
_DOCUMENT = re.compile(r"<document>\n(.*)\n</document>", re.DOTALL)
_SHINGLE = 3


@dataclass(frozen=True, slots=True)
class Chunk:
    """One of `summary-augmentation`: a piece of a page, with the summary that its makers bought."""

    uri: str
    link: str
    heading: str
    text: str
    summary: str


def chunks_in(folder: Path) -> list[Chunk]:
    values = json.loads((folder / "chunks_with_summaries.json").read_text(encoding="utf-8"))
    return [
        Chunk(f"{number:03}.md", each["chunk_link"], each["chunk_heading"], each["text"], each["summary"])
        for number, each in enumerate(values)
    ]


def write_chunks(folder: Path, place: Path) -> None:
    place.mkdir(parents=True)
    for chunk in chunks_in(folder):
        body = chunk.text.removeprefix(chunk.heading).strip()
        text = f"# {_escaped(chunk.heading)}\n\n{_escaped(body)}\n"
        (place / chunk.uri).write_text(text, encoding="utf-8")


def _escaped(text: str) -> str:
    return _MARK.sub(r"\\\1", text)


def chunk_questions(folder: Path) -> Iterator[dict[str, Any]]:
    """Gold are the documents that the right chunks became."""
    uris = {chunk.link: chunk.uri for chunk in chunks_in(folder)}
    for value in json.loads((folder / "questions.json").read_text(encoding="utf-8")):
        gold = [{"uri": uris[link]} for link in dict.fromkeys(value["correct_chunks"])]
        yield {
            "id": f"chunk-{value['id']}",
            "question": value["question"],
            "answer": value["correct_answer"],
            "gold": gold,
        }


def first_three(query: Callable[..., Mapping[str, Any]], questions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of the first three documents, as the set's makers count their chunks: precision, recall, F1 of the two
    means, reciprocal rank."""
    precisions, recalls, ranks = [], [], []
    for question in questions:
        right = {gold["uri"] for gold in question["gold"]}
        found = list(dict.fromkeys(hit["uri"] for hit in query(question["question"], k=20)["hits"]))[:3]
        good = [uri in right for uri in found]
        precisions.append(sum(good) / 3)
        recalls.append(sum(good) / len(right))
        ranks.append(next((1 / rank for rank, hit in enumerate(good, start=1) if hit), 0.0))
    precision, recall = fmean(precisions), fmean(recalls)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return {"precision@3": precision, "recall@3": recall, "f1@3": f1, "mrr@3": fmean(ranks)}


@dataclass
class ReadyMade:
    """Answers the prompt of a summary with the ready-made one of the same text; `given` are those it gave,
    by document."""

    chunks: Sequence[Chunk]
    given: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._known = {chunk.uri: _shingles(f"{chunk.heading} {chunk.text}") for chunk in self.chunks}
        self._summaries = {chunk.uri: chunk.summary for chunk in self.chunks}

    def __call__(self, prompt: str) -> str:
        """Raises ValueError for any other prompt."""
        found = _DOCUMENT.search(prompt)
        if not found:
            raise ValueError("this is no prompt of a summary")
        shown = _shingles(found.group(1))
        uri = max(self._known, key=lambda each: self._likeness(each, shown))
        self.given[uri] += 1
        return self._summaries[uri]

    def _likeness(self, uri: str, shown: frozenset[str]) -> float:
        known = self._known[uri]
        return len(known & shown) / (len(known | shown) or 1)


def _shingles(text: str) -> frozenset[str]:
    """Words, which tell the shortest texts apart, and runs of them."""
    words = _WORD.findall(text.casefold())
    return frozenset(" ".join(words[at : at + size]) for size in (1, _SHINGLE) for at in range(len(words) - size + 1))


# ---------------------------------------------------------------- code


def write_code(folder: Path, place: Path) -> None:
    """A structural map for each file."""
    place.mkdir(parents=True)
    files = json.loads((folder / "codebase_chunks.json").read_text(encoding="utf-8"))
    for file in files:
        elements = [
            {"kind": "code", "text": chunk["content"], "locator": f"page {chunk['original_index'] + 1}"}
            for chunk in file["chunks"]
        ]
        made = {"version": 1, "document": {"language": "en"}, "pages": len(elements), "elements": elements}
        (place / _name(file["original_uuid"])).write_text(json.dumps(made), encoding="utf-8")


def code_questions(folder: Path) -> Iterator[dict[str, Any]]:
    """Gold are the pages that the ready-made chunks became."""
    with (folder / "evaluation_set.jsonl").open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            value: Mapping[str, object] = json.loads(line)
            chunks: Sequence[tuple[str, int]] = value["golden_chunk_uuids"]  # type: ignore[assignment]
            gold = [{"uri": _name(uuid), "page": index + 1} for uuid, index in chunks]
            yield {"id": f"code-{number}", "question": value["query"], "answer": value["answer"], "gold": gold}


def _name(uuid: str) -> str:
    return f"{uuid[:16]}.elements.json"
