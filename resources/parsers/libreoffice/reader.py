"""The reader of DOC and PPT: LibreOffice converts the file to DOCX or PPTX, for which pincite has a reader.

LibreOffice runs in a second process, which is confined like the document's own
(resources/parsers/libreoffice/convert.py): without a network, other files, other programs or macros. Its profile and
output are in the folder of the document's process, and are deleted at once.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pipelines.errors import DocumentError
from pipelines.parsing.formats import DOC, OF_ENDING, PPT
from pipelines.records import ParsedFile
from resources.parsers.installed import LibreOffice, libreoffice
from resources.parsers.libreoffice import convert
from resources.parsers.package import parts_of
from resources.parsers.registry import parser_of
from resources.programs import run

_ENCRYPTED_WORDS = 1 << 8
"""The bit fEncrypted of the flags at byte 10 of WordDocument ([MS-DOC] 2.5.2)."""
_ENCRYPTED_SLIDES = "EncryptedSummary"


@dataclass(frozen=True, slots=True)
class _Old:
    """An old format. `part` names the library of LibreOffice that reads it; `package` is the Debian package."""

    name: str
    now: str
    part: str
    package: str


_OLD = {
    DOC: _Old("Word 97 to 2003", ".docx", "sw", "libreoffice-writer-nogui"),
    PPT: _Old("PowerPoint 97 to 2003", ".pptx", "sd", "libreoffice-impress-nogui"),
}


def parse(path: Path, hidden: bool = False) -> ParsedFile:
    """Read a DOC or PPT file, with hidden content if `hidden` is set.

    Raises the errors of `rewrite`, and of the reader of the new format.
    """
    with rewrite(path) as target:
        parsed = parser_of(OF_ENDING[target.suffix].media_type)(target, hidden=hidden)
    # LibreOffice writes its own language if the file has none.
    properties = {name: value for name, value in parsed.properties.items() if name != "language"}
    return replace(parsed, properties=properties, origin=path.suffix[1:].lower())


@contextmanager
def rewrite(path: Path) -> Iterator[Path]:
    """Yield the path of the file converted to DOCX or PPTX, which exists within the context only.

    Raise DocumentError: `unsupported` if LibreOffice is missing, `encrypted`, `corrupt`, `crashed`, `timeout`.
    """
    old = _OLD[OF_ENDING[path.suffix.lower()].media_type]
    office = libreoffice()
    if office is None or not office.has(old.part):
        raise DocumentError(
            f"{path.name}: a file of {old.name}, which LibreOffice reads: install it (Debian: {old.package}), with its "
            f"`soffice` on the PATH; or save the file as {old.now}",
            "unsupported",
        )
    if _has_password(path):
        raise DocumentError(f"{path.name}: an Office file with a password: save a copy without one", "encrypted")
    with tempfile.TemporaryDirectory(prefix="libreoffice-") as folder:
        target = Path(folder) / f"{path.stem}{old.now}"
        _convert(office, path, target)
        yield target


def _has_password(path: Path) -> bool:
    parts = parts_of(path)
    words = parts.get("WordDocument")
    if words is None or words.at is None:
        return _ENCRYPTED_SLIDES in parts
    with open(path, "rb") as stream:
        stream.seek(words.at + 10)
        return bool(int.from_bytes(stream.read(2), "little") & _ENCRYPTED_WORDS)


def _convert(office: LibreOffice, source: Path, target: Path) -> None:
    profile = target.parent / "profile"
    values = {"profile": str(profile), "source": str(source.resolve()), "target": str(target)}
    done = run("libreoffice", str(office.library), values)
    if done.status == 0:
        return
    reason = " ".join(done.errors.split())[-200:]
    if done.status == convert.FAILED:
        raise DocumentError(
            f"{source.name}: LibreOffice cannot read it ({reason}): open it and save it again", "corrupt"
        )
    if done.status == -signal.SIGXCPU:
        raise DocumentError(f"{source.name}: LibreOffice takes too long to read it: divide the file", "timeout")
    raise DocumentError(
        f"{source.name}: LibreOffice crashed ({reason or done.status}): the file is damaged, or needs more than "
        "parsing.memory_mb; open it and save it again",
        "crashed",
    )
