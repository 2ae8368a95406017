"""Reading by threads of its own while what was read is worked on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K")

READERS = 2


def read_ahead(keys: Sequence[K], read: Callable[[K], Iterator[T]]) -> Iterator[T]:
    """What `read` gives of the keys, none of it None: by READERS threads in turn, of which each has the next of every
    READERS-th key and reads one thing ahead. Where `read` gives one thing of a key, they come in the order of keys."""

    def of_turn(first: int) -> Iterator[T]:
        for key in keys[first::READERS]:
            yield from read(key)

    with ThreadPoolExecutor(READERS) as readers:
        turns = deque((turn, readers.submit(next, turn, None)) for turn in map(of_turn, range(READERS)))
        while turns:
            turn, ahead = turns.popleft()
            if (found := ahead.result()) is not None:
                turns.append((turn, readers.submit(next, turn, None)))
                yield found
