"""A bucket of many objects is listed in pages, and no more of it is held than of one of few."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.places import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.faults]
FEW, MANY = 5_000, 60_000
MOST = 12
"""MB. SQLite's caches fill and are 5 to 7; 55,000 entries that are held are 14 more."""


def test_memory_use_of_a_listing_does_not_grow_with_its_size() -> None:
    """One process lists both, the small bucket first, so that what it needs for any listing stands before."""
    command = [sys.executable, "benchmarks/sources.py", "--large", str(FEW), str(MANY)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for done in ("listed", "found unchanged"):
        few, many = map(int, re.findall(rf"^{done:26}.*peak +(\d+) MB$", told, re.MULTILINE))
        assert many < few + MOST, done
