"""What pincite finds of the object store that the settings name: whether it takes, lists, gives and deletes."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing

from pipelines.settings.base import Settings
from resources.object_store.objects import open_store
from resources.reports.doctor.finding import Finding, broken, ok

PATIENCE = 3.0
"""Seconds of pauses: a person waits."""


def store(settings: Settings) -> Iterator[Finding]:
    if settings.tables is None:
        return
    key, told = f"doctor/{secrets.token_hex(8)}", secrets.token_bytes(64)
    with closing(open_store(settings.tables, PATIENCE)) as opened:
        opened.put(key, told)
        try:
            listed, given = opened.size(key), opened.read(key, 0, len(told))
        finally:
            opened.delete([key])
        left = opened.size(key)
    if listed != len(told) or given != told:
        yield broken("store", f"{settings.tables} gives other bytes than were written",
                     "see what stands between: a cache, a proxy, or another server behind the endpoint")  # fmt: skip
    elif left is not None:
        yield broken("store", f"{settings.tables} keeps what was deleted", "give the right to delete below that prefix")
    else:
        yield ok("store", f"{settings.tables} takes, lists, gives and deletes an object")
