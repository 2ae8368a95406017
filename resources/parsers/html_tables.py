"""The text within an element of HTML, and tables of data.

Text is read in runs with their places in the source. A table of data is distinguished from a layout table: some row has
two cells, and if it contains a table or a heading, it is a plain grid with little text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from pipelines.parsing.hidden import METADATA
from pipelines.parsing.raised import lower_text, raise_text
from pipelines.records import Block, BlockCell, TextRun
from resources.parsers.formulas import formula_text, mathml_text, tex_of
from resources.parsers.html_shown import HiddenElements
from resources.parsers.labels import header_rows, is_figure
from resources.parsers.source_text import Finder
from resources.parsers.spans import Spans
from resources.parsers.untrusted import whole

# ---------------------------------------------------------------- text within a line


_BLOCK_NAMES = (
    "address article aside blockquote body center dd details dialog div dl dt fieldset figcaption figure footer form "
    "h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main nav ol p pre section summary table tbody td tfoot th thead "
    "tr ul caption option optgroup select textarea"
)
BLOCKS = frozenset(_BLOCK_NAMES.split())
"""Elements that begin and end a line."""
_WHOLE = BLOCKS | {"img", "math", "br"}
"""Elements that are not inside raised or lowered letters."""
LARGEST_ICON = 32
"""Most pixels of the longer side of an icon, whose description is not read."""


_FORMULA_ALT = ("{\\displaystyle", "{\\textstyle", "\\(", "$\\")
"""Beginnings of picture descriptions that are LaTeX."""


MOST_RAISED = 20
"""Most elements within raised or lowered letters; text with more of them is not a superscript or subscript."""


def inline_run(element: Any, tag: str, finder: Finder, shown: HiddenElements | None = None) -> TextRun | None:
    """Return the run of an element with raised or lowered letters, or of a formula. Return None for other elements, and
    for one that contains blocks. Hidden raised letters are left out."""
    if tag not in ("sup", "sub", "math"):
        return None
    parts = list(islice(element.iter("*"), MOST_RAISED + 1)) if tag != "math" else []
    if len(parts) > MOST_RAISED or any(part.tag in _WHOLE for part in parts):
        return None
    if tag == "math":
        tex = tex_of(element)
        text = formula_text(tex) if tex else mathml_text(element)
    else:
        written = "".join(element.itertext()) if shown is None else _shown_text(element, shown)
        text = raise_text(written) if tag == "sup" else lower_text(written)
    places = [run for run in pass_over(element, finder) if run.source_start is not None]
    start, end = (places[0].source_start, places[-1].source_end) if places else (None, None)
    return TextRun(text, None, start, end, joined=places[0].joined if places else True)


def _shown_text(element: Any, shown: HiddenElements) -> str:
    from lxml import etree

    texts: list[str] = []
    events = etree.iterwalk(element, events=("start", "end"))
    for event, part in events:
        if event == "end":
            texts.append(part.tail or "" if part is not element else "")
        elif shown.leaves_out(part):
            events.skip_subtree()
        else:
            texts.append(part.text or "" if isinstance(part.tag, str) else "")
    return "".join(texts)


def pass_over(element: Any, finder: Finder) -> list[TextRun]:
    """Return the runs of all texts in an element, and move the finder past them, so that later text with the same words
    gets its own place."""
    return [finder.run(text, joined=True) for text in element.itertext() if text.strip()]


def picture_runs(image: Any, finder: Finder) -> list[TextRun]:
    """Return the description of a picture as a separate text."""
    text = (image.get("alt") or "").strip()
    run = finder.run(text, joined=True, node=False)
    if text.startswith(_FORMULA_ALT):
        run = replace(run, text=formula_text(text.strip("$")))
    return [TextRun(" ", joined=True), run, TextRun(" ", joined=True)]


def is_icon(image: Any) -> bool:
    sizes = [size for side in ("width", "height") if (size := whole(image.get(side), None)) is not None]
    return bool(sizes) and max(sizes) <= LARGEST_ICON


# ---------------------------------------------------------------- tables


MOST_SPAN = 1000
"""Most rows or columns that one cell may cover."""
MOST_OF_A_GRID = 4000
"""Most characters of a data table with tables or headings inside; a larger table is a layout."""
_SKIPPED_IN_CELLS = frozenset(("script", "style", "svg"))
_BREAKING_NAMES = "p div br li ul ol tr td th h1 h2 h3 h4 h5 h6 pre blockquote dd dt"
_BREAKING = frozenset(_BREAKING_NAMES.split())


_CELLS, _OWN = frozenset(("td", "th")), frozenset(("table", "caption", "td", "th", "tr"))


def _rows(table: Any) -> Iterator[Any]:
    """Yield the rows of this table, without those of inner tables. Some pages have a form or a link around rows."""
    return _outermost(table, frozenset(("tr",)))


def _cells(row: Any) -> list[Any]:
    plain = [cell for cell in row if cell.tag in _CELLS]
    return plain if len(plain) == len(row) else list(_outermost(row, _CELLS))


def _outermost(element: Any, tags: frozenset[str]) -> Iterator[Any]:
    from lxml import etree

    events = etree.iterwalk(element, events=("start",))
    for _, part in events:
        if part is not element and part.tag in _OWN:
            events.skip_subtree()
            if part.tag in tags:
                yield part


def _beside_cells(table: Any, shown: HiddenElements) -> str:
    """Return the text of a table outside its cells, which is invalid but occurs."""
    from lxml import etree

    found = list[str]()
    events = etree.iterwalk(table, events=("start", "end"))
    for event, part in events:
        own = part is table or part.tag not in (*_CELLS, "caption", *_SKIPPED_IN_CELLS)
        if event == "start" and (not own or not isinstance(part.tag, str) or shown.leaves_out(part)):
            events.skip_subtree()
        elif event == "start":
            found += [" " * (part.tag in _BREAKING), part.text or ""]
        if event == "end" and part is not table:
            found += [" " * (part.tag in _BREAKING), part.tail or ""]
    return " ".join("".join(found).split())


def is_data_table(table: Any) -> bool:
    """Say whether a table has data rather than a page layout. Some row has two cells; if it contains a table or
    heading, it is also a plain grid with little text."""
    if (table.get("role") or "") in ("presentation", "none"):
        return False
    rows = [_cells(row) for row in _rows(table)]
    if max(map(len, rows), default=0) < 2:
        return False
    if not any(element.tag in ("table", "h1", "h2", "h3") for element in table.iterdescendants()):
        return True
    grid = len(rows) > 1 and len({sum(_span(cell, "colspan") for cell in row) for row in rows}) == 1
    grid = grid and min(map(len, rows)) > 1
    return grid and sum(map(len, table.itertext())) < MOST_OF_A_GRID


def _span(cell: Any, name: str) -> int:
    return max(1, min(whole(cell.get(name), 1), MOST_SPAN))


def runs_in(element: Any, finder: Finder, shown: HiddenElements | None = None) -> list[TextRun]:
    """Return the pieces of text inside an element, in order, with block boundaries as spaces."""
    from lxml import etree

    runs: list[TextRun] = []

    def add(text: str | None, holder: Any = None) -> None:
        if text:
            run = finder.run(text, joined=True) if text.strip() else TextRun(" ", joined=True)
            runs.append(shown.with_signs(run, holder) if shown is not None else run)

    events = etree.iterwalk(element, events=("start", "end"))
    for event, part in events:
        tag = part.tag if isinstance(part.tag, str) else ""
        if event == "start":
            if tag in _SKIPPED_IN_CELLS or not tag:
                events.skip_subtree()
                continue
            if shown is not None and shown.leaves_out(part):
                pass_over(part, finder)
                events.skip_subtree()
                continue
            if (whole_run := inline_run(part, tag, finder, shown)) is not None:
                runs.append(whole_run)
                events.skip_subtree()
                continue
            if tag in _BREAKING:
                add(" ")
            if tag == "img" and not is_icon(part) and (part.get("alt") or "").strip():
                runs += picture_runs(part, finder)
            add(part.text, part)
        elif part is not element:
            if tag in _BREAKING:
                add(" ")
            add(part.tail, part.getparent())
    return runs


def _is_header(row: Any) -> bool:
    cells = _cells(row)
    if row.getparent().tag == "thead":
        return True
    return bool(cells) and all(cell.tag == "th" for cell in cells)


def _heads_anew(row: Any) -> bool:
    """Say whether a later row names the columns below it. A total may be marked as a header too, but does not count."""
    texts = [" ".join("".join(cell.itertext()).split()) for cell in _cells(row)]
    return _is_header(row) and sum(map(bool, texts)) > 1 and not any(map(is_figure, texts[1:]))


def table_blocks(table: Any, finder: Finder, shown: HiddenElements | None = None) -> list[Block]:
    """Return the caption, if any, then the table. Header rows are those at the start, and later ones that name the
    columns of the rows below them."""
    shown = shown or HiddenElements(table)
    blocks: list[Block] = []
    cells: list[BlockCell] = []
    in_header = True
    captions = [part for part in table if part.tag == "caption" and not shown.leaves_out(part)]
    for caption in captions:
        blocks.append(Block("caption", tuple(runs_in(caption, finder, shown))))
    rows, after = _shown_rows(table, shown)
    spans = Spans(sum(len(_cells(row)) for row in rows))
    plain = [at for at, row in enumerate(rows) if not _is_header(row)]
    for at, row in enumerate(rows):
        in_header = in_header and _is_header(row)
        header = in_header or (at < plain[-1] and _heads_anew(row))
        column = 0
        for cell in _cells(row):
            while spans.covers(at, column):
                column += 1
            wide, tall = _span(cell, "colspan"), _span(cell, "rowspan")
            if shown.leaves_out(cell):
                column += 0 if shown.takes_no_place(cell) else wide
                continue
            tall = tall if tall == 1 else max(1, after(row, tall) - at)
            spans.add(at, column, min(tall, len(rows) - at), wide)
            cells.append(BlockCell(at, column, tuple(runs_in(cell, finder, shown)), tall, wide, header))
            column += wide
    if cells and all(cell.header for cell in cells):
        cells = [replace(cell, header=False) for cell in cells]
    elif not any(cell.tag == "th" for row in rows for cell in _cells(row)):
        headers = _unmarked_headers(cells)
        cells = [replace(cell, header=cell.row < headers) for cell in cells]
    blocks.append(Block("table", cells=tuple(cells), metadata=METADATA if shown.holds_hidden(table) else {}))
    beside = _beside_cells(table, shown)
    return [*blocks, Block("paragraph", (TextRun(beside),))] if beside else blocks


def _shown_rows(table: Any, shown: HiddenElements) -> tuple[list[Any], Callable[[Any, int], int]]:
    """Return the visible rows, and a function that converts a span of rows to the number of visible rows in it."""
    rows, above, places = list[Any](), [0], dict[Any, int]()
    for at, row in enumerate(_rows(table)):
        places[row] = at
        if not shown.leaves_out(row) and not shown.leaves_out(row.getparent()):
            rows.append(row)
        above.append(len(rows))
    if len(rows) == len(places):
        return rows, lambda row, tall: places[row] + tall
    return rows, lambda row, tall: above[min(places[row] + tall, len(places))]


def _unmarked_headers(cells: Sequence[BlockCell]) -> int:
    """Return how many first rows look like the header of a table without marked header cells; return 0 if one of their
    cells extends below them."""
    rows: dict[int, list[str]] = {}
    for cell in cells:
        if cell.row not in rows:
            rows[cell.row] = [""] if cell.column else []
        rows[cell.row].append("".join(run.text for run in cell.runs))
    count = header_rows(list(rows.values()))
    below = list(rows)[count] if count < len(rows) else 0
    return below if all(cell.row + cell.row_span <= below for cell in cells if cell.row < below) else 0
