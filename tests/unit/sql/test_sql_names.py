"""Every statement that the code names exists, and every one that exists is named."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from resources.child_process import ROOT
from resources.postgres.statements import statements

FILES = sorted(file.stem for file in Path(ROOT, "sql", "queries").glob("*.sql"))
READERS = {"query", "statement", "statements"}
"""Functions whose first argument is a file of sql/queries."""
_READS = re.compile(
    r"resources\.(postgres\.(generation_)?statements|postgres import .*statements|sources\.sorted_spool)"
)
LAYERS = ("pincite", "assets", "resources", "benchmarks")


@dataclass(frozen=True)
class Module:
    """What a module says of SQL: files, statements by file, and its texts, among which are names that it passes on."""

    files: frozenset[str]
    named: frozenset[tuple[str, str]]
    texts: frozenset[str]
    imports: frozenset[str]


def read(source: str) -> Module:
    tree = ast.parse(source)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    given = [(_called(call), [_text(item) for item in call.args]) for call in calls]
    files = {texts[0] for name, texts in given if name in READERS and texts and texts[0]}
    named = {(texts[0], texts[1]) for name, texts in given if name in READERS and len(texts) > 1 and all(texts[:2])}
    for wrapper, (file, place) in {**_inherited(tree), **_wrappers(tree)}.items():
        named |= {(file, texts[place]) for name, texts in given if name == wrapper and texts[place:] and texts[place]}
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    imports = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return Module(frozenset(files), frozenset(named), frozenset(texts), frozenset(imports))


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _wrappers(tree: ast.Module) -> dict[str, tuple[str, int]]:
    """Functions that pass their argument `name` on, to a reader or to another of them: its file, and where the
    argument stands in a call."""
    found: dict[str, tuple[str, int]] = {}
    made = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    calls = {node: [call for call in ast.walk(node) if isinstance(call, ast.Call) and _passed(call)] for node in made}
    before = -1
    while before < len(found):
        before = len(found)
        for function in made:
            own = [item.arg for item in function.args.args if item.arg != "self"]
            for call in calls[function] if "name" in own else ():
                file = _text(call.args[0]) if _called(call) in READERS else found.get(_called(call), ("", 0))[0]
                if file:
                    found[function.name] = (file, own.index("name"))
    return found


def _inherited(tree: ast.Module) -> dict[str, tuple[str, int]]:
    """Those of the classes that classes here are made from, which come out of other modules."""
    bases = {
        base.id
        for made in ast.walk(tree)
        if isinstance(made, ast.ClassDef)
        for base in made.bases
        if isinstance(base, ast.Name)
    }
    found: dict[str, tuple[str, int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and bases & {item.name for item in node.names}:
            file = Path(ROOT, *(node.module or "").split(".")).with_suffix(".py")
            if file.is_file():
                other = ast.parse(file.read_text(encoding="utf-8"))
                found |= {**_inherited(other), **_wrappers(other)}
    return found


def _passed(call: ast.Call) -> bool:
    return any(isinstance(item, ast.Name) and item.id == "name" for item in call.args)


@cache
def modules() -> Mapping[str, Module]:
    """Those that read SQL, by their names."""
    sources = {file: file.read_text(encoding="utf-8") for layer in LAYERS for file in Path(ROOT, layer).rglob("*.py")}
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts): read(source)
        for file, source in sources.items()
        if _READS.search(source)
    }


def uses(module: Module, file: str, name: str) -> bool:
    """Whether it reads the file, itself or by a module that it imports, and has the name, whole or in two parts."""
    near = [module, *(modules()[name] for name in module.imports & modules().keys())]
    halves = ((name[:place], name[place:]) for place in range(1, len(name)))
    named = name in module.texts or any(first in module.texts and rest in module.texts for first, rest in halves)
    return named and any(file in one.files for one in near)


def test_every_statement_that_is_named_exists() -> None:
    named = {(file, name) for module in modules().values() for file, name in module.named}
    assert len(named) > 100
    assert {(file, name) for file, name in named if file not in FILES or name not in statements(file)} == set()


@pytest.mark.parametrize("file", FILES)
def test_every_statement_is_used(file: str) -> None:
    unused = {name for name in statements(file) if not any(uses(module, file, name) for module in modules().values())}
    assert unused == set()


def test_names_are_read_from_calls_and_from_what_passes_them_on() -> None:
    module = read(
        """
class A:
    def one(self, connection, name):
        return connection.execute(query("llm", name))

    def two(self):
        query("links", "counts")
        statements("audit")
        return self.one(connection, "replies")
"""
    )
    assert module.files == {"llm", "links", "audit"}
    assert module.named == {("links", "counts"), ("llm", "replies")}
