"""The check that no other package in the environment hides the packages of pincite, which have general names.

The layers import one another as `assets`, `pipelines` and `resources`. If another package with one of these names is
found first, its code would run instead, so each package is located before any is imported. This module imports only
modules that Python has loaded at its start, since the current folder may still be on the path.
"""

from __future__ import annotations

import os
import sys

LAYERS = ("assets", "pipelines", "resources")
REMEDY = "give pincite an environment of its own: `uv tool install pincite`, `pipx install pincite`, or a new venv"


class ForeignPackageError(ImportError):
    """The error that another package with the name of a layer is found first."""


RUN_TMPDIR = "PINCITE_RUN_TMPDIR"
"""Environment variable with the user's folder of temporary files, since the code server uses another for its sockets;
empty if the user set none."""


def restore_temporary_folder() -> None:
    """Restore the user's folder of temporary files for runs."""
    former = os.environ.pop(RUN_TMPDIR, None)
    if former is None:
        return
    if former:
        os.environ["TMPDIR"] = former
    else:
        os.environ.pop("TMPDIR", None)
    if "tempfile" in sys.modules:
        vars(sys.modules["tempfile"])["tempdir"] = None  # it keeps the folder that it found first


def require_own() -> None:
    """Raise ForeignPackageError, with one line, if a layer would be imported from elsewhere than beside pincite."""
    here = os.path.dirname(sys.modules["pincite"].__path__[0])
    for name in LAYERS:
        found = _file(name)
        if found and os.path.realpath(os.path.dirname(found)) != os.path.realpath(os.path.join(here, name)):
            told = f"another package {name!r} is found before pincite's own, in {found}"
            raise ForeignPackageError(f"{told}; take it off Python's path, or {REMEDY}", name=name, path=found)


def _file(name: str) -> str | None:
    """Return the file that an import would run, without running it; return None if there is no file, as for a plain
    folder."""
    if name in sys.modules:
        spec = sys.modules[name].__spec__
    else:
        spec = next(filter(None, (finder.find_spec(name, None) for finder in sys.meta_path)), None)
    return spec.origin if spec else None
