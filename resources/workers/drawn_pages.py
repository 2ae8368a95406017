"""Pages of a PDF drawn in processes of their own (resources/workers/pool.py): one that hangs or crashes what draws it
costs no other, and not who asked for it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pipelines.errors import DocumentError
from pipelines.records import Failure, PagePicture, RawDocument
from pipelines.schemas import from_table
from resources.sources.files import Place
from resources.workers.page_pictures import LONGEST_SIDE, PAD, Picture
from resources.workers.task import Task

if TYPE_CHECKING:
    from resources.workers.pool import DocumentPool

MOST_PAGES = 1_000_000
"""More than the parser reads of any PDF: a higher number is a mistake."""
BATCH = 8
"""Pages that are drawn before the first of them is looked at."""


class DrawnPages:
    """The pages of a PDF, 1-based, each drawn in a process of its own (resources/workers/pool.py)."""

    def __init__(self, pool: DocumentPool, raw: RawDocument, root: Place) -> None:
        self._pool, self._raw, self._root = pool, raw, root
        self._count: int | None = None

    def __len__(self) -> int:
        """Raises DocumentError as an opened file does."""
        if self._count is None:
            self._draw([])
        assert self._count is not None
        return self._count

    def require(self, number: int, count: int | None = None) -> None:
        """Raise DocumentError `no_page` where a file of `count` pages has none of this number, or none could have it.
        Starts nothing."""
        if not 1 <= number <= (count or MOST_PAGES):
            name = self._raw.uri.rpartition("/")[2]
            raise DocumentError(f"{name} has no page {number}" + (f"; it has {count}" if count else ""), "no_page")

    def pictures(self, numbers: Sequence[int]) -> Iterator[tuple[int, Picture | DocumentError]]:
        """These pages in order, each as a picture, or why it cannot be drawn."""
        for start in range(0, len(numbers), BATCH):
            batch = numbers[start : start + BATCH]
            able = [number for number in batch if 1 <= number <= MOST_PAGES]
            found = self._draw(able) if able else {}
            for number in batch:
                yield number, self._checked(number, found.get(number))

    def picture(self, number: int) -> Picture:
        """Raises DocumentError `no_page` where there is no such page, `corrupt` where it cannot be drawn."""
        ((_, found),) = self.pictures([number])
        if isinstance(found, DocumentError):
            raise found
        return found

    def _draw(self, numbers: Sequence[int]) -> dict[int, PagePicture]:
        raw = self._raw
        task = Task("page_pictures", raw.doc_id, raw.source, raw.uri, {"pages": list(numbers)}, raw=raw,
                    root=self._root, without=frozenset())  # fmt: skip
        ((_, made),) = self._pool.run([task], 1)
        if isinstance(made, Failure):
            raise DocumentError(made.message, made.code)
        rows = from_table(PagePicture, made.tables["page_pictures"])
        self._count = max((row.pages for row in rows), default=0)
        return {row.index: row for row in rows}

    def _checked(self, number: int, row: PagePicture | None) -> Picture | DocumentError:
        from PIL import Image

        name = self._raw.uri.rpartition("/")[2]
        try:
            self.require(number)
        except DocumentError as error:
            return error
        if number > len(self):
            return DocumentError(f"{name} has no page {number}; it has {len(self)}", "no_page")
        if row is None or not row.picture:
            reason = row.reason if row else f"{name}: page {number} crashes what draws it, or takes too long"
            return DocumentError(reason, "corrupt")
        try:
            image = Image.open(io.BytesIO(row.picture), formats=["PNG"])
            if max(image.size) > LONGEST_SIDE + PAD:
                return DocumentError(f"{name}: page {number} is drawn larger than it was asked for", "corrupt")
            return Picture(image.convert("RGB"), row.scale)
        except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError):
            return DocumentError(f"{name}: what draws page {number} gives no picture", "corrupt")
