"""The check that pincite's packages, which have general names, are not hidden by others in its environment.

Its layers import one another as `assets`, `pipelines` and `resources`. If another package of such a name is found
first, its code would run in place of ours, so each is located before any is imported. This module imports only modules
that Python has loaded at its start, since the current folder may still be on the path.
"""

from __future__ import annotations

import os
import sys

LAYERS = ("assets", "pipelines", "resources")
REMEDY = "give pincite an environment of its own: `uv tool install pincite`, `pipx install pincite`, or a new venv"


class ForeignPackageError(ImportError):
    """The error that another package has the name of a layer and is found first."""


RUN_TMPDIR = "PINCITE_RUN_TMPDIR"
"""The variable with the user's folder of temporary files, where the code server has another for its sockets; empty for
none."""


def restore_temporary_folder() -> None:
    """Let runs put temporary files where the user wants them."""
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
    """Raise ForeignPackageError, of one line, if a layer that would be imported is not the one beside pincite."""
    here = os.path.dirname(sys.modules["pincite"].__path__[0])
    for name in LAYERS:
        found = _file(name)
        if found and os.path.realpath(os.path.dirname(found)) != os.path.realpath(os.path.join(here, name)):
            told = f"another package {name!r} is found before pincite's own, in {found}"
            raise ForeignPackageError(f"{told}; take it off Python's path, or {REMEDY}", name=name, path=found)


def _file(name: str) -> str | None:
    """Return the file that an import would run, without running it; None if it has no file, as a plain folder has."""
    if name in sys.modules:
        spec = sys.modules[name].__spec__
    else:
        spec = next(filter(None, (finder.find_spec(name, None) for finder in sys.meta_path)), None)
    return spec.origin if spec else None
