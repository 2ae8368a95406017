"""What a slide shows that its own list of shapes does not say: shapes of its layout and master, which lie under it, and
shapes in alternative forms, of which the newest is taken.

Text of a layout's placeholders is a prompt (`Click to edit`), and on no slide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from resources.parsers.office.docx_formulas import M, latex
from resources.parsers.office.pictures import A

P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_MATH = "{http://schemas.microsoft.com/office/drawing/2010/main}m"
_SHAPES = frozenset(f"{P}{name}" for name in ("sp", "grpSp", "graphicFrame", "cxnSp", "pic"))
_HOLDERS = frozenset((f"{P}spTree", f"{P}grpSp", f"{A}p"))
_OFF = ("0", "false")


def leaves(shapes: Any) -> Iterator[Any]:
    """Shapes in groups and outside, in order."""
    stack = list(reversed(list(shapes)))
    while stack:
        shape = stack.pop()
        if hasattr(shape, "shapes"):
            stack += list(reversed(list(shape.shapes)))
        else:
            yield shape


def settle(root: Any) -> None:
    """Put the newest form of a shape in the place of its alternatives, and formulas as text in theirs."""
    for either in list(root.iter(f"{MC}AlternateContent")):
        parent = either.getparent()
        if parent is not None and parent.tag in _HOLDERS:
            for element in _taken(either):
                either.addprevious(element)
            parent.remove(either)
    for formula in list(root.iter(_MATH)):
        if formula.getparent().tag == f"{A}p":
            run = formula.makeelement(f"{A}r")
            run.append(formula.makeelement(f"{A}t"))
            run[0].text = " ".join(latex(found) for found in formula.iter(f"{M}oMath"))
            formula.getparent().replace(formula, run)


def _taken(either: Any) -> list[Any]:
    in_text = either.getparent().tag == f"{A}p"
    for form in either:
        if isinstance(form.tag, str) and any(in_text or child.tag in _SHAPES for child in form):
            return list(form)
    return []


@dataclass(slots=True)
class Layers:
    """Shapes with text of layouts and masters, by the number of the first slide that shows them: text of one slide is
    its own, text of several is what runs along their edges, once."""

    own: dict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))
    running: dict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))


def layers_of(slides: Sequence[Any]) -> Layers:
    """Slides that say nothing themselves say what is under them."""
    read: dict[str, list[tuple[str, Any]]] = {}
    first: dict[str, tuple[int, Any]] = {}
    shown: dict[str, set[int]] = defaultdict(set)
    for number, slide in enumerate(slides, start=1):
        for layer in _under(slide):
            name = str(layer.part.partname)
            if name not in read:
                settle(layer._element)
                read[name] = list(_said(layer.shapes))
            for text, shape in read[name]:
                first.setdefault(text, (number, shape))
                shown[text].add(number)
    silent = not any(_words(slide._element.iter(f"{A}t")) for slide in slides)
    layers = Layers()
    for text, (number, shape) in first.items():
        (layers.own if silent or len(shown[text]) == 1 else layers.running)[number].append(shape)
    return layers


def _under(slide: Any) -> list[Any]:
    """The layers that a slide shows: its master and its layout, as far as neither says otherwise."""
    try:
        layout = slide.slide_layout
        master = layout.slide_master
    except (KeyError, AttributeError):  # a slide without them
        return []
    if slide._element.get("showMasterSp") in _OFF:
        return []
    return [layout] if layout._element.get("showMasterSp") in _OFF else [master, layout]


def _said(shapes: Any) -> Iterator[tuple[str, Any]]:
    """Shapes that are drawn, each with its words; a field alone, such as a slide's number, has none."""
    for shape in leaves(shapes):
        if not shape.is_placeholder:
            words = _words(text for run in shape._element.iter(f"{A}r") for text in run.iter(f"{A}t"))
            if words:
                yield words, shape


def _words(texts: Iterable[Any]) -> str:
    return " ".join("".join(text.text or "" for text in texts).split())
