"""Which runs may work on a state at once, and what each of them may still write.

A run that concerns the whole corpus is alone; runs of some buckets each go on beside each other. Both hold an advisory
lock, exclusive or shared, for as long as their connection lasts, whether or not their process still does. So every run
has a number too, a fencing token (Kleppmann, How to do distributed locking, 2016), which stands in a table for all that
it may write, and which its writing transactions lock for share: where a newer one stands it is refused, and a newer run
waits for the transactions under way.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError
from resources.postgres.statements import query
from resources.processes import is_gone

if TYPE_CHECKING:
    import psycopg

ENDS_WITHIN = 5.0
"""Seconds after which the server has seen that a client of its was killed, and let go what that one held."""
ALL = -1
"""The number, in place of a bucket's, of what belongs to none: generations, statistics, the pointer to the live one."""
_NAMED = 3

Waiting = Callable[[str], None]
"""Told once who has the lock that is waited for."""


def lock_key(name: str) -> int:
    """The advisory lock of a name: a positive 63-bit number."""
    return int.from_bytes(hashlib.blake2b(f"pincite {name}".encode(), digest_size=8).digest()) >> 1


@dataclass(frozen=True, slots=True)
class Fence:
    """What the run with this token may write: all, or only `buckets`."""

    name: str
    token: int
    buckets: frozenset[int] | None = None

    def require(self, connection: psycopg.Connection[Any], bucket: int | None = None) -> None:
        """What the transaction writes, of one bucket or of none, no newer run may write before it ends.

        Raises IndexStateError: `lock_lost` where one may by now, `not_held` where that was never this run's."""
        if self.buckets is not None and bucket not in self.buckets:
            what = "what belongs to the whole corpus" if bucket is None else f"bucket {bucket:02d}"
            told = ", ".join(f"{at:02d}" for at in sorted(self.buckets))
            raise IndexStateError(
                f"this {self.name} run of buckets {told} may not write {what}, which others may be working on; "
                "materialise that in a run of its own",
                "not_held",
            )
        values = {"name": self.name, "buckets": None if bucket is None else [ALL, bucket]}
        found = dict(connection.execute(query("session", "run_tokens"), values).fetchall())
        own = ALL if self.buckets is None else bucket
        if found.get(own) != self.token or any(token > self.token for token in found.values()):
            raise IndexStateError(
                f"another run has begun since that writes what this {self.name} run does: its connection with the lock "
                "broke, or the newer one took over its buckets; nothing more was written, run it again",
                "lock_lost",
            )


def begin(
    connection: psycopg.Connection[Any], name: str, buckets: Sequence[int] | None = None, run_id: str = ""
) -> Fence:
    """A new run of these buckets, of all where none are named; earlier ones may not write them any more."""
    token = int(_one(connection, "next_run")[0])
    taken = [ALL] if buckets is None else sorted(buckets)
    values = {"name": name, "token": token, "buckets": taken, "run_id": run_id}
    connection.execute(query("session", "begin_run"), values)
    return Fence(name, token, None if buckets is None else frozenset(buckets))


def lock(
    connection: psycopg.Connection[Any], name: str, wait_seconds: float, waiting: Waiting, shared: bool = False
) -> None:
    """Takes the lock of a name, `shared` or alone, until the connection ends. Who waits to be alone comes before those
    who ask later to share it: they wait at a gate.

    Raises IndexStateError (`busy`) naming the holders when it is not free within `wait_seconds`."""
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


def _busy(connection: psycopg.Connection[Any], name: str) -> tuple[str, bool]:
    """Who has the lock of a name, and whether it is about to be free: nobody has it any more, or the holders'
    processes are none of this machine."""
    holders: list[tuple[str, int]] = []
    for lock_name in (name, f"{name}, next"):
        values = {"key": lock_key(lock_name)}
        holders += connection.execute(query("session", "lock_holders"), values).fetchall()
        if holders:
            break
    numbers = [re.search(r"process (\d+)$", holder[0]) for holder in holders]
    told = ", ".join(f"{holder[0]}; backend {holder[1]}" for holder in holders[:_NAMED])
    more = f", and {len(holders) - _NAMED} more" if len(holders) > _NAMED else ""
    busy = f"another {name} run is in progress" + (f" ({told}{more})" if told else "")
    return busy, all(number is not None and is_gone(int(number[1])) for number in numbers)


def _one(connection: psycopg.Connection[Any], name: str, values: dict[str, Any] | None = None) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = connection.execute(query("session", name), values).fetchone()
    assert row is not None, name
    return row
