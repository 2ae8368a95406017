"""How the project's modules import one another; import-linter holds the layers."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

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
