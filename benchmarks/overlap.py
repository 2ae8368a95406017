"""How the overlap floor is calibrated on real corpora, whole and in small parts, in English and Ukrainian.

    python benchmarks/overlap.py [TARGET_TOKENS ...]

Prints, for every target size (320 and 100): the calibration of each corpus by language, alone and all
together; how well each fixed floor parts adjacent from random pairs, which is where FALLBACK_FLOOR
comes from; and of parts of 3 to 100 chunks in a row, calibrated by themselves, the mean share of
neighbours that overlap and how many parts have none or all overlapped. Deterministic; needs ../shared/data.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pincite.console import rows
from pipelines.errors import DocumentError
from pipelines.fingerprint import document_id
from pipelines.indexing.overlap import EVERY, FALLBACK_FLOOR, Cosines, calibrations, cosines_of
from pipelines.indexing.packed_chunks import packed_chunks
from pipelines.indexing.structural_chunks import structural_chunks
from pipelines.parsing.elements import build_elements
from pipelines.records import Element, PackedChunk, ParsedDocument, RawDocument
from pipelines.settings.base import ChunkingSettings
from resources.models.embedders.e5_weights import StaticEmbedder
from resources.models.text_models import detect_language
from resources.parsers.registry import media_type_of, parse_file

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
CORPORA = {
    "policies": DATA / "policies",
    "unlp-medicine": DATA / "unlp-medicine",
    "chunking-evaluation": DATA / "chunking-evaluation",
    "library": ROOT / "tests" / "data" / "library",
}
FIXED = (0.42, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7)
PARTS = (3, 5, 10, 20, 40, 70, 100)
DRAWN = 60

Parsed = list[tuple[ParsedDocument, list[Element]]]
Sample = tuple[list[PackedChunk], np.ndarray]


def parsed(name: str, folder: Path) -> Parsed:
    found = []
    for path in sorted(folder.rglob("*")):
        media_type = media_type_of(path)
        if media_type is None or not path.is_file() or (path.suffix == ".csv" and name != "library"):
            continue
        uri = str(path.relative_to(folder))
        size = path.stat().st_size
        doc_id = document_id(name, uri)
        raw = RawDocument(doc_id, name, uri, "", size, media_type, None, None, None, None, (), {})
        try:
            found.append(build_elements(raw, parse_file(path, media_type), detect_language))
        except DocumentError as error:
            print(f"left out: {name}/{uri}: {error}", file=sys.stderr)
    return found


def samples(documents: Parsed, target: int, static: StaticEmbedder) -> dict[str, Sample]:
    """By language: the chunks in reading order and their vectors."""
    grouped: dict[str, list[PackedChunk]] = {}
    for document, elements in documents:
        units = structural_chunks(document, elements, ChunkingSettings().clause_tokens)
        grouped.setdefault(document.language, []).extend(packed_chunks(units, elements, target, target * 8 // 5))
    return {name: (chunks, static.passages([chunk.text for chunk in chunks])) for name, chunks in grouped.items()}


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def whole(corpora: dict[str, dict[str, Cosines]]) -> str:
    together: dict[str, list[Cosines]] = {}
    for languages in corpora.values():
        for language, cosines in languages.items():
            together.setdefault(language, []).append(cosines)
    mixed = {
        language: Cosines(*(np.concatenate([getattr(item, part) for item in items]) for part in ("adjacent", "random")))
        for language, items in together.items()
    }
    table = [
        (name, language, item.floor, item.calibrated, item.pairs, percent(item.share), percent(item.random_share))
        for name, languages in {**corpora, "all together": mixed}.items()
        for language, item in calibrations(languages).items()
        if language != EVERY
    ]
    return rows(table, ("corpus", "language", "floor", "by", "neighbours", "overlapped", "random reach it"))


def fixed(corpora: dict[str, dict[str, Cosines]]) -> str:
    """Share of neighbours / of random pairs that reach each fixed floor; last, the mean difference."""
    table, gains = [], []
    for name, languages in corpora.items():
        for language, cosines in languages.items():
            shares = [(np.mean(cosines.adjacent >= floor), np.mean(cosines.random >= floor)) for floor in FIXED]
            table.append((name, language, *(f"{100 * near:.0f} / {100 * far:.0f}" for near, far in shares)))
            gains.append([near - far for near, far in shares])
    table.append(("mean difference", "", *(f"{100 * gain:.1f}" for gain in np.mean(gains, axis=0))))
    return rows(table, ("corpus", "language", *(f"{floor} {'*' * (floor == FALLBACK_FLOOR)}" for floor in FIXED)))


def parts(corpora: dict[str, dict[str, Sample]]) -> str:
    table = []
    for name, languages in corpora.items():
        for language, sample in languages.items():
            table += [(name, language, *line) for size in PARTS if (line := drawn(sample, size))]
    return rows(table, ("corpus", "language", "chunks", "parts", "by", "overlapped", "none", "all"))


def drawn(sample: Sample, size: int) -> Sequence[object] | None:
    """Over parts that have at least two pairs of neighbours."""
    chunks, vectors = sample
    generator = np.random.default_rng(size)
    found = []
    for at in generator.integers(0, max(1, len(chunks) - size + 1), size=DRAWN if size <= len(chunks) else 0):
        cosines = cosines_of(vectors[at : at + size], chunks[at : at + size])
        if len(cosines.adjacent) >= 2:
            found.append(calibrations({"": cosines})[""])
    if not found:
        return None
    shares = np.array([item.share for item in found])
    how = "/".join(sorted({item.calibrated for item in found}))
    none, every = percent(float(np.mean(shares == 0))), percent(float(np.mean(shares == 1)))
    return size, len(found), how, percent(float(shares.mean())), none, every


def main(targets: Sequence[int]) -> None:
    static = StaticEmbedder()
    documents = {name: parsed(name, folder) for name, folder in CORPORA.items() if folder.is_dir()}
    for target in targets:
        corpora = {name: samples(items, target, static) for name, items in documents.items()}
        cosines = {
            name: {language: cosines_of(vectors, chunks) for language, (chunks, vectors) in languages.items()}
            for name, languages in corpora.items()
        }
        for text in (f"target {target} tokens", whole(cosines), fixed(cosines), parts(corpora)):
            print(text, end="\n\n", flush=True)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [320, 100])
