"""The pictures of a document's figures. Documents are not trusted: they are decoded in processes of their own
(resources/workers/pool.py), and a picture that breaks one costs no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.records import Element, Failure, FigurePicture, RawDocument
from pipelines.schemas import from_table
from resources.sources.files import Place
from resources.workers.figures import figure_name
from resources.workers.task import Rows, Task

if TYPE_CHECKING:
    from resources.workers.pool import DocumentPool

STAGE = "figure_descriptions"
BATCH = 16
"""Figures that one process reads."""


def figure_images(
    pool: DocumentPool, raw: RawDocument, root: Place, figures: Sequence[Element]
) -> Iterator[bytes | str]:
    """For each figure in order its picture, or why there is none. `root` is where the document's file is read from."""
    for start in range(0, len(figures), BATCH):
        batch = figures[start : start + BATCH]
        task = Task("figure_pictures", raw.doc_id, raw.source, raw.uri, {}, Rows("parsed_elements", Element, batch),
                    raw=raw, root=root, without=frozenset(), stage=STAGE)  # fmt: skip
        ((task, made),) = pool.run([task], 1)
        found: dict[int, FigurePicture] = {}
        reason = made.message if isinstance(made, Failure) else "what reads its picture crashed, or took too long"
        if not isinstance(made, Failure):
            found = {row.index: row for row in from_table(FigurePicture, made.tables["figure_pictures"])}
        for figure in batch:
            row = found.get(figure.index)
            yield (row.picture or row.reason) if row else f"{figure_name(Path(raw.uri), figure)}: {reason}"
