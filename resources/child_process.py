"""How a process of ours is started: never with the current folder on its path, never with our secrets.

The current folder may be a folder of documents, and a document may be named `pickle.py`. Python puts that folder
first for `-m` and `-c`, and for an empty entry of PYTHONPATH.
"""

from __future__ import annotations

import os
import sys

from resources.shipped import ROOT

_KEPT = {
    *("HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_CACHE_HOME", "PINCITE_CACHE", "TESSDATA_PREFIX"),
    *("PYTHONHOME", "PYTHONUTF8", "PYTHONCOERCECLOCALE", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE"),
}
"""With LC_* and the lists of folders all that a child is told. None of them is ever a secret."""
_FOLDERS = ("PATH", "LD_LIBRARY_PATH")
_SETTINGS = {
    "DO_NOT_TRACK": "1",
    "SCARF_NO_ANALYTICS": "true",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def child_command(module: str, *arguments: str) -> list[str]:
    """Runs a module of ours; `-P` keeps the current folder off its path."""
    return [sys.executable, "-P", "-m", module, *arguments]


def script_command(module: str, *arguments: str) -> list[str]:
    """Runs a module of ours that imports none of ours, by its file: a confined process may not list the folder that
    they are in."""
    return [sys.executable, "-I", "-S", os.path.join(ROOT, *module.split(".")) + ".py", *arguments]


def protect_children() -> None:
    """Python that libraries start (multiprocessing, Dagster) leaves the current folder off its path too."""
    os.environ["PYTHONSAFEPATH"] = "1"


def module_path() -> list[str]:
    """The path on which this process finds modules, in its order, without what depends on the current folder:
    empty and relative entries, and that folder itself unless pincite is installed in it."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # it was removed
        here = ""
    found = dict.fromkeys(entry for entry in (_own(entry, here) for entry in sys.path) if entry)
    return [*found] if ROOT in found else [ROOT, *found]


def _own(entry: str, here: str) -> str:
    if not os.path.isabs(entry):
        return ROOT if here and os.path.realpath(os.path.join(here, entry)) == os.path.realpath(ROOT) else ""
    same = os.path.realpath(entry)
    return ROOT if same == os.path.realpath(ROOT) else entry if same != here else ""


def program_environment(**more: str) -> dict[str, str]:
    """Of a program that is not Python's: by allow-list, so that no key, password or address of ours is among it."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")}
    for name in _FOLDERS:
        # An empty or relative entry is the current folder, or one in it.
        if entries := [entry for entry in os.environ.get(name, "").split(os.pathsep) if os.path.isabs(entry)]:
            kept[name] = os.pathsep.join(entries)
    return {"PATH": os.defpath, **kept, **more}


def program_path(name: str) -> str | None:
    """Of an installed program, by its whole path; never one in the current folder."""
    import shutil

    return shutil.which(name, path=program_environment()["PATH"])


def child_environment(**more: str) -> dict[str, str]:
    """Of a process that works on documents: it finds the modules that this one finds, and no others."""
    path = os.pathsep.join(module_path())
    return program_environment(**_SETTINGS, PYTHONPATH=path, PYTHONSAFEPATH="1", **more)
