"""resources/threads.py: order, no more than one thing of each reader ahead, and errors of what is read."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from resources.stages.sentence_links import READERS, read_ahead


@pytest.mark.parametrize("count", range(6))
def test_one_thing_of_each_key_comes_in_the_order_of_keys(count: int) -> None:
    assert list(read_ahead(range(count), lambda key: iter([key]))) == list(range(count))


def test_all_of_keys_that_have_many_or_none_comes_once() -> None:
    sizes = [3, 0, 0, 5, 1, 0, 2]
    found = list(read_ahead(range(len(sizes)), lambda key: iter([(key, n) for n in range(sizes[key])])))
    assert sorted(found) == [(key, n) for key, size in enumerate(sizes) for n in range(size)]
    for key in range(len(sizes)):
        assert [n for other, n in found if other == key] == list(range(sizes[key]))


def test_no_more_than_one_thing_of_each_reader_is_ahead() -> None:
    read, lock = list[int](), threading.Lock()

    def noted(key: int) -> Iterator[int]:
        with lock:
            read.append(key)
        yield key

    for taken, _ in enumerate(read_ahead(range(50), noted), start=1):
        assert len(read) <= taken + READERS


def test_an_error_while_reading_is_raised_and_no_reader_is_left() -> None:
    def broken(key: int) -> Iterator[int]:
        if key == 3:
            raise OSError("gone")
        yield key

    before, found = threading.active_count(), list[int]()
    with pytest.raises(OSError, match="gone"):
        found.extend(read_ahead(range(9), broken))
    assert found == [0, 1, 2]
    assert threading.active_count() == before
