"""Documents that a DOCX takes in as they are (`altChunk`), in their place: HTML, web archives, text, RTF, other DOCX.

Nothing is fetched. What is not read is told by name.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from pipelines.errors import DocumentError
from pipelines.parsing.formats import OF_ENDING
from pipelines.parsing.pictures import FIGURE
from pipelines.records import Block, ParsedFile
from resources.parsers.html import parse_source, source_of
from resources.parsers.office.package import content_types, guard
from resources.parsers.registry import parser_of
from resources.parsers.text.email import written
from resources.parsers.text.plain import blocks_of_text
from resources.parsers.text.source_text import decode, without_offsets
from resources.parsers.untrusted import shortened

DEEPEST = 4
MOST_BYTES = 64 << 20
"""Of all parts that a document takes in, unpacked, counted at every place that one is taken in at."""
MOST_TOLD = 20
_BEGINS = {b"PK\x03\x04": "docx", b"{\\rtf": "rtf"}
_KINDS = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "text/plain": "text",
    "message/rfc822": "mht",
    "multipart/related": "mht",
    "application/x-mimearchive": "mht",
}
_ENDINGS = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    **dict.fromkeys((".mht", ".mhtml", ".eml"), "mht"),
    **dict.fromkeys((".txt", ".text"), "text"),
}

ReadDocx = Callable[[zipfile.ZipFile, Path, "AltChunks"], ParsedFile]


@dataclass(slots=True)
class AltChunks:
    """Reads the parts that a package takes in, and those that they take in. `read_docx` reads a package with the
    chunks it is given; `left` holds the bytes that may still be read, at all depths together."""

    read_docx: ReadDocx
    depth: int = 0
    left: list[int] = field(default_factory=lambda: [MOST_BYTES])
    warnings: list[str] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)

    def blocks(self, package: zipfile.ZipFile, name: str, path: Path) -> Sequence[Block]:
        """The blocks of a part, without its pictures; none, and a warning, where it is not read."""
        try:
            found = self._read(package, name, path)
        except (DocumentError, RecursionError) as error:
            reason = _reason(error, name) if isinstance(error, DocumentError) else "it is nested too deeply"
            self.warnings.append(f"{shortened(name)}: this part of the text was left out: {reason}")
            return ()
        kept = [without_offsets(block) for block in found.blocks if block.kind != FIGURE]
        told = [warning.removeprefix(f"{_file(name)}: ") for warning in found.warnings]
        if len(kept) < len(found.blocks):
            told.append(f"{len(found.blocks) - len(kept)} pictures in it were left out")
        self.warnings += (f"{shortened(name)}: {warning}" for warning in told)
        return kept

    def told(self) -> list[str]:
        """The warnings, each once; of very many, how many more."""
        every = list(dict.fromkeys(self.warnings))
        more = [f"{len(every) - MOST_TOLD} more such parts"] if len(every) > MOST_TOLD else []
        return every[:MOST_TOLD] + more

    def _read(self, package: zipfile.ZipFile, name: str, path: Path) -> ParsedFile:
        part = package.NameToInfo.get(name)
        if part is None:
            raise DocumentError("the file does not have it", "corrupt")
        self._take(part.file_size)
        data = package.read(name)
        ending = PurePosixPath(name).suffix.lower()
        self.types = self.types or content_types(package, path)
        declared = self.types.get(f"/{name}") or self.types.get(ending) or ""
        kind = next((kind for begin, kind in _BEGINS.items() if data.lstrip()[:8].startswith(begin)), None)
        kind = kind or _KINDS.get(declared) or _ENDINGS.get(ending)
        if kind == "docx":
            return self._docx(data, Path(_file(name)))
        if kind == "rtf":
            return _rtf(data, _file(name))
        if kind == "text":
            source, warnings = decode(data, _file(name))
            return ParsedFile(tuple(blocks_of_text(source)), warnings=warnings)
        if kind == "mht":
            return _web_archive(data, _file(name))
        if kind == "html":
            return parse_source(*_html(data, _file(name)))
        raise DocumentError(
            f"nothing here reads {shortened(declared) or 'a part that does not say what it is'}", "unsupported"
        )

    def _take(self, size: int) -> None:
        self.left[0] -= size
        if self.left[0] < 0:
            raise DocumentError(f"such parts are more than {MOST_BYTES >> 20} MB in all", "limit_exceeded")

    def _docx(self, data: bytes, path: Path) -> ParsedFile:
        if self.depth >= DEEPEST:
            raise DocumentError(f"it is nested more than {DEEPEST} deep", "limit_exceeded")
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as package:
                self._take(guard(package, path))
                return self.read_docx(package, path, AltChunks(self.read_docx, self.depth + 1, self.left))
        except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError) as error:
            raise DocumentError(f"it is damaged ({error})", "corrupt") from None


def _file(name: str) -> str:
    return PurePosixPath(name).name


def _reason(error: DocumentError, name: str) -> str:
    return str(error).removeprefix(f"{_file(name)}: ")


def _html(data: bytes, name: str) -> tuple[str, str, tuple[str, ...]]:
    source, warnings = source_of(data, name)
    return source, name, warnings


def _web_archive(data: bytes, name: str) -> ParsedFile:
    """A message whose text is a page (MHT); its pictures are parts of their own, and not asked for."""
    message = BytesParser(policy=policy.default).parsebytes(data.lstrip())
    assert isinstance(message, EmailMessage)
    is_html, content = written(message)
    if not content.strip():
        raise DocumentError("no page is in this web archive", "corrupt")
    return parse_source(content, name) if is_html else ParsedFile(tuple(blocks_of_text(content)))


def _rtf(data: bytes, name: str) -> ParsedFile:
    """By the reader of such files, where it is installed."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{PurePosixPath(name).stem}.rtf"
        path.write_bytes(data)
        return parser_of(OF_ENDING[".rtf"].media_type)(path)
