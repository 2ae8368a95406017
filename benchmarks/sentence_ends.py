"""Sentence ends by the rules, by spaCy, and by the rules with spaCy asked, beside the sentences of three treebanks.

    python benchmarks/sentence_ends.py
    python benchmarks/sentence_ends.py --read FOLDER...

The documents are those of ../shared/data/sentences. Every variant is given the same paragraphs, which are what is
between empty lines, and spaces around its sentences are left out. F1 of exact spans and of ends (of paragraphs too), in
percent; differences to the rules have 95 % intervals of a bootstrap over documents. `asked` is the share of paragraphs
that spaCy reads. Words a second are of processor time, and `time` is the multiple of the rules' time. Where spaCy is
asked grows from row to row (ASKED). spaCy has no trained model for Ukrainian here: its `sentencizer`, which is rules,
takes the place of both. The last table chooses where to ask on two corpora and reports on the third. With `--read`,
each end that the shipped `senter` sets and the rules do not is printed; files are read as `pincite index` reads them.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.sentences import read_blocks  # noqa: E402  (the path above finds it)
from benchmarks.support.datasets import SHARED  # noqa: E402
from benchmarks.support.machine import provenance  # noqa: E402
from benchmarks.support.parsing_report import table  # noqa: E402
from pipelines.errors import DocumentError  # noqa: E402
from pipelines.indexing import boundaries  # noqa: E402
from pipelines.indexing.boundaries import judge_ends, sentence_spans, trimmed_spans  # noqa: E402
from resources.models.text_models import MODELS, TextModels  # noqa: E402
from resources.parsers.registry import media_type_of  # noqa: E402

RESAMPLES, SEED, ROUNDS = 2000, 1, 3
PARTS = {
    "senter": ("tok2vec", "tagger", "parser", "attribute_ruler", "lemmatizer", "ner"),
    "parser": ("senter", "tagger", "attribute_ruler", "lemmatizer", "ner"),
}
"""The parts of the model that each segmenter does without."""
BY_RULES = "rules"

Spans = list[tuple[int, int]]
Texts = Sequence[str]

# ---------------------------------------------------------------- where spaCy is asked

NAME, PLAIN, LOWER, ELLIPSIS, ABBREVIATION, CERTAIN = "name", "plain", "lower", "ellipsis", "abbreviation", "certain"
ASKED: Mapping[str, frozenset[str]] = {
    "initials, acronyms": frozenset({NAME}),
    "and plain words": frozenset({NAME, PLAIN}),
    "and any lower case": frozenset({NAME, PLAIN, LOWER}),
    "and dots": frozenset({NAME, PLAIN, LOWER, ELLIPSIS}),
    "and abbreviations": frozenset({NAME, PLAIN, LOWER, ELLIPSIS, ABBREVIATION}),
    "every stop": frozenset({NAME, PLAIN, LOWER, ELLIPSIS, ABBREVIATION, CERTAIN}),
}
"""Kinds of places at which spaCy decides, by name: after initials and acronyms before a capital letter, between plain
lower-case words, before any lower-case word after no known abbreviation, at `...` before one, after abbreviations,
and where the rules are certain too."""
SHIPPED, WIDE = "and plain words", "and any lower case"
UNMARKED = 20
"""Words of the shortest sentence without a stop within it in which spaCy may set ends anywhere, in one more variant."""
_ABBREVIATIONS = (
    boundaries.INTRODUCING | boundaries.BEFORE_NUMBERS | boundaries.UNITS | boundaries.CLOSING | boundaries.NAMING
)
_MARKS = re.compile(r"(\S*?)([.!?…]+)[\"'”’»)\]]*$")


class Place(NamedTuple):
    """A place where a sentence may end: its marks, their end, where the text goes on, the verdict of the rules, its
    kind."""

    mark: int
    end: int
    after: int
    verdict: bool | None
    kind: str


def places(text: str) -> Iterator[Place]:
    """The places within a text, its end left out."""
    for end, verdict in judge_ends(text, frozenset()):
        after = end
        while after < len(text) and text[after].isspace():
            after += 1
        if after < len(text):
            found = _MARKS.search(text, max(0, end - 40), end)
            word, marks = (found.group(1), found.group(2)) if found else ("", "")
            kind = kind_of(word, marks, text[after], verdict)
            yield Place(found.start(2) if found else end - 1, end, after, verdict, kind)


def kind_of(word: str, marks: str, following: str, verdict: bool | None) -> str:
    """The kind of a place by the word and marks before it and the character after it."""
    lower = following.islower()
    if verdict is None:
        return PLAIN if lower else NAME
    if verdict or not marks or not following.isalnum():
        return CERTAIN
    word = word.casefold().strip("\"'“‘«([")
    if lower and (marks == "…" or ".." in marks):
        return ELLIPSIS
    short = marks == "." and (word in _ABBREVIATIONS or "." in word or len(word) < 2 or word[-1].isdigit())
    return ABBREVIATION if short or not lower else LOWER


def divided(text: str, ends: Collection[int], asked: frozenset[str]) -> list[int]:
    """Ends by the rules, and by the model's ends at places of the kinds `asked`."""
    own = frozenset(ends)
    return [
        place.end
        for place in places(text)
        if (not own.isdisjoint(range(place.mark + 1, place.after + 1)) if place.kind in asked else place.verdict)
    ]


def unmarked(text: str, cuts: Sequence[int], ends: Collection[int], least: int = UNMARKED) -> list[int]:
    """The same ends, and those of the model in long sentences that have no stop within."""
    more = set(cuts)
    for start, end in trimmed_spans(text, cuts):
        within = text[start : end - 1]
        if len(within.split()) >= least and not re.search(r"[.!?…](?=\s)", within):
            more |= {cut for cut in ends if start < cut < end}
    return sorted(more)


# ---------------------------------------------------------------- variants

Ends = Callable[[Texts], list[list[int]]]
"""The ends of a model's sentences in each text."""
Divide = Callable[[Texts], list[Spans]]


def spacy_ends(pipeline: Any) -> Ends:
    return lambda texts: [[each.end_char for each in document.sents] for document in pipeline.pipe(texts)]


def by_model(texts: Texts, ends: Ends) -> list[Spans]:
    return [trimmed_spans(text, found) for text, found in zip(texts, ends(texts), strict=True)]


def by_both(texts: Texts, ends: Ends, asked: frozenset[str], least: int | None = None) -> list[Spans]:
    """Sentences by the rules, with a model that reads only the texts in which it is asked."""
    numbers = [number for number, text in enumerate(texts) if is_asked(text, asked, least)]
    found = dict(zip(numbers, ends([texts[number] for number in numbers]), strict=True))
    spans = []
    for number, text in enumerate(texts):
        if number not in found:
            spans.append(sentence_spans(text))
            continue
        cuts = divided(text, found[number], asked)
        spans.append(trimmed_spans(text, cuts if least is None else unmarked(text, cuts, found[number], least)))
    return spans


def is_asked(text: str, asked: frozenset[str], least: int | None = None) -> bool:
    if any(place.kind in asked for place in places(text)):
        return True
    ends = [end for _, end in sentence_spans(text)]
    return least is not None and unmarked(text, ends, range(len(text)), least) != ends


@dataclass(frozen=True)
class Variant:
    """One way to divide texts, and whether spaCy reads a text in it. `definition` is its key in ASKED, if any."""

    name: str
    divide: Divide
    asked: Callable[[str], bool]
    definition: str | None = None


def variants(language: str, models: Mapping[str, Ends]) -> Iterator[Variant]:
    yield Variant(BY_RULES, lambda texts: [sentence_spans(text) for text in texts], lambda text: False)
    for name, ends in models.items():
        yield Variant(name, partial(by_model, ends=ends), lambda text: True)
    first, *others = models

    def both(name: str, told: str, least: int | None = None) -> tuple[Divide, Callable[[str], bool]]:
        asked = ASKED[told]
        divide = partial(by_both, ends=models[name], asked=asked, least=least)
        return divide, partial(is_asked, asked=asked, least=least)

    for told in ASKED:
        yield Variant(f"rules, {first}: {told}", *both(first, told), told)
    yield Variant(f"rules, {first}: {WIDE}, {UNMARKED} words unmarked", *both(first, WIDE, UNMARKED))
    for name in others:
        yield Variant(f"rules, {name}: {SHIPPED}", *both(name, SHIPPED))
    asked = ASKED[SHIPPED] if language in MODELS else frozenset()
    yield Variant("as shipped", lambda texts: TEXT_MODELS.split(texts, language), partial(is_asked, asked=asked))


TEXT_MODELS = TextModels()


def load_models(language: str) -> dict[str, Ends]:
    import spacy

    if language not in MODELS:
        pipeline = spacy.blank(language)
        pipeline.add_pipe("sentencizer")
        return {"sentencizer": spacy_ends(pipeline)}
    loaded = {}
    for name, without in PARTS.items():
        started = time.process_time()
        pipeline = spacy.load(MODELS[language], exclude=list(without))
        if name == "senter":
            pipeline.enable_pipe(name)
        print(f"{name}: loaded in {time.process_time() - started:.1f} s", file=sys.stderr)
        loaded[name] = spacy_ends(pipeline)
    return loaded


# ---------------------------------------------------------------- scores


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """The paragraphs of a text, each with its place."""
    at = 0
    for part in re.split(r"(\n\n+)", text):
        if part.strip():
            yield at, part
        at += len(part)


def counts(found: Collection[tuple[int, int]], gold: Collection[tuple[int, int]]) -> list[int]:
    """Hits, found and gold of spans, then of ends."""
    spans, right = set(found), set(gold)
    ends, right_ends = {end for _, end in spans}, {end for _, end in right}
    return [len(spans & right), len(spans), len(right), len(ends & right_ends), len(ends), len(right_ends)]


def score(rows: NDArray[np.float64]) -> tuple[float, float, float]:
    """Precision, recall and F1 in percent of the summed hits, found and gold."""
    hits, found, gold = rows.sum(axis=0)
    return 100 * hits / max(found, 1), 100 * hits / max(gold, 1), 200 * hits / max(found + gold, 1)


def difference(rows: NDArray[np.float64], base: NDArray[np.float64]) -> tuple[float, float, float]:
    """The difference of two F1 over the same documents, and its 95 % interval."""
    picks = np.random.default_rng(SEED).integers(0, len(rows), size=(RESAMPLES, len(rows)))

    def drawn(of: NDArray[np.float64]) -> NDArray[np.float64]:
        hits, found, gold = of[picks].sum(axis=1).T
        return 200 * hits / np.maximum(found + gold, 1)

    low, high = np.percentile(drawn(rows) - drawn(base), [2.5, 97.5])
    return score(rows)[2] - score(base)[2], float(low), float(high)


@dataclass
class Measured:
    """The counts of a variant by document, its share of asked paragraphs, and its seconds."""

    variant: Variant
    counts: NDArray[np.float64]
    asked: float
    seconds: float


def measure(documents: Sequence[Mapping[str, Any]], variant: Variant) -> Measured:
    pieces = [list(paragraphs(document["text"])) for document in documents]
    texts = [text for own in pieces for _, text in own]
    seconds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        spans = variant.divide(texts)
        seconds.append(time.process_time() - started)
    each, rows = iter(spans), []
    for document, own in zip(documents, pieces, strict=True):
        found = [(at + start, at + end) for at, _ in own for start, end in next(each)]
        rows.append(counts(found, [tuple(span) for span in document["sentences"]]))
    asked = float(np.mean([variant.asked(text) for text in texts]))
    return Measured(variant, np.array(rows, dtype=np.float64), asked, min(seconds))


def shown(measured: Sequence[Measured], words: int) -> list[str]:
    base, rows = measured[0], []
    for one in measured:
        cells = []
        for columns in (slice(0, 3), slice(3, 6)):
            precision, recall, both = score(one.counts[:, columns])
            apart = "" if one is base else " ({:+.1f}; {:+.1f} to {:+.1f})".format(
                *difference(one.counts[:, columns], base.counts[:, columns]))  # fmt: skip
            cells += [f"{precision:.1f}", f"{recall:.1f}", f"{both:.1f}{apart}"]
        rows.append([one.variant.name, *cells, f"{one.asked:.1%}", f"{words / one.seconds:,.0f}",
                     f"{one.seconds / base.seconds:.1f}"])  # fmt: skip
    heads = ("spans P", "R", "F1", "ends P", "R", "F1", "asked", "words/s", "time")
    return table(("", *heads), rows)


def left_out(corpora: Mapping[str, Sequence[Measured]]) -> list[str]:
    """For each corpus, the definition that is best over the others, the narrowest of equals, and what it gives."""
    chosen = {name: [one for one in measured if one.variant.definition] for name, measured in corpora.items()}
    rows = []
    for name, own in chosen.items():
        means = [np.mean([score(other[at].counts[:, :3])[2] for key, other in chosen.items() if key != name])
                 for at in range(len(ASKED))]  # fmt: skip
        best = int(np.argmax(np.round(means, 3)))
        apart = difference(own[best].counts[:, :3], corpora[name][0].counts[:, :3])
        rows.append([name, list(ASKED)[best], "{:+.1f} ({:+.1f} to {:+.1f})".format(*apart)])
    return table(("reported on", "chosen on the others", "F1 of spans beside the rules"), rows)


# ---------------------------------------------------------------- reading


def read(folders: Sequence[Path]) -> None:
    for folder in folders:
        texts = []
        for file in sorted(folder.rglob("*")):
            if file.is_file() and media_type_of(file):
                try:
                    texts += [text for kind, text in read_blocks(file) if kind != "heading"]
                except DocumentError as error:
                    print(f"{file.name}: {error}", file=sys.stderr)
        asked = [text for text in texts if is_asked(text, ASKED[SHIPPED])]
        before = sum(is_asked(text, frozenset({NAME})) for text in texts)
        print(f"\n{folder}: {len(texts):,} texts, {len(asked)} asked, {before} of them after initials and acronyms")
        for text, spans in zip(asked, TEXT_MODELS.split(asked, "en"), strict=True):
            kinds = {place.end: place.kind for place in places(text) if place.kind in ASKED[SHIPPED]}
            for _, end in spans:
                if end in kinds:
                    print(f"  {kinds[end]}: {text[max(0, end - 60) : end]} || {text[end : end + 50].strip()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--read", nargs="+", type=Path, metavar="FOLDER", help="Folders of documents to look at.")
    options = parser.parse_args()
    if options.read:
        read(options.read)
        return
    corpora, blocks = {}, []
    for file in sorted((SHARED / "sentences").glob("*.jsonl")):
        documents = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        language = documents[0]["language"]
        TEXT_MODELS.split(["He lives in the U.S. Treasury officials agree."], language)  # loads
        corpora[file.stem] = [measure(documents, each) for each in variants(language, load_models(language))]
        words = sum(len(document["text"].split()) for document in documents)
        sentences = sum(len(document["sentences"]) for document in documents)
        told = f"{file.stem}: {len(documents)} documents, {sentences:,} sentences, {words:,} words"
        blocks.append([told, "", *shown(corpora[file.stem], words), ""])
    print(provenance("python benchmarks/sentence_ends.py", "none"), "\n")
    print("\n".join(line for block in blocks for line in block))
    print("\n".join(left_out(corpora)))


if __name__ == "__main__":
    main()
