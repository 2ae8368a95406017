"""Pictures of one document, made in a process of its own (resources/workers/worker.py)."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from pipelines.errors import DocumentError
from pipelines.records import Element, FigurePicture, PagePicture
from resources.workers.figures import figure_image, figure_name
from resources.workers.page_pictures import opened_pages


def figure_pictures(
    path: Path, media_type: str, figures: Sequence[Element], report: Callable[[int], None], without: Collection[int]
) -> Iterator[FigurePicture]:
    """In a process of its own, which is told from `report` which figure it reads, by its index; those `without` are
    left out."""
    for figure in sorted(figures, key=lambda figure: figure.index):
        if figure.index in without:
            continue
        report(figure.index)
        try:
            yield FigurePicture(figure.doc_id, figure.index, figure_image(path, media_type, figure), "")
        except DocumentError as error:
            yield FigurePicture(figure.doc_id, figure.index, b"", str(error))
        except MemoryError:
            reason = f"{figure_name(path, figure)}: its picture needs more than parsing.memory_mb allows"
            yield FigurePicture(figure.doc_id, figure.index, b"", reason)


def page_pictures(
    path: Path, numbers: Sequence[int], report: Callable[[int], None], without: Collection[int]
) -> Iterator[PagePicture]:
    """In a process of its own, which is told from `report` which page it draws; those `without` and those that the file
    does not have are left out, and where none of them is left, page 0 tells how many there are."""
    with opened_pages(path) as pages:
        count = len(pages)
        yield PagePicture(0, count, 0.0, b"", "")
        for number in sorted(numbers):
            if not 1 <= number <= count or number in without:
                continue
            report(number)
            try:
                picture, data = pages.picture(number), io.BytesIO()
                picture.image.save(data, "PNG", compress_level=1)
                yield PagePicture(number, count, picture.scale, data.getvalue(), "")
            except DocumentError as error:
                yield PagePicture(number, count, 0.0, b"", str(error))
