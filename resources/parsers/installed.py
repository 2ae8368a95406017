"""What is installed beside pincite's own readers, and lets more files be read."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from resources.child_process import program_path
from resources.parsers.unstructured.pandoc import pandoc_path

_PACKAGES = ("unstructured", "python-oxmsg")
_PROGRAMS = ("soffice", "tesseract")


def installed() -> dict[str, str]:
    """Releases of packages and paths of programs, by name, of those that are there."""
    found = {name: path for name in _PROGRAMS if (path := program_path(name))}
    if pandoc := pandoc_path():
        found["pandoc"] = pandoc
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
