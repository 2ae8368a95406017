"""The locks of runs: which runs may work on a state at the same time, and what each may write.

A run over the whole corpus is alone; runs over some buckets each may work at the same time. Both hold an advisory lock,
exclusive or shared, until they or their connection end, even if the process is still alive. So every run also has a
number, a fencing token (Kleppmann, How to do distributed locking, 2016). A table stores the token of the run for each
thing that it may write, and writing transactions lock that row for share: a newer token stops the run, and a newer run
waits for the transactions in progress.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError
from resources.postgres.statements import query
from resources.processes import is_gone

if TYPE_CHECKING:
    import psycopg

ENDS_WITHIN = 5.0
"""Seconds within which the server notices that a client was killed and releases its locks."""
ALL = -1
"""Number in place of a bucket's for all that belongs to no bucket: generations, statistics, the pointer to the live
one."""
MOST_BUCKETS = 64
_NAMED = 3

Waiting = Callable[[str], None]
"""A callback that is called once with the holders of the awaited lock."""


def lock_key(name: str) -> int:
    """Return the key of a name's advisory lock: a positive 63-bit number."""
    return int.from_bytes(hashlib.blake2b(f"pincite {name}".encode(), digest_size=8).digest()) >> 1


def _division_number(count: int) -> int:
    """Return the number, in place of a bucket's, for runs that divide the documents into `count` buckets."""
    return ALL - count


@dataclass(frozen=True, slots=True)
class Fence:
    """The permission to write for the run with this token: everything, or only `buckets` of `count` buckets.

    With another number of buckets, the same documents are in other buckets. So a newer run with another number takes
    over everything from runs of some buckets. `count` is 0 if there is no number.
    """

    name: str
    token: int
    buckets: frozenset[int] | None = None
    count: int = 0

    def require(self, connection: psycopg.Connection[Any], bucket: int | None = None) -> None:
        """Prevent newer runs from writing this bucket, or the data outside buckets, until the transaction ends.

        Raises IndexStateError: `lock_lost` if a newer run may now write there, `not_held` if this run was never allowed
        to.
        """
        if self.buckets is not None and bucket not in self.buckets:
            what = "what belongs to the whole corpus" if bucket is None else f"bucket {bucket:02d}"
            told = ", ".join(f"{at:02d}" for at in sorted(self.buckets))
            raise IndexStateError(
                f"the {self.name} run of buckets {told} may not write {what}, since others may be working on it; "
                "materialise it in a separate run",
                "not_held",
            )
        others = (
            [_division_number(count) for count in range(1, MOST_BUCKETS + 1) if count != self.count]
            if self.count
            else []
        )
        values = {"name": self.name, "buckets": None if bucket is None else [ALL, bucket, *others]}
        found = dict(connection.execute(query("session", "run_tokens"), values).fetchall())
        own = ALL if self.buckets is None else bucket
        if found.get(own) != self.token or any(token > self.token for token in found.values()):
            raise IndexStateError(
                f"a newer run now writes the same data as this {self.name} run: its connection with the lock broke, or "
                "the newer run took over its buckets; nothing more was written, run it again",
                "lock_lost",
            )


def begin(
    connection: psycopg.Connection[Any],
    name: str,
    buckets: Sequence[int] | None = None,
    run_id: str = "",
    count: int = 0,
) -> Fence:
    """Begin a run of these buckets, of `count`, or of all if no buckets are named. Earlier runs may then no longer
    write them."""
    token = int(_one(connection, "next_run")[0])
    taken = [ALL] if buckets is None else sorted([*buckets, *([_division_number(count)] if count else [])])
    values = {"name": name, "token": token, "buckets": taken, "run_id": run_id}
    connection.execute(query("session", "begin_run"), values)
    return Fence(name, token, None if buckets is None else frozenset(buckets), count)


def lock(
    connection: psycopg.Connection[Any], name: str, wait_seconds: float, waiting: Waiting, shared: bool = False
) -> None:
    """Take the lock of a name, `shared` or exclusive, until the connection ends. A run that waits for the exclusive
    lock comes before later ones that want to share it: those wait at a gate.

    Raises IndexStateError (`busy`) naming the holders if the lock is not free within `wait_seconds`.
    """
    began, told, passed = time.monotonic(), False, False
    gate, key = {"key": lock_key(f"{name}, next")}, {"key": lock_key(name)}
    ask, leave = ("try_shared_lock", "unlock_shared") if shared else ("try_lock", "unlock")
    try:
        while True:
            passed = passed or bool(_one(connection, ask, gate)[0])
            if passed and _one(connection, ask, key)[0]:
                return
            busy, ends = _busy(connection, name)
            wait = max(wait_seconds, ENDS_WITHIN if ends else 0.0)
            if time.monotonic() - began >= wait:
                raise IndexStateError(f"{busy}; wait for it to end", "busy")
            if wait_seconds and not told:
                waiting(busy)
                told = True
            time.sleep(min(0.1, wait))
    finally:
        if passed and not connection.closed:
            connection.execute(query("session", leave), gate)


def unlock(connection: psycopg.Connection[Any], name: str, shared: bool = False) -> None:
    """Release the lock of a name, unless the connection broke. If the lock were not released here, the server might
    notice the closed connection late, and the next run would find the lock taken."""
    import psycopg

    with suppress(psycopg.Error):
        connection.execute(query("session", "unlock_shared" if shared else "unlock"), {"key": lock_key(name)})


def _busy(connection: psycopg.Connection[Any], name: str) -> tuple[str, bool]:
    """Return the holders of a name's lock, and whether it will soon be free: nobody holds it any more, or the holders'
    processes no longer run on this machine."""
    holders: list[tuple[str, int]] = []
    for lock_name in (name, f"{name}, next"):
        values = {"key": lock_key(lock_name)}
        holders += connection.execute(query("session", "lock_holders"), values).fetchall()
        if holders:
            break
    numbers = [re.search(r"process (\d+)$", holder[0]) for holder in holders]
    told = ", ".join(f"{holder[0]}; backend {holder[1]}" for holder in holders[:_NAMED])
    more = f", and {len(holders) - _NAMED} more" if len(holders) > _NAMED else ""
    newest = connection.execute(query("session", "newest_run"), {"name": name}).fetchone()
    more += f"; run {newest[0]}" if newest and newest[0] else ""
    busy = f"another {name} run is in progress" + (f" ({told}{more})" if told else "")
    return busy, all(number is not None and is_gone(int(number[1])) for number in numbers)


def _one(connection: psycopg.Connection[Any], name: str, values: dict[str, Any] | None = None) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = connection.execute(query("session", name), values).fetchone()
    assert row is not None, name
    return row
