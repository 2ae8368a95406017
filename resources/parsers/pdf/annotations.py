"""The annotations of a PDF, read with PDFium: notes that people wrote on its pages, filled form fields, attached files.

Text typed onto a page is text of the page; a comment on the page is a note, like comments in DOCX. The value of a field
(AcroForm) is in its annotation, not in the page's own text. A layout library that draws annotations returns it as text
in the field's box, so that text is dropped in favour of the field (`items_outside`). Texts beyond the limits of number
and length are left out and counted.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipelines.errors import DocumentError
from pipelines.parsing.pdf.page import PdfItem, squeeze
from pipelines.plural import plural
from pipelines.records import Block, Box, TextRun
from resources.parsers.html import tree_of

# ---------------------------------------------------------------- annotations


MOST_ANNOTATIONS, MOST_OF_ALL = 10_000, 500_000
"""Most annotations of a page, and of all pages of a document: many pages may share the same ones."""
MOST_CHARACTERS, MOST_IN_ALL = 100_000, 5_000_000
"""Most characters of one text, and of all texts of a document: many annotations may share one text of the file."""
_SCALE = 100
"""Device units in a point, since PDFium rounds positions to whole units."""


@dataclass(slots=True)
class AnnotationTexts:
    """The reader of texts in a document's annotations. It stops at the limits and counts the texts left out."""

    left: int = MOST_IN_ALL
    annotations: int = MOST_OF_ALL
    left_out: int = 0

    def read(self, read: Any, *of: Any) -> str | None:
        """Return the text that a PDFium function writes in UTF-16, or None if it is left out."""
        import pypdfium2.raw as pdfium

        length = read(*of, None, 0) if self.left > 0 else 0
        if 2 < length <= 2 * MOST_CHARACTERS:
            self.left -= length // 2
        if self.left <= 0 or length > 2 * MOST_CHARACTERS:
            self.left_out += 1
            return None
        if length <= 2:
            return ""
        buffer = ctypes.create_string_buffer(length)
        read(*of, ctypes.cast(buffer, ctypes.POINTER(pdfium.FPDF_WCHAR)), length)
        return buffer.raw[:length].decode("utf-16-le", "ignore").rstrip("\0")

    def warning(self, number: int) -> tuple[str, ...]:
        """Return a page's warning about texts left out since the last call."""
        count, self.left_out = self.left_out, 0
        most = f"{MOST_ANNOTATIONS:,} on the page, {MOST_CHARACTERS:,} characters in one, or {MOST_IN_ALL:,} in all"
        left = plural(count, "note or value of a field is", "notes or values of fields are")
        return (f"page {number}: {left} left out: over {most}",) * bool(count)


def annotations_of(page: Any, texts: AnnotationTexts) -> Iterator[Any]:
    """Yield the annotations of a page. Each is closed when the next is requested. Annotations beyond the limits count
    as left out."""
    import pypdfium2.raw as pdfium

    count = pdfium.FPDFPage_GetAnnotCount(page)
    read = min(count, MOST_ANNOTATIONS, texts.annotations)
    texts.left_out += count - read
    texts.annotations -= read
    for index in range(read):
        annotation = pdfium.FPDFPage_GetAnnot(page, index)
        if annotation:
            try:
                yield annotation
            finally:
                pdfium.FPDFPage_CloseAnnot(annotation)


def is_shown(annotation: Any) -> bool:
    import pypdfium2.raw as pdfium

    unseen = pdfium.FPDF_ANNOT_FLAG_INVISIBLE | pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
    return not pdfium.FPDFAnnot_GetFlags(annotation) & unseen


def box_of(annotation: Any, number: int, page: Any) -> Box | None:
    """Return the annotation's rectangle in points from the top left, or None if it has no size."""
    import pypdfium2.raw as pdfium

    rectangle = pdfium.FS_RECTF()
    if not pdfium.FPDFAnnot_GetRect(annotation, rectangle):
        return None
    size = [round(side * _SCALE) for side in page.get_size()]
    corners = []
    for x, y in ((rectangle.left, rectangle.top), (rectangle.right, rectangle.bottom)):
        across, down = ctypes.c_int(), ctypes.c_int()
        pdfium.FPDF_PageToDevice(page, 0, 0, *size, 0, x, y, across, down)
        corners.append((across.value / _SCALE, down.value / _SCALE))
    (ax, ay), (bx, by) = corners
    box = Box(number, min(ax, bx), min(ay, by), max(ax, bx), max(ay, by))
    return box if box.x1 > box.x0 and box.y1 > box.y0 else None


# ---------------------------------------------------------------- notes and attached files


COMMENT = {"part": "comment"}
MOST_ATTACHED = 1_000


class Notes(NamedTuple):
    """The notes of a page: blocks in the order of its annotations, and the names of attached files. Text typed onto the
    page is a paragraph; a note is a footnote with the metadata `COMMENT`."""

    blocks: list[Block]
    attached: list[str]


def notes(page: Any, number: int, texts: AnnotationTexts, page_text: Callable[[], str]) -> Notes:
    """Return the notes of a page. `page_text` returns the page's text: a mark that only repeats it is not a note."""
    import pypdfium2.raw as pdfium

    marks = (
        pdfium.FPDF_ANNOT_HIGHLIGHT, pdfium.FPDF_ANNOT_UNDERLINE, pdfium.FPDF_ANNOT_SQUIGGLY,
        pdfium.FPDF_ANNOT_STRIKEOUT,
    )  # fmt: skip
    silent = (pdfium.FPDF_ANNOT_WIDGET, pdfium.FPDF_ANNOT_POPUP, pdfium.FPDF_ANNOT_LINK)
    blocks: dict[tuple[str, str], Block] = {}
    attached: list[str] = []
    own: str | None = None
    for annotation in annotations_of(page, texts):
        kind = pdfium.FPDFAnnot_GetSubtype(annotation)
        if kind in silent or not is_shown(annotation):
            continue
        if kind == pdfium.FPDF_ANNOT_FILEATTACHMENT:
            attached += _name(pdfium.FPDFAnnot_GetFileAttachment(annotation), texts)
        said = _annotation_text(annotation, texts)
        if not said or pdfium.FPDFAnnot_HasKey(annotation, b"StateModel"):
            continue
        if kind in marks:
            own = squeeze(page_text()) if own is None else own
            if squeeze(said) in own:
                continue
        box = box_of(annotation, number, page)
        run = TextRun(said, box, locator=None if box else f"page {number}")
        typed = kind == pdfium.FPDF_ANNOT_FREETEXT
        block = Block("paragraph", (run,)) if typed else Block("footnote", (run,), metadata=COMMENT)
        blocks.setdefault((said, str(box)), block)
    return Notes(list(blocks.values()), attached)


def attachments(document: Any) -> list[str]:
    """Return the names of the files attached to a document as a whole, or contained in a portfolio."""
    import pypdfium2.raw as pdfium

    count, texts = pdfium.FPDFDoc_GetAttachmentCount(document), AnnotationTexts()
    found = (pdfium.FPDFDoc_GetAttachment(document, at) for at in range(min(count, MOST_ATTACHED)))
    return [name for attachment in found for name in _name(attachment, texts)]


def _name(attachment: Any, texts: AnnotationTexts) -> list[str]:
    import pypdfium2.raw as pdfium

    return [(texts.read(pdfium.FPDFAttachment_GetName, attachment) or "").strip() or "unnamed"] if attachment else []


def _annotation_text(annotation: Any, texts: AnnotationTexts) -> str:
    """Return an annotation's contents, or else the text of its formatted contents (`RC`)."""
    import pypdfium2.raw as pdfium

    plain = texts.read(pdfium.FPDFAnnot_GetStringValue, annotation, b"Contents")
    if plain is None or plain.strip():
        return (plain or "").replace("\r\n", "\n").replace("\r", "\n").strip()
    formatted = (texts.read(pdfium.FPDFAnnot_GetStringValue, annotation, b"RC") or "").strip()
    try:
        root = tree_of(formatted, "a note") if formatted else None
    except DocumentError:  # nested too deeply
        texts.left_out += 1
        return ""
    return " ".join("".join(root.itertext()).split()) if root is not None else ""


# ---------------------------------------------------------------- form fields


MOST_OPTIONS = 10_000
_PASSWORD_FLAG = 1 << 13
_COUNT = re.compile(r"\[\d+\]$")
_BARE_STATES = frozenset(("", "yes", "on", "1", "true", "x", "checked"))


class Form(NamedTuple):
    """The filled fields of a page as `key_value` blocks in the order of its annotations, and the boxes of all fields,
    empty and hidden ones included."""

    blocks: list[Block]
    boxes: list[Box]


@dataclass(frozen=True, slots=True)
class _Field:
    kind: int
    name: str
    label: str
    value: str
    export: str
    checked: bool
    chosen: tuple[str, ...]
    box: Box
    shown: bool


def fields(document: Any, number: int, texts: AnnotationTexts | None = None) -> Form:
    """Return the form of a page by its 1-based number. A file's content never raises an error.

    The page is loaded again: PDFium knows which boxes are checked only on pages loaded after the form was set up, and
    it must not be set up for documents without one.
    """
    import pypdfium2
    import pypdfium2.raw as pdfium

    if document.get_formtype() == pdfium.FORMTYPE_NONE:
        return Form([], [])
    try:
        document.init_forms()
        page = document[number - 1]
        try:
            found = list(_fields(document.formenv.raw, number, page, texts or AnnotationTexts()))
        finally:
            page.close()
    except (pypdfium2.PdfiumError, AttributeError):
        return Form([], [])
    widgets = Counter(field.name for field in found)
    blocks = [block for field in found if field.shown for block in _block(field, widgets[field.name])]
    return Form(_distinct(blocks), [field.box for field in found])


def items_outside(items: Iterable[PdfItem], boxes: list[Box]) -> list[PdfItem]:
    """Return the pieces whose middle is in no box. It is meant for pieces that the page's own text does not have."""
    return [item for item in items if not any(_holds(box, item) for box in boxes)]


def _holds(box: Box, item: PdfItem) -> bool:
    x, y = (item.x0 + item.x1) / 2, (item.y0 + item.y1) / 2
    return box.x0 <= x <= box.x1 and box.y0 <= y <= box.y1


def _distinct(blocks: list[Block]) -> list[Block]:
    """Return the blocks without repetitions: several widgets of a field on a page have the same value."""
    seen: dict[tuple[str, tuple[tuple[str, str], ...]], Block] = {}
    for block in blocks:
        seen.setdefault((block.runs[0].text, tuple(block.metadata.items())), block)
    return list(seen.values())


# ---------------------------------------------------------------- fields to blocks


def _block(field: _Field, widgets: int) -> Iterator[Block]:
    """Yield the block of a field. Empty fields, and unchosen buttons of a group, yield nothing."""
    import pypdfium2.raw as pdfium

    label, value = field.label, field.value
    text = ""
    if field.kind == pdfium.FPDF_FORMFIELD_CHECKBOX:
        meant = "" if field.export.lower() in _BARE_STATES else field.export
        if widgets > 1 and meant:
            value = meant if field.checked else ""
        else:
            value = "yes" if field.checked else "no"
            text = f"{'☑' if field.checked else '☐'} {label}"
    elif field.kind == pdfium.FPDF_FORMFIELD_RADIOBUTTON:
        value = (field.export or value) if field.checked else ""
    elif field.chosen:
        value = ", ".join(field.chosen)
    if value.strip() and (label or not text):
        text = text or (f"{label}: {value}" if label else value)
        metadata = {f"kv.{label}": value} if label else {}
        yield Block("key_value", (TextRun(text, field.box),), metadata=metadata)


def _label(name: str, alternate: str) -> str:
    """Return the tooltip, else the last part of the field's name: `form1[0].page[0].City[0]` is City."""
    label = alternate.strip() or _COUNT.sub("", name.rsplit(".", 1)[-1])
    return " ".join(label.split()).rstrip(" :")


# ---------------------------------------------------------------- PDFium


def _fields(form: Any, number: int, page: Any, texts: AnnotationTexts) -> Iterator[_Field]:
    import pypdfium2.raw as pdfium

    for annotation in annotations_of(page, texts):
        if pdfium.FPDFAnnot_GetSubtype(annotation) == pdfium.FPDF_ANNOT_WIDGET:
            yield from _field(form, annotation, number, page, texts)


def _field(form: Any, annotation: Any, number: int, page: Any, texts: AnnotationTexts) -> Iterator[_Field]:
    import pypdfium2.raw as pdfium

    kind = pdfium.FPDFAnnot_GetFormFieldType(form, annotation)
    box = box_of(annotation, number, page)
    filled = (
        pdfium.FPDF_FORMFIELD_TEXTFIELD,
        pdfium.FPDF_FORMFIELD_CHECKBOX,
        pdfium.FPDF_FORMFIELD_RADIOBUTTON,
        pdfium.FPDF_FORMFIELD_COMBOBOX,
        pdfium.FPDF_FORMFIELD_LISTBOX,
    )
    if kind not in filled or box is None:
        return
    password = kind == filled[0] and pdfium.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD_FLAG

    def read_text(read: Any) -> str:
        return texts.read(read, form, annotation) or ""

    name = read_text(pdfium.FPDFAnnot_GetFormFieldName)
    yield _Field(
        kind,
        name,
        _label(name, read_text(pdfium.FPDFAnnot_GetFormFieldAlternateName)),
        read_text(pdfium.FPDFAnnot_GetFormFieldValue),
        read_text(pdfium.FPDFAnnot_GetFormFieldExportValue),
        bool(pdfium.FPDFAnnot_IsChecked(form, annotation)),
        tuple(_chosen_values(form, annotation, texts)),
        box,
        not password and is_shown(annotation),
    )


def _chosen_values(form: Any, annotation: Any, texts: AnnotationTexts) -> Iterator[str]:
    import pypdfium2.raw as pdfium

    for index in range(min(pdfium.FPDFAnnot_GetOptionCount(form, annotation), MOST_OPTIONS)):
        if pdfium.FPDFAnnot_IsOptionSelected(form, annotation, index):
            yield texts.read(pdfium.FPDFAnnot_GetOptionLabel, form, annotation, index) or ""
