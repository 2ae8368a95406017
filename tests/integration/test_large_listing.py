"""A bucket of many objects is listed in pages, and no more of it is held than of one of few."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.places import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.faults]
FEW, MANY = 20_000, 150_000
MOST = 16
"""MB; 130,000 entries that are held are over 30."""


def peaks(objects: int) -> dict[str, int]:
    """MB by what was done, of a process of its own."""
    command = [sys.executable, "benchmarks/sources.py", "--large", str(objects)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {name.strip(): int(peak) for name, peak in re.findall(r"^(.{26}).*peak +(\d+) MB$", told, re.MULTILINE)}


def test_memory_use_of_a_listing_does_not_grow_with_its_size() -> None:
    few, many = peaks(FEW), peaks(MANY)
    for done in ("listed", "found unchanged"):
        assert many[done] < few[done] + MOST, done
