"""What a run notes on disk."""

from __future__ import annotations

import gc
import os
import resource
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import SourceError
from resources.sources.sorted_spool import SortedSpool, TextSet, windows

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(NAMES), NAMES)
def test_a_set_of_texts_is_one(texts: list[str], other: str) -> None:
    found = TextSet(texts)
    assert list(found) == sorted(set(texts)), "in order of code points, whatever is in them"
    assert len(found) == len(set(texts))
    assert all(text in found for text in texts)
    assert (other in found) is (other in texts)
    assert None not in found


def test_it_may_be_asked_while_it_is_gone_through() -> None:
    found = TextSet(map(str, range(5000)))
    assert sum(text in found for text in found) == 5000


def files_without_a_name() -> list[str]:
    """Those of SQLite that this process has open."""
    own = Path("/proc/self/fd")
    found = [os.readlink(own / name) for name in os.listdir(own) if (own / name).is_symlink()]
    return [name for name in found if "etilqs" in name and name.endswith("(deleted)")]


def test_much_is_on_disk_in_a_file_without_a_name_until_nobody_has_it() -> None:
    gc.collect()
    others, before = len(files_without_a_name()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = TextSet(f"{number:0200d}" for number in range(400_000))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 40_000, "of some 90 MB no more than the cache is in memory"
    assert len(files_without_a_name()) == others + 1, "nothing is left where the process is killed"
    assert f"{399_999:0200d}" in found
    del found
    gc.collect()
    assert len(files_without_a_name()) == others


def test_a_full_disk_names_the_remedy(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    found = TextSet()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(SourceError, match=r"folder of temporary files: .*set TMPDIR") as caught:
            found.update(f"{number:0200d}" for number in range(400_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.code == "disk"


def test_an_error_of_what_is_written_is_its_own() -> None:
    def names() -> Iterator[str]:
        yield "a"
        raise sqlite3.OperationalError("of another database")

    with pytest.raises(sqlite3.OperationalError, match="another"):
        TextSet(names())


@given(st.lists(st.integers(), max_size=30), st.integers(1, 7))
def test_windows_have_all_once_in_order(values: list[int], size: int) -> None:
    found = list(windows(values, size))
    assert [value for window in found for value in window] == values
    assert all(len(window) == size for window in found[:-1]) and all(found)


def test_contents_that_are_new_stand_for_as_many_that_are_gone() -> None:
    notes = SortedSpool("gone", "fresh")
    notes.write("add_gone", [("a", "x"), ("a", "x"), ("b", "x"), ("b", "y"), ("c", "z")])
    assert dict(notes.run("gone_by_source")) == {"a": 2, "b": 2, "c": 1}
    notes.write("add_fresh", [("x",), ("x",), ("z",), ("z",), ("w",)])
    found = dict(notes.run("gone_by_source"))
    assert sum(found.values()) == 2, "one x and the y"
    assert found["b"] >= 1 and "c" not in found
