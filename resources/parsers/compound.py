"""The directory of a compound file, the container of Office files of before 2007 and of those with a password."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

_DIRECTORY = 1 << 14
"""Bytes of a directory that are looked at: 128 parts."""
_SMALL = 4096
"""Shorter parts are packed together elsewhere."""


@dataclass(frozen=True, slots=True)
class Part:
    """Of the bytes of a part, `at` is where they begin in the file; None where that is not told by the directory."""

    name: str
    at: int | None


def parts_of(path: Path) -> dict[str, Part]:
    """The first parts of such a container, by name; none where it is damaged."""
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


def _part(entry: bytes, shift: int) -> Part:
    name = entry[:64].decode("utf-16-le", "replace").partition("\0")[0]
    start, size = struct.unpack_from("<II", entry, 116)
    return Part(name, (start + 1) << shift if size >= _SMALL else None)
