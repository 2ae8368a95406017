"""Names of what was not read, as a warning tells them."""

from __future__ import annotations

from collections.abc import Sequence

MOST_NAMED = 6


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
