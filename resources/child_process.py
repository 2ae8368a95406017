"""The installed files of pincite, and the start of its processes without the current folder and without secrets.

The current folder may be a folder of documents, and a document may be named `pickle.py`. Python puts that folder first
for `-m` and `-c`, and for an empty entry of PYTHONPATH. This module is imported before that folder is removed from the
path, so it imports only `os`, `signal` and `sys`.

In a checkout, the folders `sql`, `prompts` and `example` are at the top level; in the wheel they are within the package
`pincite`, so that it uses no general names in an environment. They are found by path, because an import could find any
other folder named `sql`.
"""

from __future__ import annotations

import os
import signal
import sys

# ---------------------------------------------------------------- shipped folders


ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder from which pincite's packages are imported."""
_EDITED = {"sql": "sql", "prompts": "prompts", "example": "tests/data"}
"""The folders in a checkout, by their names in the wheel; pyproject.toml has the same names."""


def shipped_folder(name: str) -> str:
    """Return the path of a folder that comes with pincite. Raise KeyError if it has no folder of the name."""
    edited, installed = os.path.join(ROOT, _EDITED[name]), os.path.join(ROOT, "pincite", "shipped", name)
    return installed if os.path.isdir(installed) else edited


# ---------------------------------------------------------------- child processes


_KEPT = {
    *("HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_CACHE_HOME", "PINCITE_CACHE", "TESSDATA_PREFIX"),
    *("PYTHONHOME", "PYTHONUTF8", "PYTHONCOERCECLOCALE", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE"),
}
"""The environment variables that a child process gets, besides LC_* and the lists of folders. None of them ever holds a
secret."""
_THIS = "resources.child_process"
_PARENT_DEATH_SIGNAL = 1
_FOLDERS = ("PATH", "LD_LIBRARY_PATH")
_SETTINGS = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # Arrow's own reserves a gigabyte at once: all that a document may take
    "DO_NOT_TRACK": "1",
    "SCARF_NO_ANALYTICS": "true",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def child_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of pincite; `-P` keeps the current folder off its path."""
    return [sys.executable, "-P", "-m", module, *arguments]


def tied_command(module: str, *arguments: str, ends: int) -> list[str]:
    """Return a command like `child_command`, for a process that ends soon after its starter.

    The kernel sends it the signal `ends` when the thread that started it has ended for any reason. The thread must
    belong to the process that calls this function.
    """
    return child_command(_THIS, str(int(ends)), str(os.getpid()), module, *arguments)


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Let the kernel send this process a signal when the thread that started it ends."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, int(number), 0, 0, 0)


def script_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module by its file. The module must not import others of pincite, whose folder a
    confined process may not list."""
    return [sys.executable, "-I", "-S", os.path.join(ROOT, *module.split(".")) + ".py", *arguments]


def site_command(module: str, *arguments: str, python: str = sys.executable) -> list[str]:
    """Return a command like `script_command`, for a module that imports installed packages."""
    return [python, "-I", os.path.join(ROOT, *module.split(".")) + ".py", *arguments]


def protect_children() -> None:
    """Keep the current folder off the path in Python processes that libraries start too (multiprocessing, Dagster)."""
    os.environ["PYTHONSAFEPATH"] = "1"


def module_path() -> list[str]:
    """Return this process's module path without entries of the current folder: empty and relative entries, and the
    folder itself unless pincite is installed in it.

    The standard library comes first. Python has imported `encodings` before it puts a script's folder on the path, but
    PYTHONPATH holds from the start: an `encodings.py` beside the script would end every child. Its entries keep their
    order, and the first is a zip file that hardly any Python has: Dagster removes the first entry while it loads code.
    """
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # it was removed
        here = ""
    found = dict.fromkeys(entry for entry in (_own(entry, here) for entry in sys.path) if entry)
    ordered = sorted(found, key=lambda entry: not _is_standard(entry))
    return ordered if ROOT in found else [ROOT, *ordered]


def _is_standard(entry: str) -> bool:
    library = os.path.dirname(os.__file__)
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    return entry in (os.path.join(os.path.dirname(library), archive), library, os.path.join(library, "lib-dynload"))


def _own(entry: str, here: str) -> str:
    if not os.path.isabs(entry):
        return ROOT if here and os.path.realpath(os.path.join(here, entry)) == os.path.realpath(ROOT) else ""
    same = os.path.realpath(entry)
    return ROOT if same == os.path.realpath(ROOT) else entry if same != here else ""


def program_environment(**more: str) -> dict[str, str]:
    """Return the environment for a program that is not Python. An allow-list excludes every key, password and address
    of pincite."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")}
    for name in _FOLDERS:
        # An empty or relative entry is the current folder, or one in it.
        if entries := [entry for entry in os.environ.get(name, "").split(os.pathsep) if os.path.isabs(entry)]:
            kept[name] = os.pathsep.join(entries)
    if given := kept.get("PINCITE_CACHE"):  # a child works in a folder of its own
        kept["PINCITE_CACHE"] = os.path.abspath(given)
    return {"PATH": os.defpath, **kept, **more}


def program_path(name: str) -> str | None:
    """Return the absolute path of an installed program, never of one in the current folder."""
    import shutil

    return shutil.which(name, path=program_environment()["PATH"])


def child_environment(**more: str) -> dict[str, str]:
    """Return the environment of a process that works on documents. It finds the same modules as this process, and no
    others."""
    path = os.pathsep.join(module_path())
    return program_environment(**_SETTINGS, PYTHONPATH=path, PYTHONSAFEPATH="1", **more)


def _run_tied() -> None:
    """Run the module named by `tied_command`, unless its starter has already ended: nothing would end the process
    then."""
    import runpy

    number, starter, module, *arguments = sys.argv[1:]
    end_with_parent(int(number))
    if os.getppid() != int(starter):
        sys.exit(1)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__" and sys.argv[1:]:
    _run_tied()
