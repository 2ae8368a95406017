"""The data of the reranker: candidates of every question of the sets, and texts to make questions from.

    python benchmarks/reranker/data.py --out DIR [--sets ...] [--keep DIR]
    python benchmarks/reranker/data.py --out DIR --manuals ROOT [--protocols FOLDER]

The first form indexes every set by the command itself, as benchmarks/fusion.py does, and writes SET.asked.xz, each
question with the 60 candidates that hybrid search measures, and SET.texts.xz, the passages of all candidates in
sentences. A set's own unanswerable questions go along. The second writes manuals.texts.xz: HTML, Mallard and POD pages
below ROOT, into which packages of documentation with a free licence were unpacked, and the PDF files of FOLDER.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.fusion import PARTS, SHIPPED, index_of, measured_candidates, standard  # noqa: E402  (the path above finds it)
from benchmarks.reranker.windows import Asked, Text, write_lines  # noqa: E402
from benchmarks.support.datasets import DATASETS  # noqa: E402
from pipelines.evaluation.judging import matches, question_for, shown_by  # noqa: E402
from pipelines.ports import Filters, Passage  # noqa: E402
from pipelines.query.results import Hit  # noqa: E402
from pipelines.query.routes import QueryState  # noqa: E402
from pipelines.query.wording import Question, Wordings  # noqa: E402
from pipelines.settings.query import QuerySettings  # noqa: E402
from pipelines.terms import terms_of  # noqa: E402
from resources.evaluation.golden import examination, read_questions  # noqa: E402
from resources.search.answers import passage_sentences  # noqa: E402
from resources.search.passages import Searcher  # noqa: E402
from resources.settings_file import locate  # noqa: E402
from resources.state.state import State  # noqa: E402

SEED = 1
MOST_OF_A_PACKAGE = 1_500
"""Texts of one package in one language, so that no manual outweighs the others."""
LANGUAGES = ("uk", "de", "fr", "es", "pl")
"""Languages of Mallard pages beside English: Ukrainian, and four that share its model."""
SPOKEN = {"unlp-medicine": "uk"}
"""Languages of sets that are not in English."""


class _Texts:
    """The texts of a set, each once, by chunk."""

    def __init__(self, corpus: str) -> None:
        self.corpus, self.all = corpus, list[Text]()
        self._places: dict[str, int] = {}

    def place(self, passage: Passage, sentences: Sequence[str]) -> int:
        """Return the place of a passage among the texts."""
        if passage.chunk_id not in self._places:
            self._places[passage.chunk_id] = len(self.all)
            headings = (PurePosixPath(passage.uri).stem, passage.title, *passage.header_chain)
            own = tuple(dict.fromkeys(one for one in headings if one))
            self.all.append(Text(self.corpus, SPOKEN.get(self.corpus, "en"), own, tuple(sentences)))
        return self._places[passage.chunk_id]


def in_lines(text: str) -> list[str]:
    """Return the lines of a text that has no sentences, such as code."""
    return [line.strip() for line in text.splitlines() if line.strip()] or [text]


def nearest(question: str, sentences: Sequence[str], cosines: Sequence[float | None]) -> int:
    """Return the sentence nearest to the question: by cosine, or by shared words if there are no vectors."""
    if any(cosine is not None for cosine in cosines):
        return max(range(len(sentences)), key=lambda at: cosines[at] or -1.0)
    wanted = set(terms_of(question))
    return max(range(len(sentences)), key=lambda at: (len(wanted & set(terms_of(sentences[at]))), -at))


def measured(name: str, file: Path) -> tuple[list[Asked], list[Text]]:
    """Return the questions of an indexed set with their candidates, and the texts of these."""
    dataset, state, found, texts = DATASETS[name], State(locate(config=str(file))), list[Asked](), _Texts(name)
    try:
        live = state.parts.catalog.live()
        assert live is not None, "an index that was just made is live"
        golden = dataset.write_golden(file.parent / "reranker.jsonl", unanswerable=True)
        exam, searcher = examination(state, read_questions(golden), live), Searcher(state)
        filters = Filters(groups=tuple(dataset.evaluation.get("groups", ())))
        for mapped in exam.questions:
            question = question_for(mapped, dataset.evaluation.get("with_options", "none"))
            question = question if isinstance(question, Question) else Question(question)
            with searcher.reading() as (connection, index):
                known = partial(index.abbreviations, filters=filters)
                meant = Wordings(QuerySettings()).wordings_of(question, index.frequencies, known)
                one = QueryState(meant, index, searcher.tools.tools_for(index.generation.embedder), filters)
                values, order = candidates(one)
                passages = index.passages(order, filters)
                hits = [Hit(at, 0.0, {}, passages[key], (), {}) for at, key in enumerate(order, start=1)]
                sentences = passage_sentences(connection, index.generation.number, hits, one.vector)
            places, near = [], []
            for key in order:
                own = [(each.text, each.cosine) for each in sentences.get(key, ())]
                own = own or [(line, None) for line in in_lines(passages[key].text)]
                places.append(texts.place(passages[key], [text for text, _ in own]))
                near.append(nearest(question.text, *map(list, zip(*own, strict=True))))  # type: ignore[arg-type]
            shown = [shown_by(passages[key], exam.corpus.documents.get(passages[key].doc_id)) for key in order]
            gold = [tuple(at for at, each in enumerate(shown) if matches(each, place)) for place in mapped.places]
            found.append(Asked(name, question.text, tuple(places), tuple(near), values, tuple(gold), bool(gold)))
    finally:
        state.close()
    return found, texts.all


def candidates(one: QueryState) -> tuple[dict[str, list[float]], list[str]]:
    """Return the candidates of hybrid search in the shipped order, and the values of each measure in that order."""
    found, values = measured_candidates(one)
    best = list(found)
    own = {part: [values[part].get(key, 0.0) for key in best] for part in PARTS}
    normal = {part: standard(own[part]) for part in PARTS}
    total = [sum(SHIPPED[part] * normal[part][at] for part in PARTS) for at in range(len(best))]
    order = sorted(range(len(best)), key=lambda at: -total[at])
    return {part: [own[part][at] for at in order] for part in PARTS}, [best[at] for at in order]


# ---------------------------------------------------------------- manuals

_END = re.compile(r"(?<=[.!?:;])\s+(?=[^\s\da-zа-яіїєґ])")
_HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5}
_BLOCKS = {"p", "li", "td", "dd", "dt", "blockquote", "pre", "item", "title", "desc"}
_SKIPPED = {"script", "style", "info", "head", "nav"}
LONGEST_TEXT = 1_600
"""Characters after which a text of a manual is divided."""


class _Page(HTMLParser):
    """The blocks of an HTML or Mallard page, each with the headings above it."""

    def __init__(self, mallard: bool) -> None:
        super().__init__()
        self.blocks: list[tuple[tuple[str, ...], str]] = []
        self._mallard, self._depth, self._skipped, self._words = mallard, 0, 0, list[str]()
        self._above: dict[int, str] = {}

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag in _SKIPPED:
            self._skipped += 1
        if tag in _BLOCKS or tag in _HEADINGS:
            self._end()
        self._depth += tag == "section"

    def handle_endtag(self, tag: str) -> None:
        level = _HEADINGS.get(tag) or (self._depth + 1 if self._mallard and tag == "title" else 0)
        text = " ".join("".join(self._words).split()).rstrip("¶#")
        if level and text and not self._skipped:
            self._above = {own: one for own, one in self._above.items() if own < level} | {level: text}
            self._words = []
        elif tag in _BLOCKS:
            self._end()
        self._depth -= tag == "section"
        self._skipped = max(0, self._skipped - (tag in _SKIPPED))

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self._words.append(data)

    def _end(self) -> None:
        text = " ".join("".join(self._words).split())
        self._words = []
        if len(text) > 3:
            self.blocks.append((tuple(self._above[own] for own in sorted(self._above)), text))


def pod(text: str) -> list[tuple[tuple[str, ...], str]]:
    """Return the blocks of a POD page."""
    above: dict[int, str] = {}
    blocks = []
    for block in re.split(r"\n\s*\n", text):
        told = re.match(r"=head(\d)\s+(.*)", block, re.DOTALL)
        plain = re.sub(r"[A-Z]<+([^<>]*)>+", r"\1", " ".join((told[2] if told else block).split()))
        if told:
            above = {own: one for own, one in above.items() if own < int(told[1])} | {int(told[1]): plain}
        elif not block.startswith("="):
            blocks.append((tuple(above[own] for own in sorted(above)), plain))
    return blocks


def grouped(corpus: str, language: str, blocks: Sequence[tuple[tuple[str, ...], str]]) -> Iterator[Text]:
    """Return texts of the blocks that follow each other under the same headings."""
    own: list[str] = []
    for at, (headings, text) in enumerate(blocks):
        own += [sentence for sentence in _END.split(text) if len(sentence) < 2 * LONGEST_TEXT]
        last = at + 1 == len(blocks) or blocks[at + 1][0] != headings
        if last or sum(map(len, own)) > LONGEST_TEXT:
            if sum(map(len, own)) > 120:
                yield Text(corpus, language, headings, tuple(own))
            own = []


def manual(file: Path, below: Path) -> tuple[str, str, list[tuple[tuple[str, ...], str]]]:
    """Return the package, language and blocks of a page; no blocks if it is of no use."""
    parts = file.relative_to(below).parts
    if file.suffix == ".page":
        language = parts[1] if parts[1] in LANGUAGES else "en" if parts[1] == "C" else ""
        reader = _Page(True)
        reader.feed(file.read_text(encoding="utf-8", errors="replace") if language else "")
        return f"help-{parts[2]}", language, reader.blocks
    if file.suffix == ".pod":
        return "perl", "en", pod(file.read_text(encoding="utf-8", errors="replace"))
    if file.suffix == ".html" and not any(
        re.fullmatch(r"[a-z]{2}(-[A-Z]{2})?", part) and part != "en-US" for part in parts
    ):
        reader = _Page(False)
        reader.feed(file.read_text(encoding="utf-8", errors="replace"))
        return parts[1] if parts[0] == "doc" else parts[0], "en", reader.blocks
    if file.name.endswith(".txt.gz") and "FAQ" in parts:
        with gzip.open(file, "rt", errors="replace") as found:
            return "debian-faq", "en", [((), " ".join(one.split())) for one in found.read().split("\n\n")]
    return "", "", []


def manuals(root: Path, protocols: Path | None) -> list[Text]:
    """Return texts of all pages below `root` and of the PDF files of `protocols`, of each corpus some by chance."""
    found: dict[tuple[str, str], list[Text]] = {}
    for file in sorted(one for one in root.rglob("*") if one.is_file()):
        package, language, blocks = manual(file, root)
        if language:
            found.setdefault((package, language), []).extend(grouped(package, language, blocks))
    if protocols:
        found["protocols", "en"] = list(of_pdfs(protocols))
    chance = random.Random(SEED)
    return [text for key in sorted(found)
            for text in chance.sample(found[key], min(len(found[key]), MOST_OF_A_PACKAGE))]  # fmt: skip


def of_pdfs(folder: Path) -> Iterator[Text]:
    """Return the pages of PDF files as texts under the file's first line."""
    import pypdfium2

    for file in sorted(folder.glob("*.pdf")):
        with pypdfium2.PdfDocument(file) as document:
            pages = [" ".join(page.get_textpage().get_text_range().split()) for page in document]
        yield from grouped("protocols", "en", [((pages[0][:80], f"{at}"), page) for at, page in enumerate(pages)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--sets", nargs="*", choices=tuple(DATASETS), default=list(DATASETS))
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep the indexes here, and use those that are here.")
    parser.add_argument("--manuals", type=Path, metavar="ROOT")
    parser.add_argument("--protocols", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.manuals:
        texts = manuals(options.manuals, options.protocols)
        write_lines(options.out / "manuals.texts.xz", texts)
        print(f"manuals: {len(texts)} texts", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory(prefix="pincite-reranker-") as folder:
        place = (options.keep or Path(folder)).resolve()
        for name in options.sets:
            found, texts = measured(name, index_of(name, place))
            write_lines(options.out / f"{name}.asked.xz", found)
            write_lines(options.out / f"{name}.texts.xz", texts)
            print(f"{name}: {len(found)} questions, {len(texts)} texts", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
