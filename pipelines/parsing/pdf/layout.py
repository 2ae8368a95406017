"""The conversion of a PDF's lines into blocks in reading order.

Running headers and footers are separated, tables are found, and the other lines are joined into paragraphs and list
items by distance, indent and font. Headings are marked, and blocks that a page boundary divides are joined again. No
letter may be lost: `blocks_of` counts them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from itertools import islice, pairwise

from pipelines.fingerprint import combine
from pipelines.parsing.joining import DocumentWords
from pipelines.parsing.page_marks import union
from pipelines.parsing.pdf.cells import (
    PageTable,
    cells_of,
    joined_edges,
    row_texts,
    same_columns,
    says_units,
)
from pipelines.parsing.pdf.columns import MOST_BOXES, boxes_of
from pipelines.parsing.pdf.frames import framed_tables, frames_of
from pipelines.parsing.pdf.furniture import (
    furniture_line,
    furniture_of,
    without_line_numbers,
    without_watermarks,
)
from pipelines.parsing.pdf.grids import joined_rules, ruled_tables
from pipelines.parsing.pdf.headings import Bookmark, mark_headings
from pipelines.parsing.pdf.lines import Line, lines_of
from pipelines.parsing.pdf.page import LEAST_COVERAGE, UPRIGHT, PdfItem, PdfPage, with_monospace
from pipelines.parsing.pdf.paragraphs import (
    BULLET,
    DocumentStyle,
    Draft,
    contents_draft,
    contents_entries,
    drafts_of,
    ends,
    is_bullet,
    style_of,
)
from pipelines.parsing.pdf.tables import table_or_terms
from pipelines.parsing.pdf.turned import turned_back, with_turned_cells
from pipelines.parsing.pictures import figure, shown_large, with_figures, without_repeated
from pipelines.records import Block, BlockCell, Box, TextRun

JOINABLE = ("paragraph", "list_item")
DEEPEST_ITEM = 6
LEAST_TURNED = 80
"""Fewest characters in another direction than the page's that count as ordinary text."""
SAME_WIDTH = 0.15
"""Share by which columns of one text may differ in width; the last lines of a column may all be short."""
NEAR_BOX = 2.5
"""Sizes of the font between a drawing's box and its caption at most."""
TALLEST_DRAWING = 0.7
"""Share of the page's height that a drawing's box takes at most. A taller one is the page's own border."""


def blocks_of(
    pages: Sequence[PdfPage], bookmarks: Sequence[Bookmark] = ()
) -> tuple[tuple[Block, ...], list[tuple[int, float]]]:
    """Return the blocks of the document, and (page, share) of each page on which more than one letter in a hundred is
    in no block."""
    shown, numbers = _laid_flat(pages)
    flat, counted = without_line_numbers(with_monospace(shown))
    flat, marks = without_watermarks(flat)
    lines = [lines_of(page) for page in flat]
    main = [at for at, page in enumerate(flat) if page.number not in numbers]
    upright: list[int] = []
    for at, after in pairwise([*main, len(flat)]):
        for part in range(at + 1, after) if flat[at].turn == UPRIGHT else ():
            with_turned_cells(flat[at], lines[at], flat[part], lines[part])
        upright.append(next((part for part in range(at, after) if flat[part].turn == UPRIGHT), at))
    found = furniture_of([lines[at] for at in upright], [flat[at].height for at in upright])
    furniture = {(upright[at], index): edge for (at, index), edge in found.items()}
    bodies = [[li for i, li in enumerate(page) if (at, i) not in furniture] for at, page in enumerate(lines)]
    style = style_of(bodies)
    drafts: list[list[Draft]] = [_page_drafts(body, page, style) for body, page in zip(bodies, flat, strict=True)]
    for page, own in zip(flat, drafts, strict=True):
        if page.number in numbers and sum(len(line.text) for draft in own for line in draft.lines) < LEAST_TURNED:
            _set_aside(own)
    drafts = _with_headings(drafts, style, bookmarks)
    edges = [
        [(furniture[at, i], li) for i, li in enumerate(page) if (at, i) in furniture] for at, page in enumerate(lines)
    ]
    for edge, page, *pieces in zip(edges, flat, counted, marks, strict=True):
        edge += [("page_header", line) for items in pieces if items for line in [furniture_line(items, page)]]
    _join_pages(drafts, edges, frozenset(main))
    words = DocumentWords(line.text for page in bodies for line in page)
    laid_out = turned_back(_blocks(flat, drafts, edges, words), flat, numbers)
    blocks = without_repeated(tuple(laid_out), len(pages))
    return blocks, _lossy_pages(pages, blocks)


def _laid_flat(pages: Sequence[PdfPage]) -> tuple[list[PdfPage], dict[int, int]]:
    """Return the pages, each followed by its parts as pages with negative numbers, and for each such number the number
    of its page."""
    flat: list[PdfPage] = []
    numbers: dict[int, int] = {}
    for page in pages:
        flat.append(page)
        for part in page.parts:
            number = -1 - len(numbers)
            numbers[number] = page.number
            flat.append(replace(part, number=number))
    return flat, numbers


def _set_aside(drafts: Sequence[Draft]) -> None:
    """Mark a small amount of rotated text, such as a note in the margin, as uncertain and never a heading."""
    for draft in drafts:
        if draft.lines:
            draft.kind, draft.confidence, draft.metadata = "paragraph", 0.5, {"orientation": "rotated"}


def _with_headings(
    drafts: Sequence[Sequence[Draft]], style: DocumentStyle, bookmarks: Sequence[Bookmark]
) -> list[list[Draft]]:
    """Mark headings over the whole document, which may split or empty blocks. Return the blocks by page."""
    numbered = [(at, draft) for at, page in enumerate(drafts) for draft in page]
    order = {id(draft): at for at, draft in numbered}
    every = [draft for _, draft in numbered]
    mark_headings(every, style, bookmarks)
    pages: list[list[Draft]] = [[] for _ in drafts]
    at = 0
    for draft in every:
        at = order.get(id(draft), at)
        if draft.lines or draft.cells:
            pages[at].append(draft)
    return pages


# ---------------------------------------------------------------- one page


def _page_drafts(lines: Sequence[Line], page: PdfPage, style: DocumentStyle) -> list[Draft]:
    drafts: list[Draft] = []
    taken: dict[int, Draft] = {}
    ruled, drawn = ruled_tables(page.rules, lines)
    for own in ruled:
        taken.update(dict.fromkeys(own.lines, _table_draft(own, page)))
    level, _ = joined_rules([rule for rule in page.rules if not rule.edge])
    for frame in frames_of(level):
        for own in framed_tables(frame, lines, drawn.union(taken), level):
            taken.update(dict.fromkeys(own.lines, _table_draft(own, page)))
    blocked = drawn.union(taken)
    pending: list[Line] = []
    placed: set[int] = set()

    def flush() -> None:
        drafts.extend(drafts_of(pending, style, page.height))
        pending.clear()

    def flush_above(table: Line) -> None:
        units = pending.pop() if pending and says_units(pending[-1], table) else None
        flush()
        if units is not None:
            _add_units(drafts, units)

    at = 0
    while at < len(lines):
        if at in taken:
            if id(taken[at]) not in placed:
                flush_above(lines[at])
                placed.add(id(taken[at]))
                drafts.append(taken[at])
            at += 1
            continue
        floor, table = at - len(pending), None
        entries = contents_entries(lines, at, blocked, floor)
        if not entries and at not in drawn:
            table, entries = table_or_terms(lines, at, blocked, floor, level)
        if entries:
            del pending[len(pending) - (at - entries[0][0]) :]
            flush()
            drafts += [contents_draft([lines[i] for i in entry]) for entry in entries]
            at = entries[-1][-1] + 1
        elif table is not None:
            del pending[len(pending) - (at - table.lines[0]) :]
            flush_above(lines[table.lines[0]])
            drafts.append(_table_draft(table, page))
            at = table.lines[-1] + 1
        else:
            pending.append(lines[at])
            at += 1
    flush()
    _mark_drawn(drafts, page)
    return drafts


def _mark_drawn(drafts: Sequence[Draft], page: PdfPage) -> None:
    """Mark the text of drawings: it is in a box right above or below a caption."""
    captions = [line for draft in drafts if draft.kind == "caption" for line in (draft.lines[0], draft.lines[-1])]
    for x0, y0, x1, y1 in islice(boxes_of(page.rules), MOST_BOXES) if captions else ():
        named = any(
            min(abs(line.y0 - y1), abs(y0 - line.y1)) <= NEAR_BOX * line.size and line.x0 < x1 and line.x1 > x0
            for line in captions
        )
        if named and y1 - y0 <= TALLEST_DRAWING * page.height:
            for draft in drafts:
                draft.drawn |= all(x0 <= li.x0 and li.x1 <= x1 and y0 <= li.y0 and li.y1 <= y1 for li in draft.lines)


def _table_draft(table: PageTable, page: PdfPage) -> Draft:
    return Draft("table", [], cells=cells_of(table, page.number), edges=tuple(table.edges), headers=table.headers)


def _add_units(drafts: list[Draft], line: Line) -> None:
    """Add a line that names the units of a table to the table's caption."""
    if drafts and drafts[-1].kind == "caption":
        drafts[-1].lines.append(line)
    else:
        drafts.append(Draft("caption", [line]))


# ---------------------------------------------------------------- across pages


def _join_pages(drafts: list[list[Draft]], edges: list[list[tuple[str, Line]]], main: Container[int]) -> None:
    """Join blocks that a page or column boundary divides, in place; a joined block stays on its first page. Only the
    pages at the indexes `main` are consecutive pages; others are parts of pages."""
    last: Draft | None = None
    for at, page in enumerate(drafts):
        if not page or at not in main:
            _join_columns(page)
            continue
        first = page[0]
        if last is not None and last.kind == first.kind == "table":
            repeated = _table_goes_on(last, first)
            if repeated is not None:
                _append_table(last, first, repeated)
                edges[at] += [("page_header", line) for line in _as_lines(first, repeated)]
                page.pop(0)
        elif last is not None and _goes_on(last, first):
            last.lines += first.lines
            page.pop(0)
        _join_columns(page)
        content = [draft for draft in page if draft.kind != "footnote" and draft.confidence == 1]
        last = content[-1] if content else last


def _join_columns(page: list[Draft]) -> None:
    at = 1
    while at < len(page):
        above, draft = page[at - 1], page[at]
        moved = above.lines and draft.lines and draft.lines[0].column != above.lines[-1].column
        if moved and draft.confidence == 1 and _goes_on(above, draft) and _fits(above.lines[-1], draft.lines[0]):
            above.lines += draft.lines
            page.pop(at)
        else:
            at += 1


def _fits(end: Line, begin: Line) -> bool:
    """Say whether the text of one column may continue in another: both have the same width, or the text continues a
    sentence."""
    wide, other = end.right - end.left, begin.right - begin.left
    return begin.text.lstrip()[:1].islower() or abs(wide - other) <= SAME_WIDTH * max(wide, other)


def _goes_on(last: Draft, first: Draft) -> bool:
    """Say whether the first block after a boundary continues the last block before it."""
    if last.kind not in JOINABLE or first.kind != "paragraph" or not last.lines or not first.lines:
        return False
    end, begin = last.lines[-1], first.lines[0]
    if ends(end.text) or abs(end.size - begin.size) > 0.7 or first.confidence < 1:
        return False
    text = begin.text.lstrip()
    if text[:1].islower() or end.text.rstrip().endswith((",", "-")):
        return True
    full = end.x1 > end.right - 0.15 * (end.right - end.left)
    return full and len(last.lines) + len(first.lines) > 2


def _table_goes_on(last: Draft, first: Draft) -> int | None:
    """Return how many rows of `first` repeat the header if it continues the table `last`; otherwise return None."""
    if same_columns(last.edges, first.edges) is None:
        return None
    repeated = 0
    while repeated < max(last.headers, 1) and row_texts(first.cells, repeated) == row_texts(last.cells, repeated) != ():
        repeated += 1
    if not repeated and first.headers:
        return None
    return repeated


def _append_table(last: Draft, first: Draft, repeated: int) -> None:
    columns = same_columns(last.edges, first.edges) or list(range(len(first.edges)))
    offset = last.cells[-1].row + 1 - repeated
    for cell in first.cells:
        if cell.row >= repeated:
            start, end = columns[cell.column], columns[cell.column + cell.column_span - 1]
            moved = replace(cell, row=cell.row + offset, column=start, column_span=end - start + 1, header=False)
            last.cells.append(moved)
    last.edges = tuple(joined_edges(last.edges, first.edges, columns))


def _as_lines(table: Draft, rows: int) -> list[Line]:
    """Return the first rows of a table as lines, so that a repeated header is kept as a page header."""
    lines = []
    for row in range(rows):
        runs = [run for cell in table.cells if cell.row == row for run in cell.runs]
        boxes = [run.box for run in runs if run.box is not None]
        text = " ".join(run.text for run in runs)
        x0, y0 = min(b.x0 for b in boxes), min(b.y0 for b in boxes)
        x1, y1 = max(b.x1 for b in boxes), max(b.y1 for b in boxes)
        page = boxes[0].page
        lines.append(Line(page, 0, x0, x1, text, x0, y0, x1, y1, 0.0, False, False, False, None, None, ()))
    return lines


# ---------------------------------------------------------------- blocks


def _blocks(
    pages: Sequence[PdfPage],
    drafts: Sequence[Sequence[Draft]],
    edges: Sequence[Sequence[tuple[str, Line]]],
    words: DocumentWords,
) -> Iterable[Block]:
    for page, found, edge in zip(pages, drafts, edges, strict=True):
        indents = sorted({round(d.marker_x / 6) for d in found if d.kind == "list_item"})[:DEEPEST_ITEM]
        blocks = [Block(kind, (TextRun(li.text, li.box),)) for kind, li in edge if kind == "page_header"]
        content = [_block(draft, words, indents) for draft in found]
        typed = [block for block in page.blocks if block.kind == "paragraph"]
        placed = [*(figures_of(page) if page.pictures else ()), *typed]
        blocks += with_figures(content, placed, page.number) if placed else content
        blocks += [block for block in page.blocks if block.kind != "paragraph"]
        blocks += [Block(kind, (TextRun(li.text, li.box),)) for kind, li in edge if kind == "page_footer"]
        sure = page.confidence
        yield from blocks if sure == 1 else [replace(b, confidence=min(b.confidence, sure)) for b in blocks]


def _block(draft: Draft, words: DocumentWords, indents: Sequence[int]) -> Block:
    if draft.kind == "table":
        return Block("table", cells=words.cells(draft.cells))
    if draft.kind == "code":
        left = min(line.x0 for line in draft.lines)
        return Block("code", tuple(TextRun(_indent(line, left), line.box) for line in draft.lines))
    runs = list(words.runs(TextRun(line.text, line.box, gaps=line.gaps) for line in draft.lines))
    level, marker = draft.level, draft.marker if draft.kind == "list_item" else None
    if draft.kind == "list_item":
        level = min(bisect_left(indents, round(draft.marker_x / 6)) + 1, DEEPEST_ITEM)
        if marker and is_bullet(marker):
            runs[0] = replace(runs[0], text=BULLET.sub("", runs[0].text.lstrip(), count=1))
    return Block(draft.kind, tuple(runs), level, marker, (), draft.confidence, draft.metadata)


def _indent(line: Line, left: float) -> str:
    width = (line.x1 - line.x0) / max(len(line.text), 1)
    return " " * round((line.x0 - left) / max(width, 1.0)) + line.text


def _lossy_pages(pages: Sequence[PdfPage], blocks: Iterable[Block]) -> list[tuple[int, float]]:
    """Return the pages whose blocks hold fewer letters and digits than their pieces, and the share lost; bullets do not
    count."""
    wanted = {
        page.number: sum(_weight(i.text) for part in (page, *page.parts) for i in part.items if not i.symbol)
        for page in pages
    }
    held: Counter[int] = Counter()
    for block in blocks:
        cells: tuple[BlockCell, ...] = block.cells
        for run in (*block.runs, *(run for cell in cells for run in cell.runs)):
            if run.box is not None:
                held[run.box.page] += _weight(run.text)
    shares = {page: 1 - held[page] / weight for page, weight in wanted.items() if weight}
    return [(page, share) for page, share in shares.items() if share > 1 - LEAST_COVERAGE]


_WORDS = re.compile(r"[^\W_]")


def _weight(text: str) -> int:
    return len(_WORDS.findall(text))


MOST_SHARE = 0.8
"""Largest share of a page's area for a figure. A larger picture is a background, or the page is a scan."""
MOST_LETTERS = 300
"""Most characters of text over a figure. A picture with more is the background of that text."""
_TOUCHING = 1.5


# ---------------------------------------------------------------- pages of a PDF


def figures_of(page: PdfPage) -> list[Block]:
    """Return the figures among the pictures of a page. A picture drawn in strips or tiles is one figure."""
    regions: list[tuple[Box, list[str]]] = []
    for picture in page.pictures:
        box = picture.box
        if _area(box) > MOST_SHARE * page.width * page.height:
            continue
        if regions and _touch(regions[-1][0], box):
            regions[-1] = (union((regions[-1][0], box)), [*regions[-1][1], picture.image_hash])
        else:
            regions.append((box, [picture.image_hash]))
    return [
        figure(hashes[0] if len(hashes) == 1 else combine(hashes), box=box)
        for box, hashes in regions
        if shown_large(box.x1 - box.x0, box.y1 - box.y0)
        and _area(box) <= MOST_SHARE * page.width * page.height
        and _letters(page.items, box) <= MOST_LETTERS
    ]


def _area(box: Box) -> float:
    return (box.x1 - box.x0) * (box.y1 - box.y0)


def _touch(a: Box, b: Box) -> bool:
    apart = max(b.x0 - a.x1, a.x0 - b.x1, b.y0 - a.y1, a.y0 - b.y1)
    return apart <= _TOUCHING


def _letters(items: Iterable[PdfItem], box: Box) -> int:
    return sum(
        len(item.text)
        for item in items
        if box.x0 <= (item.x0 + item.x1) / 2 <= box.x1 and box.y0 <= (item.y0 + item.y1) / 2 <= box.y1
    )
