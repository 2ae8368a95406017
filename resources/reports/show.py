"""A passage or a sentence with its page, for `pincite show`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import DocumentError, UsageError
from pipelines.query.results import Hit, hit_json
from resources.search.page_pictures import IndexedFiles
from resources.workers.page_pictures import highlighted, write

if TYPE_CHECKING:
    from resources.search.passages import FoundChunk
    from resources.state.state import State


def show(state: State, found: FoundChunk, image: Path | None = None) -> dict[str, Any]:
    """The JSON of `show`: a hit without rank and score, its spans of the document's body, the generation, the images
    written; and the sentence, in whose paragraph it is then, or None.

    Raises UsageError where `image` is no PNG, DocumentError where its pages cannot be drawn."""
    if image is not None and image.suffix.lower() != ".png":
        raise UsageError(f"--image {image}: name a .png file")
    hit = hit_json(Hit(0, 0.0, {}, found.passage))
    images = _drawn(state, found, image) if image is not None else []
    sentence = asdict(found.sentence) if found.sentence else None
    return {
        **hit,
        "spans": [list(span) for span in found.passage.spans],
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
    pages = IndexedFiles(state).pages(found)
    around = passage.boxes if found.sentence else ()
    written = []
    for count, number in enumerate(sorted({box.page for box in marked}), start=1):
        boxes, tinted = ([box for box in of if box.page == number] for of in (marked, around))
        target = image if count == 1 else image.with_stem(f"{image.stem}-{count}")
        write(highlighted(pages.picture(number), boxes, tinted), target)
        written.append(str(target))
    return written
