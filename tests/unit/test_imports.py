"""How the project's modules import one another; import-linter holds the layers."""

from __future__ import annotations

import ast
import re
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


# ---------------------------------------------------------------- private parts of Dagster

_BACKFILL = "dagster._core.execution.backfill"
PRIVATE_DAGSTER = {
    "resources/dagster_instance/backfills.py": {
        f"{_BACKFILL}.{name}" for name in ("BulkActionsFilter", "BulkActionStatus", "PartitionBackfill")
    },
    "resources/dagster_instance/storage.py": {
        "dagster._core.instance.ref.InstanceRef",
        "dagster._core.storage.event_log.SqliteEventLogStorage",
        "dagster._core.storage.runs.SqliteRunStorage",
        "dagster._core.storage.sqlite_storage.DagsterSqliteStorage",
        "dagster._serdes.ConfigurableClassData",
    },
    "resources/dagster_instance/run_history.py": {"dagster._core.events.StepMaterializationData"},
    "resources/dagster_instance/home.py": {"dagster._core.storage.noop_compute_log_manager"},
    "pincite/ui/services.py": {"dagster._daemon"},
}
"""Private names of Dagster that have no public one, by file, where the reason is. Take names out, and never add one."""
_PRIVATE = re.compile(r"\bdagster(?:_\w+)?\._[\w.]*\w")


def private_dagster(tree: ast.AST) -> Iterator[str]:
    """Yield Dagster's private modules, and private parts of its public ones, that are imported or named in a text."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        above = f"{node.module}." if isinstance(node, ast.ImportFrom) and node.module else ""
        yield from (name for name in (f"{above}{name}" for name in names) if _PRIVATE.match(name))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _PRIVATE.findall(node.value)


def test_no_more_is_taken_of_private_dagster() -> None:
    texts = {file: file.read_text() for top in PACKAGES for file in (ROOT / top).rglob("*.py")}
    found = {file: set(private_dagster(ast.parse(text))) for file, text in texts.items() if "dagster" in text}
    assert {file.relative_to(ROOT).as_posix(): names for file, names in found.items() if names} == PRIVATE_DAGSTER


# ---------------------------------------------------------------- doors of packages

OPEN = {"pincite.text", "resources.generations"}
"""Packages of which every module is a door."""
DOORS = 75
"""Modules that other packages may import. Lower it with the contracts, and never raise it."""
EXCEPTIONS = 59
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
