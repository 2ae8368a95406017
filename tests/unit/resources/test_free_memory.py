"""resources/memory.py: what a process has freed is the machine's again."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from resources.child_process import child_environment

SCRIPT = """
import re
from pathlib import Path
from resources.memory import give_back

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


THREADS = """
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from resources.memory import give_back, one_heap

{begin}
import pyarrow as pa

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

def work(number):
    made = [bytearray(50_000) for _ in range(1_000)]
    barrier.wait()

import threading
barrier = threading.Barrier(3)
del bytearray(30 << 20)[:]  # glibc keeps as much free from then on
give_back()
before = resident()
with ThreadPoolExecutor(3) as threads:
    list(threads.map(work, range(3)))
give_back()
print(resident() - before, pa.default_memory_pool().backend_name)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_with_one_heap_what_threads_have_freed_is_given_back_too() -> None:
    def kept(begin: str) -> tuple[int, str]:
        command = [sys.executable, "-c", THREADS.format(begin=begin)]
        kilobytes, pool = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        return int(kilobytes), pool

    assert kept("")[0] > 60_000, "or this shows nothing"
    kilobytes, pool = kept("one_heap()")
    assert kilobytes < 20_000 and pool == "system"


FIRST_TABLE = """
from pathlib import Path
import pyarrow as pa

def pages():
    return int(Path("/proc/self/statm").read_text().split()[0])

before = pages()
pa.array(["a"])
print(pages() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_a_first_table_in_a_child_takes_no_address_space_of_a_document() -> None:
    def megabytes(pool: str) -> int:
        told = {**child_environment(), **({"ARROW_DEFAULT_MEMORY_POOL": pool} if pool else {})}
        done = subprocess.run([sys.executable, "-c", FIRST_TABLE], env=told, capture_output=True, text=True, check=True)
        return int(done.stdout) * os.sysconf("SC_PAGE_SIZE") >> 20

    assert megabytes("mimalloc") > 1000, "or this shows nothing"
    assert megabytes("") < 70
