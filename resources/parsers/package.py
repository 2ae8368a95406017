"""The safe opening of Office files: ZIP packages, and compound files from before 2007 or with a password.

Size limits are checked before anything is unpacked, and XML is read without entities. Only the directory of a compound
file is read.
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pipelines.dates import iso_date
from pipelines.errors import DocumentError
from pipelines.plural import plural
from resources.parsers.untrusted import list_names

# ---------------------------------------------------------------- compound files


_DIRECTORY = 1 << 14
"""Most bytes of a directory that are read: 128 parts."""
_SMALL = 4096
"""Bytes below which a part is stored together with others elsewhere in the file."""


@dataclass(frozen=True, slots=True)
class PackagePart:
    """A part of a compound file. `at` is its first byte, or None if the directory does not say."""

    name: str
    at: int | None


def parts_of(path: Path) -> dict[str, PackagePart]:
    """Return the first parts of a compound file by name; return {} if it is damaged."""
    with open(path, "rb") as stream:
        head = stream.read(512)
        if len(head) < 512:
            return {}
        (shift,), (start,) = struct.unpack_from("<H", head, 30), struct.unpack_from("<I", head, 48)
        if shift not in (9, 12):
            return {}
        stream.seek((start + 1) << shift)
        directory = stream.read(_DIRECTORY)
    found = (_part(directory[at : at + 128], shift) for at in range(0, len(directory) - 127, 128))
    return {part.name: part for part in found}


def _part(entry: bytes, shift: int) -> PackagePart:
    name = entry[:64].decode("utf-16-le", "replace").partition("\0")[0]
    start, size = struct.unpack_from("<II", entry, 116)
    return PackagePart(name, (start + 1) << shift if size >= _SMALL else None)


# ---------------------------------------------------------------- escaped characters


_ESCAPED = re.compile(r"_x(00[01][0-9A-F]|005F)_", re.IGNORECASE)
"""Escapes of control characters and of the underscore. Other escape-like texts are usually words, such as names in
code."""


def unescape(text: str) -> str:
    """Return a text of OOXML with its escaped control characters decoded: `_x000D_` is a line end."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)).replace("\r", "\n"), text) if "_x" in text else text


# ---------------------------------------------------------------- ZIP packages


MOST_BYTES = 1 << 30
"""Most bytes of all parts, unpacked."""
MOST_RATIO = 200
"""Most unpacked bytes for each packed byte; a higher ratio indicates a decompression bomb."""
UNSUSPECTED_BYTES = 50 << 20
"""Unpacked bytes up to which the ratio is not checked."""
MOST_PARTS = 20_000
_SUBSET = re.compile(rb"<!DOCTYPE[^<>\[]{0,2000}+\[")
_STRICT = b"http://purl.oclc.org/ooxml/"
_CORE = {
    "{http://purl.org/dc/elements/1.1/}title": "title",
    "{http://purl.org/dc/elements/1.1/}creator": "author",
    "{http://purl.org/dc/elements/1.1/}subject": "subject",
    "{http://purl.org/dc/elements/1.1/}language": "language",
    "{http://schemas.openxmlformats.org/package/2006/metadata/core-properties}keywords": "keywords",
    "{http://schemas.openxmlformats.org/package/2006/metadata/core-properties}version": "version",
    "{http://schemas.openxmlformats.org/package/2006/metadata/core-properties}category": "category",
    "{http://purl.org/dc/terms/}created": "created",
    "{http://purl.org/dc/terms/}modified": "modified",
}


@contextmanager
def opened_package(path: Path) -> Iterator[zipfile.ZipFile]:
    """Yield the ZIP archive of an Office file after checking its declared sizes.

    Raise DocumentError: `corrupt`, `encrypted`, `limit_exceeded`."""
    try:
        with zipfile.ZipFile(path) as package:
            guard(package, path)
            yield package
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError) as error:
        raise DocumentError(
            f"{path.name}: the file is damaged ({error}): open it and save it again", "corrupt"
        ) from None


def guard(package: zipfile.ZipFile, path: Path) -> int:
    """Return the unpacked bytes of all parts, as the archive declares them.

    Raise DocumentError: `encrypted`, `limit_exceeded`."""
    parts = package.infolist()
    total, packed = sum(part.file_size for part in parts), sum(part.compress_size for part in parts)
    bomb = total > UNSUSPECTED_BYTES and total > MOST_RATIO * max(packed, 1)
    if total > MOST_BYTES or bomb or len(parts) > MOST_PARTS:
        message = f"{path.name}: would unpack to {total >> 20} MB in {plural(len(parts), 'part')}; divide the document"
        raise DocumentError(message, "limit_exceeded")
    if any(part.flag_bits & 1 for part in parts):
        raise DocumentError(f"{path.name}: the file has a password: save a copy without one", "encrypted")
    return total


def xml_parser() -> Any:
    from lxml import etree

    return etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_comments=True,
    )


def xml_part(package: zipfile.ZipFile, name: str, path: Path) -> Any:
    """Return the root of one part, or None if the package does not have it.

    Strict OOXML is converted to transitional. Raise DocumentError: `corrupt`, `limit_exceeded` (entities, depth).
    """
    try:
        data = package.read(name)
    except KeyError:
        return None
    return xml_root(data, name, path)


def xml_root(data: bytes, name: str, path: Path) -> Any:
    """Return the root of a part's bytes. Raises the errors of `xml_part`."""
    from lxml import etree

    _refuse_entities(data[:65536], name, path)
    if _STRICT in data[:8192]:
        data = _transitional(data)
    try:
        return etree.fromstring(data, xml_parser())
    except etree.XMLSyntaxError as error:
        code = "limit_exceeded" if "huge" in str(error).lower() or "depth" in str(error).lower() else "corrupt"
        raise DocumentError(f"{path.name}: {name} cannot be read ({error})", code) from None


def _refuse_entities(head: bytes, name: str, path: Path) -> None:
    """Raise DocumentError `limit_exceeded` if the head of a part declares entities. A DOCTYPE that only names a public
    identifier, as in books and formulas, is ignored."""
    if _SUBSET.search(head[:4096]) or b"<!ENTITY" in head:
        raise DocumentError(f"{path.name}: {name} declares entities, which no document needs", "limit_exceeded")


def stream_elements(package: zipfile.ZipFile, name: str, tag: str, path: Path) -> Iterator[Any]:
    """Yield the elements of one part that have a local name, in any namespace. Each is emptied when the next is
    requested. Yield nothing if the package does not have the part.

    Raise DocumentError: `corrupt`, `limit_exceeded` (entities).
    """
    from lxml import etree

    if name not in package.NameToInfo:
        return
    with package.open(name) as stream:
        head = stream.read(65536)
        _refuse_entities(head, name, path)
        stream.seek(0)
        safely = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": False}
        try:
            for _, element in etree.iterparse(stream, tag=f"{{*}}{tag}", remove_comments=True, **safely):
                yield element
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
        except etree.XMLSyntaxError as error:
            raise DocumentError(f"{path.name}: {name} cannot be read ({error})", "corrupt") from None


def _transitional(data: bytes) -> bytes:
    known = (
        (b"wordprocessingml/main", b"wordprocessingml/2006/main"),
        (b"officeDocument/relationships", b"officeDocument/2006/relationships"),
        (b"officeDocument/math", b"officeDocument/2006/math"),
        (b"drawingml/main", b"drawingml/2006/main"),
        (b"drawingml/wordprocessingDrawing", b"drawingml/2006/wordprocessingDrawing"),
        (b"spreadsheetml/main", b"spreadsheetml/2006/main"),
    )
    for strict, usual in known:
        data = data.replace(_STRICT + strict, b"http://schemas.openxmlformats.org/" + usual)
    return data


def relations(package: zipfile.ZipFile, part: str, path: Path) -> dict[str, tuple[str, str]]:
    """Return relation id -> (last word of its type, name of its target), for targets inside the package."""
    folder = PurePosixPath(part).parent
    return {
        key: (kind, target.lstrip("/") if target.startswith("/") else _resolve(folder, target))
        for key, kind, target, outside in _relations(package, part, path)
        if not outside
    }


def external_links(package: zipfile.ZipFile, part: str, path: Path) -> dict[str, tuple[str, str]]:
    """Return relation id -> (last word of its type, address) for links outside the package. They are never opened."""
    return {key: (kind, target) for key, kind, target, outside in _relations(package, part, path) if outside}


def _relations(package: zipfile.ZipFile, part: str, path: Path) -> Iterator[tuple[str, str, str, bool]]:
    where = PurePosixPath(part)
    root = xml_part(package, str(where.parent / "_rels" / f"{where.name}.rels"), path)
    for relation in root if root is not None else ():
        if target := relation.get("Target") or "":
            kind = (relation.get("Type") or "").rsplit("/", 1)[-1]
            yield relation.get("Id") or "", kind, target, relation.get("TargetMode") == "External"


def content_types(package: zipfile.ZipFile, path: Path) -> dict[str, str]:
    """Return the content types of parts, in lower case and without parameters, by `/NAME` and `.ENDING`."""
    root = xml_part(package, "[Content_Types].xml", path)
    found: dict[str, str] = {}
    for element in root if root is not None else ():
        name, ending = element.get("PartName") or "", (element.get("Extension") or "").lower()
        found[name or f".{ending}"] = (element.get("ContentType") or "").partition(";")[0].strip().lower()
    return found


def unread(related: Iterable[tuple[str, str]]) -> list[str]:
    """Return a warning with the names of the files embedded in a part, which are separate documents."""
    names = list(dict.fromkeys(name for kind, name in related if kind in ("oleObject", "package")))
    return [f"embedded files were not read: {list_names(names)}"] if names else []


def _resolve(folder: PurePosixPath, target: str) -> str:
    parts: list[str] = list(folder.parts)
    for part in PurePosixPath(target).parts:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def core_properties(package: zipfile.ZipFile, path: Path) -> dict[str, str]:
    root = xml_part(package, "docProps/core.xml", path)
    properties: dict[str, str] = {}
    for element in root if root is not None else ():
        name = _CORE.get(element.tag)
        if name and (element.text or "").strip():
            text = unescape(element.text).strip()
            properties[name] = (iso_date(text) or text) if name in ("created", "modified") else text
    return properties


# ---------------------------------------------------------------- encrypted texts


_OF_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
"""Ciphers in an EPUB that encrypt only fonts, so the text is readable."""


def require_open(package: zipfile.ZipFile, path: Path) -> None:
    """Raise DocumentError `encrypted` for a text with a password, or a book with DRM."""
    names = package.NameToInfo
    if "META-INF/manifest.xml" in names and b":encryption-data" in package.read("META-INF/manifest.xml"):
        raise DocumentError(f"{path.name}: the file has a password: save a copy without one", "encrypted")
    listed = xml_part(package, "META-INF/encryption.xml", path)
    if listed is not None:
        ciphers = (method.get("Algorithm") for method in listed.iter("{*}EncryptionMethod"))
        if any(cipher and cipher not in _OF_FONTS for cipher in ciphers):
            raise DocumentError(f"{path.name}: the book is encrypted (DRM): get a copy that is not", "encrypted")
