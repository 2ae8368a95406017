"""A passage or a sentence with its page, for `pincite show`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pipelines.errors import DocumentError, UsageError
from pipelines.fingerprint import document_id
from pipelines.query.results import Hit, hit_json
from pipelines.records import RawDocument
from resources.parsers.registry import ELEMENTS_SUFFIX, map_beside
from resources.postgres.generation_tables import GenerationTables
from resources.sources.files import hash_now
from resources.workers.drawn_pages import DrawnPages
from resources.workers.page_pictures import highlighted, pages_beside, write
from resources.workers.task import PDF

if TYPE_CHECKING:
    from resources.search.passages import FoundChunk
    from resources.state.state import State


def show(state: State, found: FoundChunk, image: Path | None = None) -> dict[str, Any]:
    """The JSON of `show`: a hit without rank and score, the generation, the images written; and the sentence, in
    whose paragraph it is then, or None.

    Raises UsageError where `image` is no PNG, DocumentError where its pages cannot be drawn."""
    if image is not None and image.suffix.lower() != ".png":
        raise UsageError(f"--image {image}: name a .png file")
    hit = hit_json(Hit(0, 0.0, {}, found.passage))
    images = _drawn(state, found, image) if image is not None else []
    sentence = asdict(found.sentence) if found.sentence else None
    return {
        **hit,
        "rank": None,
        "score": None,
        "sentence": sentence,
        "generation": found.generation,
        "images": images,
    }


def _drawn(state: State, found: FoundChunk, image: Path) -> list[str]:
    """Every page that the passage, or the sentence, has boxes on, in its order: `page.png`, `page-2.png`, ..."""
    passage = found.passage
    marked = found.sentence.boxes if found.sentence else passage.boxes
    if not marked:
        raise DocumentError(
            f"{passage.uri}: the passage has no place on a page, so there is nothing to draw; leave out --image",
            "no_pages",
        )
    root = state.parts.sources.root(passage.source)
    path = root / passage.uri
    _check_unchanged(found, root)
    source = pages_beside(path)
    if source is None:
        raise DocumentError(f"{passage.uri}: only pages of a PDF can be drawn; leave out --image", "no_pages")
    if source != path:
        _check_groups(state, found, str(PurePosixPath(passage.uri).with_name(source.name)))
    around = passage.boxes if found.sentence else ()
    written = []
    pages = DrawnPages(state.parts.pool, *_file_of_pages(state, found, source, alone=source == path))
    for count, number in enumerate(sorted({box.page for box in marked}), start=1):
        boxes, tinted = ([box for box in of if box.page == number] for of in (marked, around))
        target = image if count == 1 else image.with_stem(f"{image.stem}-{count}")
        write(highlighted(pages.picture(number), boxes, tinted), target)
        written.append(str(target))
    return written


def _file_of_pages(state: State, found: FoundChunk, source: Path, alone: bool) -> tuple[RawDocument, Path]:
    """The file that has the pages, and the folder of its source. Where it is the document itself, and `alone`, it is
    drawn only as it was indexed, whatever is put in its place meanwhile."""
    root = state.parts.sources.root(found.passage.source)
    uri = source.relative_to(root).as_posix()
    content = found.content_hash if alone and not map_beside(source).is_file() else ""
    raw = RawDocument(found.passage.doc_id, found.passage.source, uri, content, 0, PDF, None, None, None, None, (), {})
    return raw, root


def _check_groups(state: State, found: FoundChunk, beside: str) -> None:
    """The PDF beside a map may be a document of its own, and for others. Raises DocumentError `no_pages`."""
    passage, generation = found.passage, state.parts.catalog.generation(found.generation)
    assert generation is not None
    own, groups = (
        document_id(passage.source, beside),
        GenerationTables(state.parts.database, generation).document_groups(),
    )
    known = {raw.doc_id for raw in state.listing.raw_documents()} | {no.doc_id for no in state.runner.failures()}
    if own in known and (own not in groups or groups[own][1] != groups[passage.doc_id][1]):
        raise DocumentError(
            f"{passage.uri}: the file that has its pages is not served to the same groups; leave out --image",
            "no_pages",
        )


def _check_unchanged(found: FoundChunk, root: Path) -> None:
    """Boxes hold only for the file that was indexed. Raises DocumentError `gone` or `changed`."""
    uri = found.passage.uri
    path = root / uri
    beside = [f"{uri}{ELEMENTS_SUFFIX}"] if map_beside(path).is_file() else []
    try:
        now = hash_now(root, [*beside, uri])
    except FileNotFoundError:
        raise DocumentError(
            f"{found.passage.uri}: the file is gone from {path}; bring it back, or run `pincite index`", "gone"
        ) from None
    except OSError as error:
        raise DocumentError(f"{path}: the file cannot be read ({error.strerror})", "unreadable") from None
    if found.stale or now != found.content_hash:
        raise DocumentError(
            f"{found.passage.uri}: the file has changed since it was indexed, so the passage may stand elsewhere; "
            "run `pincite index`, then query again",
            "changed",
        )
