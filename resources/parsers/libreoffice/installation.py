"""Where LibreOffice is: its library, which a process of a document loads, and what that reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from resources.child_process import program_path

_LIBRARIES = ("libmergedlo.so", "libsofficeapp.so")
"""That have LibreOfficeKit; which, is a choice of who built it."""
_OWN_DATA = ("share/registry", "share/uno_packages/cache", "share/prereg", "share/psprint/psprint.conf")
"""What distributions keep in places of their own, and link to."""


@dataclass(frozen=True, slots=True)
class LibreOffice:
    """`program` is its folder of programs and libraries."""

    program: Path
    library: Path

    def has(self, part: str) -> bool:
        """Whether a part is there, by its library: writer is libswlo.so, impress libsdlo.so."""
        return (self.program / f"lib{part}lo.so").is_file()

    @property
    def reads(self) -> Iterator[Path]:
        """Its folder, and those that it links to."""
        install = self.program.parent
        yield install
        for name in _OWN_DATA:
            found = (install / name).resolve()
            if found.exists() and not found.is_relative_to(install):
                yield found


def libreoffice() -> LibreOffice | None:
    """That of the `soffice` on the PATH; None where there is none, or one without its library beside it."""
    found = program_path("soffice")
    program = Path(found).resolve().parent if found else None
    library = next((path for name in _LIBRARIES if program and (path := program / name).is_file()), None)
    return LibreOffice(program, library) if program and library else None
