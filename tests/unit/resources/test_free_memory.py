"""resources/free_memory.py: what a process has freed is the machine's again."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import re
from pathlib import Path
from resources.free_memory import give_back

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

give_back()
before, kept = resident(), []
made = [bytearray(50_000) for _ in range(4_000)]
kept, made = made[::100], None  # what stays lies between what is free
held = resident()
give_back()
print(before, held, resident())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_free_memory_is_given_back() -> None:
    told = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout
    before, held, after = map(int, told.split())
    assert held - before > 150_000
    assert after - before < 30_000
