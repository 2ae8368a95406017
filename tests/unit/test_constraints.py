"""constraints.txt names a version of all that pincite runs on: any of it may face the network or read hostile bytes."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.places import ROOT

EXTRAS = frozenset({"gs", "az", "mcp", "formats", "codes"})
"""Those that are installed with `dev`, and bring what reads documents or asks servers."""


def running() -> dict[str, str]:
    """Return the versions of all distributions that pincite needs to run, as they are installed."""
    found, pending, seen = dict[str, str](), [("pincite", EXTRAS)], set[tuple[str, frozenset[str]]]()
    while pending:
        name, extras = asked = pending.pop()
        if asked in seen:
            continue
        seen.add(asked)
        try:
            installed = distribution(name)
        except PackageNotFoundError:  # for another system
            continue
        found[name] = installed.version
        for requirement in map(Requirement, installed.requires or ()):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
                pending.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    del found["pincite"]
    return found


def test_all_that_pincite_runs_on_has_a_version() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    rows = [re.fullmatch(r"([\w.-]+)==([\w.+!-]+)", line) for line in lines if not line.startswith("#")]
    told: dict[str, str] = {canonicalize_name(row[1]): row[2] for row in rows if row}
    assert len(told) == len(rows) and len(running()) > 150
    versions = {name: (version.partition("+")[0], told.get(name)) for name, version in running().items()}
    assert {name: pair for name, pair in versions.items() if pair[0] != pair[1]} == {}
