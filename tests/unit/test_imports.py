"""How the project's modules import one another; import-linter holds the layers."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Any

import grimp
import pytest

from tests.support.places import ROOT

PACKAGES = ("pincite", "assets", "resources", "pipelines")


def test_no_modules_import_one_another_in_a_circle() -> None:
    """Imports for type checking count too: who must be read to understand a module is what they tell."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imported = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert len(imported) > 250
    try:
        tuple(TopologicalSorter(imported).static_order())
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(error.args[1])}")


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_writes_into_the_attributes_of_another_object(package: str) -> None:
    """What stands in for a part is given when it is made."""
    poked = [path for path in (ROOT / package).rglob("*.py") if "__dict__" in path.read_text(encoding="utf-8")]
    assert poked == []


# ---------------------------------------------------------------- doors of packages

OPEN = {"pincite.text", "resources.generations"}
"""Packages of which every module is a door."""
DOORS = 76
"""Modules that other packages may import. Lower it with the contracts, and never raise it."""
EXCEPTIONS = 60
"""Imports that go round a door. Lower it with the contracts, and never raise it."""


@cache
def protected() -> Mapping[str, Mapping[str, Any]]:
    """Return the contracts that protect a package's modules, by package."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return {each["name"].split(" ", 1)[0]: each for each in contracts if each["type"] == "protected"}


def packages() -> Iterator[tuple[str, set[str]]]:
    """Yield each package of resources and pincite with its modules."""
    for top in ("pincite", "resources"):
        for folder in sorted(path for path in (ROOT / top).iterdir() if path.is_dir()):
            files = (path for path in folder.rglob("*.py") if path.name != "__init__.py")
            found = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files}
            if found:
                yield f"{top}.{folder.name}", found


def test_every_package_has_doors_and_hides_the_rest() -> None:
    doors = 0
    for package, modules in packages():
        hidden = set(protected()[package]["protected_modules"]) if package in protected() else set()
        assert (hidden == set()) == (package in OPEN), package
        assert hidden <= modules, f"{package}: {hidden - modules} is not there"
        doors += len(modules - hidden)
    assert doors == DOORS, "lower DOORS with the contracts, and never raise it"


def test_imports_that_go_round_a_door_become_fewer() -> None:
    """import-linter itself refuses an exception that nothing needs."""
    found = [each for contract in protected().values() for each in contract.get("ignore_imports", ())]
    assert len(found) == EXCEPTIONS, "lower EXCEPTIONS with the contracts, and never raise it"
