"""How much memory processes take while they run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def tree_memory(pid: int, under: bool = True, but: Collection[int] = ()) -> int:
    """Bytes of private and proportional memory of a process and all under it, but for these and what is under them."""
    total, waiting = 0, [pid]
    while waiting:
        process = waiting.pop()
        try:
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
            for task in Path(f"/proc/{process}/task").iterdir() if under else ():
                children = map(int, (task / "children").read_text().split())
                waiting += [child for child in children if child not in but]
        except (OSError, ValueError):
            continue
    return total


@contextmanager
def peaks(look: Callable[[], Mapping[str, int]] | None, seconds: float) -> Iterator[dict[str, int]]:
    """The most of each of the numbers that `look` gives, which is called every so many seconds until the end;
    nothing where there is none."""
    most: dict[str, int] = {}
    if look is None:
        yield most
        return
    over = threading.Event()

    def watch() -> None:
        while not over.wait(seconds):
            for name, value in look().items():
                most[name] = max(most.get(name, 0), value)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        over.set()
        watcher.join()
