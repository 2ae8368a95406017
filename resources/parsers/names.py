"""Names of what was not read, as a warning tells them: the file chose them, in number and length."""

from __future__ import annotations

from collections.abc import Sequence

MOST_NAMED, LONGEST = 6, 200


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(map(shortened, names[:MOST_NAMED])) + more


def shortened(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}…"
