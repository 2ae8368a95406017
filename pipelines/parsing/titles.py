"""Choosing what a document is called."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipelines.parsing.cleaning import clean_text
from pipelines.records import Element, RawDocument

LONGEST_TITLE = 300
_PROGRAM = re.compile(r"^(microsoft (word|excel|powerpoint)|writer|calc|impress|openoffice[^ ]*)\s*-\s*", re.IGNORECASE)
_JUNK = re.compile(
    r"(untitled|unknown|no ?title|title|document|presentation|powerpoint presentation|book|sheet|"
    r"новый документ|без (назви|названия)|документ|презентація( powerpoint)?|"
    r"(untitled|document|doc|book|presentation|sheet|tabelle|feuil|лист|аркуш|документ)[ _-]?\(?\d*\)?|"
    r"\(?anonymous\)?|none|null|[\d\W_]*)",
    re.IGNORECASE,
)
_FILE_SUFFIX = re.compile(
    r"\.(pdf|docx?|odt|rtf|xlsx?|pptx?|html?|md|txt|tex|dvi|indd|qxd|pmd|cdr|csv|eml)$", re.IGNORECASE
)


def file_stem(uri: str) -> str:
    name = uri.replace("\\", "/").rsplit("/", 1)[-1]
    stem = name.rsplit(".", 1)[0] if "." in name.lstrip(".") else name
    return clean_text(stem) or clean_text(name) or "document"


def _folded(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()


def is_junk_title(title: str, uri: str) -> bool:
    """Whether a title property says nothing: a placeholder, or the name of some file."""
    bare = _PROGRAM.sub("", title)
    if _JUNK.fullmatch(bare) or _FILE_SUFFIX.search(bare):
        return True
    return _folded(bare) == _folded(file_stem(uri))


def _from_headings(elements: Sequence[Element]) -> str | None:
    headings = [element for element in elements if element.kind == "heading" and not _JUNK.fullmatch(element.text)]
    for element in headings:
        if element.level == 1:
            return element.text
    for element in headings:
        if element.page_start in (None, 1):
            return element.text
    return None


def choose_title(doc: RawDocument, declared: str, elements: Sequence[Element]) -> tuple[str, bool]:
    """Title, and whether it is only the file's name: the listing's title, the file's own title
    unless it says nothing, the first heading of level 1, the first heading of page 1, the name."""
    listed = clean_text(doc.title or "")
    if listed:
        return listed[:LONGEST_TITLE], False
    if declared and not is_junk_title(declared, doc.uri):
        return declared[:LONGEST_TITLE], False
    heading = _from_headings(elements)
    if heading:
        return heading[:LONGEST_TITLE], False
    return file_stem(doc.uri)[:LONGEST_TITLE], True
