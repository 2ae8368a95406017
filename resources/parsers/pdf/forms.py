"""Form fields of a PDF (AcroForm): what was filled in, by label.

A field's value stands in its annotation, not in the page's own text; a layout library that draws
annotations sees it as text in the field's box, so that text gives way to the field (`outside`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipelines.parsing.pdf.page import PdfItem
from pipelines.records import Block, Box, Run
from resources.parsers.pdf.annotations import Texts, annotations_of, box_of, is_shown

MOST_OPTIONS = 10_000
_PASSWORD_FLAG = 1 << 13
_COUNT = re.compile(r"\[\d+\]$")
_BARE_STATES = frozenset(("", "yes", "on", "1", "true", "x", "checked"))


class Form(NamedTuple):
    """The filled fields of a page as `key_value` blocks in the order of the page's annotations, and
    the boxes of all of its fields, also of empty and hidden ones."""

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


def fields(document: Any, number: int, texts: Texts | None = None) -> Form:
    """The form of a page by its 1-based number. Never raises for what is in the file.

    The page is loaded anew: PDFium tells which boxes are checked only of pages that were loaded
    after the form was set up, and setting it up is not for documents without one."""
    import pypdfium2
    import pypdfium2.raw as pdfium

    if document.get_formtype() == pdfium.FORMTYPE_NONE:
        return Form([], [])
    try:
        document.init_forms()
        page = document[number - 1]
        try:
            found = list(_fields(document.formenv.raw, number, page, texts or Texts()))
        finally:
            page.close()
    except (pypdfium2.PdfiumError, AttributeError):
        return Form([], [])
    widgets = Counter(field.name for field in found)
    blocks = [block for field in found if field.shown for block in _block(field, widgets[field.name])]
    return Form(_distinct(blocks), [field.box for field in found])


def outside(items: Iterable[PdfItem], boxes: list[Box]) -> list[PdfItem]:
    """Pieces whose middle is in no box. Meant for pieces that the page's own text does not have."""
    return [item for item in items if not any(_holds(box, item) for box in boxes)]


def _holds(box: Box, item: PdfItem) -> bool:
    x, y = (item.x0 + item.x1) / 2, (item.y0 + item.y1) / 2
    return box.x0 <= x <= box.x1 and box.y0 <= y <= box.y1


def _distinct(blocks: list[Block]) -> list[Block]:
    """A field with several widgets on a page says the same in each: once."""
    seen: dict[tuple[str, tuple[tuple[str, str], ...]], Block] = {}
    for block in blocks:
        seen.setdefault((block.runs[0].text, tuple(block.metadata.items())), block)
    return list(seen.values())


# ---------------------------------------------------------------- fields to blocks


def _block(field: _Field, widgets: int) -> Iterator[Block]:
    """None of what is empty, nor of the buttons of a group that are not chosen."""
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
        yield Block("key_value", (Run(text, field.box),), metadata=metadata)


def _label(name: str, alternate: str) -> str:
    """The tooltip, else the last part of the field's name: `form1[0].page[0].City[0]` is City."""
    label = alternate.strip() or _COUNT.sub("", name.rsplit(".", 1)[-1])
    return " ".join(label.split()).rstrip(" :")


# ---------------------------------------------------------------- PDFium


def _fields(form: Any, number: int, page: Any, texts: Texts) -> Iterator[_Field]:
    import pypdfium2.raw as pdfium

    for annotation in annotations_of(page, texts):
        if pdfium.FPDFAnnot_GetSubtype(annotation) == pdfium.FPDF_ANNOT_WIDGET:
            yield from _field(form, annotation, number, page, texts)


def _field(form: Any, annotation: Any, number: int, page: Any, texts: Texts) -> Iterator[_Field]:
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

    def said(read: Any) -> str:
        return texts.read(read, form, annotation) or ""

    name = said(pdfium.FPDFAnnot_GetFormFieldName)
    yield _Field(
        kind,
        name,
        _label(name, said(pdfium.FPDFAnnot_GetFormFieldAlternateName)),
        said(pdfium.FPDFAnnot_GetFormFieldValue),
        said(pdfium.FPDFAnnot_GetFormFieldExportValue),
        bool(pdfium.FPDFAnnot_IsChecked(form, annotation)),
        tuple(_chosen(form, annotation, texts)),
        box,
        not password and is_shown(annotation),
    )


def _chosen(form: Any, annotation: Any, texts: Texts) -> Iterator[str]:
    import pypdfium2.raw as pdfium

    for index in range(min(pdfium.FPDFAnnot_GetOptionCount(form, annotation), MOST_OPTIONS)):
        if pdfium.FPDFAnnot_IsOptionSelected(form, annotation, index):
            yield texts.read(pdfium.FPDFAnnot_GetOptionLabel, form, annotation, index) or ""
