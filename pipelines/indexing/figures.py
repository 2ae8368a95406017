"""Descriptions of figures by a model that sees: what it is asked, and the rows of what it said.

The prompt is the picture and its language, nothing else: one picture has one description, wherever
it stands, and is bought once. What is around a figure is said by its header chain and its caption.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pipelines.llm.prompts import PromptTemplate, most_tokens
from pipelines.llm.reply_text import cleaned
from pipelines.parsing.pictures import FIGURE, IMAGE_HASH
from pipelines.ports import NoReply, Prompt, Reply
from pipelines.records import FALLBACK, LLM, WAITING, Element, FigureDescription

VERSION = 1
CHARACTERS = 600
UNSEEN = "unseen"
"""The method of a figure whose picture cannot be shown to a model, as the note says."""

Said = Reply | NoReply | str
"""What a model said of a picture, or why it was not shown to one."""


def figures_of(elements: Iterable[Element]) -> list[Element]:
    """The figures to describe, in reading order: pictures that have no text of their own."""
    return [
        element
        for element in elements
        if element.kind == FIGURE and not element.text and (IMAGE_HASH in element.metadata or _has_box(element))
    ]


def _has_box(element: Element) -> bool:
    return any(place.box for place in element.places)


def image_hash_of(figure: Element) -> str:
    """What tells its picture from others: the hash of its bytes, or of the pages that it is cut out of
    and its box; its place where a structural map beside another file than a PDF tells none."""
    return figure.metadata.get(IMAGE_HASH) or f"{figure.doc_id}:{figure.index}"


def distinct(figures: Iterable[Element]) -> dict[str, Element]:
    """One figure for each picture, by its hash."""
    found: dict[str, Element] = {}
    for figure in figures:
        found.setdefault(image_hash_of(figure), figure)
    return found


def figure_prompt(template: PromptTemplate, image: bytes, name: str, characters: int = CHARACTERS) -> Prompt:
    """`image` as PNG or JPEG, and the hash that tells it from others."""
    system, user = template.render(characters=characters)
    return Prompt(system, user, most_tokens(characters), (image,), (name,))


def figure_descriptions(
    figures: Sequence[Element],
    said: Mapping[str, Said],
    model: str,
    characters: int = CHARACTERS,
    before: Iterable[FigureDescription] = (),
) -> list[FigureDescription]:
    """A row for each figure of one document. `said` by `image_hash_of`; `before` are the document's last
    rows, whose text stands in until a reply is there."""
    last = {row.image_hash: row for row in before if row.text and row.model == model}
    return [
        _row(figure, index, said[image_hash_of(figure)], model, characters, last)
        for index, figure in enumerate(figures)
    ]


def _row(
    figure: Element, index: int, said: Said, model: str, characters: int, last: Mapping[str, FigureDescription]
) -> FigureDescription:
    def row(text: str, method: str, by: str = model, reply: str = "", note: str = "") -> FigureDescription:
        own = (figure.doc_id, index, figure.index, image_hash_of(figure))
        return FigureDescription(*own, text, method, by, reply, note)

    if isinstance(said, str):
        return row("", UNSEEN, by="", note=said)
    if isinstance(said, Reply):
        return row(cleaned(said.text, characters), LLM, reply=said.key)
    if said.code == "unusable":
        return row("", FALLBACK, reply=said.key, note=said.message)
    known = last.get(image_hash_of(figure))
    if known is not None:
        return row(known.text, WAITING, reply=known.reply, note=said.message)
    return row("", WAITING, by="", note=said.message)
