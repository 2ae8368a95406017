"""The files that pincite is installed as, and its processes, started without the current folder or secrets.

The current folder may be a folder of documents, and a document may be named `pickle.py`. Python puts that folder
first for `-m` and `-c`, and for an empty entry of PYTHONPATH. This module is imported before that folder is taken off
the path, so it imports only `os`, `signal` and `sys`.

The folders `sql`, `prompts` and `example` are where they are edited in a checkout; the wheel has them within the
package `pincite`, so that it claims no general names of an environment. They are found by file, because any folder
named `sql` on the import path would otherwise answer to the name.
"""

from __future__ import annotations

import os
import signal
import sys

# ---------------------------------------------------------------- shipped folders


ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder from which the packages of pincite are imported."""
_EDITED = {"sql": "sql", "prompts": "prompts", "example": "tests/data"}
"""The folders in a checkout, by shipped name; pyproject.toml says the same for the wheel."""


def shipped_folder(name: str) -> str:
    """Return the path of a folder that comes with pincite. Raise KeyError if it has no folder of the name."""
    edited, installed = os.path.join(ROOT, _EDITED[name]), os.path.join(ROOT, "pincite", "shipped", name)
    return installed if os.path.isdir(installed) else edited


# ---------------------------------------------------------------- child processes


_KEPT = {
    *("HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_CACHE_HOME", "PINCITE_CACHE", "TESSDATA_PREFIX"),
    *("PYTHONHOME", "PYTHONUTF8", "PYTHONCOERCECLOCALE", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE"),
}
"""The variables that a child is given, beside LC_* and the lists of folders. No variable here ever holds a secret."""
_THIS = "resources.child_process"
_PARENT_DEATH_SIGNAL = 1
_FOLDERS = ("PATH", "LD_LIBRARY_PATH")
_SETTINGS = {
    "DO_NOT_TRACK": "1",
    "SCARF_NO_ANALYTICS": "true",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def child_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of pincite; `-P` keeps the current folder off its path."""
    return [sys.executable, "-P", "-m", module, *arguments]


def tied_command(module: str, *arguments: str, ends: int) -> list[str]:
    """Return a command like `child_command`, for a process that outlives its starter by moments at most.

    The kernel sends it the signal `ends` when the thread that starts it has ended for any reason. It must be
    the thread that asks for the command, or another of its process."""
    return child_command(_THIS, str(int(ends)), str(os.getpid()), module, *arguments)


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when the thread that started it ends."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, int(number), 0, 0, 0)


def script_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs, by its file, a module that imports no module of pincite: a confined process may
    not list the folder that they are in."""
    return [sys.executable, "-I", "-S", os.path.join(ROOT, *module.split(".")) + ".py", *arguments]


def site_command(module: str, *arguments: str, python: str = sys.executable) -> list[str]:
    """Return a command like `script_command`, for a module that imports installed packages."""
    return [python, "-I", os.path.join(ROOT, *module.split(".")) + ".py", *arguments]


def protect_children() -> None:
    """Keep the current folder off the path also in Python processes that libraries start (multiprocessing, Dagster)."""
    os.environ["PYTHONSAFEPATH"] = "1"


def module_path() -> list[str]:
    """Return the path on which this process finds modules, in its order, without entries from the current folder:
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
    """Return the environment of a program that is not Python's. An allow-list keeps out every key, password and
    address of pincite's own."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")}
    for name in _FOLDERS:
        # An empty or relative entry is the current folder, or one in it.
        if entries := [entry for entry in os.environ.get(name, "").split(os.pathsep) if os.path.isabs(entry)]:
            kept[name] = os.pathsep.join(entries)
    return {"PATH": os.defpath, **kept, **more}


def program_path(name: str) -> str | None:
    """Return the absolute path of an installed program, never of one in the current folder."""
    import shutil

    return shutil.which(name, path=program_environment()["PATH"])


def child_environment(**more: str) -> dict[str, str]:
    """Return the environment of a process that works on documents. It finds the modules that this process finds, and
    no others."""
    path = os.pathsep.join(module_path())
    return program_environment(**_SETTINGS, PYTHONPATH=path, PYTHONSAFEPATH="1", **more)


def _run_tied() -> None:
    """Run the module that `tied_command` names, unless its starter has ended already: nothing would then end it."""
    import runpy

    number, starter, module, *arguments = sys.argv[1:]
    end_with_parent(int(number))
    if os.getppid() != int(starter):
        sys.exit(1)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__" and sys.argv[1:]:
    _run_tied()
