from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from resources.object_store.objects import LocalCache


def put(cache: LocalCache, name: str, size: int) -> Path:
    fresh = cache.fresh()
    fresh.write_bytes(bytes(size))
    return cache.put(name, fresh)


def test_a_cached_file_is_found_by_every_process(tmp_path: Path) -> None:
    path = put(LocalCache(tmp_path, 100), "ab12", 10)
    again = LocalCache(tmp_path, 100)
    assert again.find("ab12") == path and path.stat().st_size == 10
    assert again.find("ab13") is None
    again.drop("ab12")
    again.drop("ab12")
    assert again.find("ab12") is None


def test_the_least_recently_used_file_is_evicted_first(tmp_path: Path) -> None:
    cache = LocalCache(tmp_path, 100)
    for number, name in enumerate(("a1", "a2", "a3")):
        os.utime(put(cache, name, 30), ns=(number, number))
    assert cache.find("a1")
    put(cache, "a4", 30)
    assert [name for name in ("a1", "a2", "a3", "a4") if cache.find(name)] == ["a1", "a4"], "down to four fifths"


def test_a_file_larger_than_the_whole_cache_stays_until_the_next_is_put(tmp_path: Path) -> None:
    cache = LocalCache(tmp_path, 100)
    put(cache, "a1", 50)
    assert put(cache, "a2", 500).exists() and not cache.find("a1")
    put(cache, "a3", 10)
    assert not cache.find("a2") and cache.find("a3")


@pytest.mark.parametrize("folder", [False, True])
def test_a_half_fetched_file_of_a_killed_process_is_deleted_when_room_is_made(tmp_path: Path, folder: bool) -> None:
    cache = LocalCache(tmp_path, 100)
    left, going_on = cache.fresh(), cache.fresh()
    left.mkdir() if folder else left.write_bytes(b"half")
    going_on.write_bytes(b"half")
    long_ago = time.time() - 7 * 3600
    os.utime(left, (long_ago, long_ago))
    put(LocalCache(tmp_path, 100), "a1", 1)
    assert not left.exists() and going_on.exists()


def test_a_look_at_a_copy_leaves_its_time_of_change(tmp_path: Path) -> None:
    cache = LocalCache(tmp_path, 100)
    path = put(cache, "a1", 1)
    os.utime(path, ns=(5, 5))
    cache.find("a1")
    assert path.stat().st_mtime_ns == 5 < path.stat().st_atime_ns
