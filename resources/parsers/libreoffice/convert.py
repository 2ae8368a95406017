"""A program that converts one file to another format through LibreOfficeKit (resources/programs.py).

python resources/parsers/libreoffice/convert.py LIBRARY PROFILE SOURCE TARGET

Unlike `soffice --convert-to` this opens no socket and starts no program. `PROFILE` is a new folder whose settings
forbid macros and any download. Exit status: 0; 3 if the file cannot be opened or written, with the reason on standard
error. It imports no modules of pincite (resources/child_process.py).
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

FAILED = 3
_ITEM = (
    '<item oor:path="/org.openoffice.Office.{path}"><prop oor:name="{name}" oor:op="fuse"><value>{value}</value></prop>'
    "</item>"
)
_FORBIDDEN = (
    ("Common/Security/Scripting", "DisableMacrosExecution", "true"),
    ("Common/Security/Scripting", "MacroSecurityLevel", "3"),
    ("Common/Security/Scripting", "DisableActiveContent", "true"),
    ("Common/Security/Scripting", "BlockUntrustedRefererLinks", "true"),
    ("Common/Java/VirtualMachine", "Enable", "false"),
    ("Writer/Content/Update", "Link", "0"),
)
_HANDLE, _TEXT = ctypes.c_void_p, ctypes.c_char_p


class _Office(ctypes.Structure):
    """The first members of LibreOfficeKitClass; newer versions only add members after these."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("destroy", ctypes.CFUNCTYPE(None, _HANDLE)),
        ("load", ctypes.CFUNCTYPE(_HANDLE, _HANDLE, _TEXT)),
        ("error", ctypes.CFUNCTYPE(_TEXT, _HANDLE)),
    )


class _Document(ctypes.Structure):
    """The first members of LibreOfficeKitDocumentClass."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("destroy", ctypes.CFUNCTYPE(None, _HANDLE)),
        ("save_as", ctypes.CFUNCTYPE(ctypes.c_int, _HANDLE, _TEXT, _TEXT, _TEXT)),
    )


def write_profile(folder: Path) -> None:
    """Write settings that forbid documents to run code or download anything."""
    items = "".join(_ITEM.format(path=path, name=name, value=value) for path, name, value in _FORBIDDEN)
    names = 'xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema"'
    (folder / "user").mkdir(parents=True)
    (folder / "user" / "registrymodifications.xcu").write_text(
        f'<?xml version="1.0" encoding="UTF-8"?>\n<oor:items {names}>{items}</oor:items>\n', encoding="utf-8"
    )


def convert(library: Path, profile: Path, source: Path, target: Path) -> str:
    """Convert the source to the target. Return the reason of a failure, or ""."""
    start = ctypes.CDLL(str(library)).libreofficekit_hook_2
    start.restype, start.argtypes = _HANDLE, (_TEXT, _TEXT)
    office = start(os.fsencode(library.parent), profile.as_uri().encode())
    if not office:
        return "LibreOffice does not start"
    calls = _functions_of(office, _Office)
    document = calls.load(office, source.as_uri().encode())
    if document:
        written = _functions_of(document, _Document).save_as(
            document, target.as_uri().encode(), target.suffix[1:].encode(), None
        )
        if written and target.is_file():
            return ""
    return (calls.error(office) or b"no reason is given").decode("utf-8", "replace")


def _functions_of(handle: int, kind: type[ctypes.Structure]) -> Any:
    """Return the table of functions of an object, to which its first member points."""
    return ctypes.cast(ctypes.cast(handle, ctypes.POINTER(_HANDLE))[0], ctypes.POINTER(kind)).contents


def main() -> None:
    library, profile, source, target = sys.argv[1:]
    write_profile(Path(profile))
    reason = convert(Path(library), Path(profile), Path(source), Path(target))
    sys.stderr.write(reason)
    sys.stderr.flush()
    os._exit(FAILED if reason else 0)  # its threads are not waited for


if __name__ == "__main__":
    main()
