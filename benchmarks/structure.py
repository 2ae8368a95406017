"""Count what decides whether somebody new can see the whole of the product.

    python benchmarks/structure.py [--only-files]

Prints a table: modules and their lines, modules that only one other imports, the longest chain of imports, product
files that one document and one question enter, and files that one document writes. `--only-files` leaves out what an
index run has to show. The definitions are beside the figures. Needs ../shared/data for the runs.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("pipelines", "resources", "assets", "pincite")
DOCUMENT = ROOT.parent / "shared" / "data" / "policies" / "PerksPlus.pdf"
QUESTION = "Which expenses does PerksPlus cover?"
LONGEST = 800
"""Lines of a module that is to be cut by idea."""
ENGINE = ("resources.engine", "resources.state")
"""Packages in which the parts of a state are at home."""


@dataclass(frozen=True)
class Module:
    """A Python file of the product."""

    source: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return self.source.count("\n")

    @property
    def has_code(self) -> bool:
        """Say whether it holds more than a docstring."""
        return any(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in self.tree.body)


def read_modules(root: Path = ROOT) -> dict[str, Module]:
    """Return all modules of the product by dotted name."""
    found = {}
    for top in PRODUCT:
        for path in sorted((root / top).rglob("*.py")):
            source = path.read_text()
            name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            found[name] = Module(source, ast.parse(source))
    return found


def imports_of(module: Module, known: Mapping[str, Module]) -> set[str]:
    """Return the product's modules that a module imports, in functions too, but not for type checking alone."""
    found = set[str]()
    for node in _run_time(module.tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(
                whole if (whole := f"{node.module}.{alias.name}") in known else node.module for alias in node.names
            )
    return found & known.keys()


def _run_time(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        yield child
        yield from _run_time(child)


def longest_chain(graph: Mapping[str, set[str]]) -> int:
    """Return the number of modules in the longest chain of imports. Raise ValueError where modules form a circle."""
    under_way: list[str] = []

    @cache
    def chain(name: str) -> int:
        if name in under_way:
            raise ValueError(f"a circle of imports: {' -> '.join([*under_way[under_way.index(name) :], name])}")
        under_way.append(name)
        length = 1 + max((chain(other) for other in sorted(graph[name])), default=0)
        under_way.pop()
        return length

    return max((chain(name) for name in sorted(graph)), default=0)


def count_files(modules: Mapping[str, Module]) -> list[tuple[str, str, str]]:
    """Return rows of what, figure and definition, counted from the text of the modules."""
    coded = {name: module for name, module in modules.items() if module.has_code}
    graph = {name: imports_of(module, modules) - {name} for name, module in modules.items()}
    importers: dict[str, set[str]] = defaultdict(set)
    for name, imported in graph.items():
        for other in imported:
            importers[other].add(name)
    uses = {
        name: len(re.findall(r"\bstate\.parts\.", module.source))
        for name, module in modules.items()
        if not name.startswith(ENGINE)
    }
    homes: dict[str, set[str]] = defaultdict(set)
    for name, module in modules.items():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(name)
    lines = sum(module.lines for module in modules.values())
    mean = sum(module.lines for module in coded.values()) / max(len(coded), 1)
    long = sorted(name for name, module in modules.items() if module.lines > LONGEST)
    return [
        ("modules with code", str(len(coded)), "Python files of the product that hold more than a docstring"),
        ("mean lines", f"{mean:.0f}", "lines of these, blank ones and comments too"),
        ("lines", f"{lines:,}", "all files of the product"),
        (f"over {LONGEST} lines", str(len(long)), ", ".join(long) or "none"),
        (
            "imported by one other only",
            str(sum(len(importers[name]) == 1 for name in coded)),
            "imports in functions count, those for type checking do not",
        ),
        ("longest chain", str(longest_chain(graph)), "of such imports, in modules"),
        (
            "`state.parts.`",
            f"{sum(uses.values())} in {sum(map(bool, uses.values()))} files",
            f"outside {' and '.join(ENGINE)}",
        ),
        (
            "class names with two meanings",
            str(sum(len(modules_with) > 1 for modules_with in homes.values())),
            "a name that two modules give to a class",
        ),
    ]


# ---------------------------------------------------------------- one document and one question

_PROFILER = """\
import os, sys, threading
_log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_roots, _seen = {roots!r}, set()

def _profile(frame, event, argument):
    name = frame.f_code.co_filename
    if name not in _seen and frame.f_code.co_flags & 1:  # a function: not the body of a module or class
        _seen.add(name)
        if name.startswith(_roots):
            os.write(_log, (name + "\\n").encode())

threading.setprofile(_profile)
sys.setprofile(_profile)
"""
"""The log is opened before a worker is confined, and a fork of it has it still."""


def count_runs(document: Path = DOCUMENT) -> list[tuple[str, str, str]]:
    """Return rows of what, figure and definition, of an index of one document and one question."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "docs").mkdir()
        (folder / "docs" / document.name).write_bytes(document.read_bytes())
        (folder / "pincite.yaml").write_text("sources:\n- {name: docs, path: docs}\n")
        indexed = _entered(folder, "index")
        asked = _entered(folder, "query", QUESTION)
        tables = list((folder / ".pincite").rglob("*.parquet"))
    return [
        (
            "files entered by one document",
            str(len(indexed)),
            f"whose functions ran in `pincite index` of {document.name}, its worker too",
        ),
        ("files entered by one question", str(len(asked)), "whose functions ran in `pincite query` on it"),
        ("Parquet files of one document", str(len(tables)), "in its state after the index"),
    ]


def _entered(folder: Path, *arguments: str) -> set[str]:
    """Return the product's files of which a function ran in a command, or in a process that it started."""
    log, site = folder / "entered.log", folder / "site"
    log.unlink(missing_ok=True)
    site.mkdir(exist_ok=True)
    roots = tuple(f"{ROOT / top}{os.sep}" for top in PRODUCT)
    (site / "sitecustomize.py").write_text(_PROFILER.format(log=str(log), roots=roots))
    path = os.pathsep.join([str(site), str(ROOT)])
    asked = [sys.executable, "-m", "pincite.cli", *arguments, "--config", str(folder / "pincite.yaml")]
    done = subprocess.run(
        asked, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(asked)} failed:\n{done.stderr}")
    return set(log.read_text().split("\n")) - {""}


def main() -> None:
    rows = count_files(read_modules())
    if "--only-files" not in sys.argv:
        if not DOCUMENT.exists():
            raise SystemExit(f"{DOCUMENT} is not there: --only-files counts without it")
        rows += count_runs()
    print("| what | figure | counted so |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
