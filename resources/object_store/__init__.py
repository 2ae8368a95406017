"""The object store that the setting `tables` names, opened by its address."""

from __future__ import annotations

from resources.object_store.objects import PATIENCE, ObjectStore


def open_store(address: str, patience: float = PATIENCE) -> ObjectStore:
    """Return the store at an address that the settings have checked. Nothing is asked of it yet. A request fails after
    `patience` seconds of pauses.

    Raise SettingsError, IndexStateError (`credentials`, `store`)."""
    scheme = address.partition(":")[0]
    if scheme == "s3":
        from resources.object_store import s3

        return ObjectStore(s3.connect(address), patience)
    if scheme == "file":
        from resources.object_store import folder

        return ObjectStore(folder.connect(address), patience)
    from resources.object_store import arrow

    return ObjectStore(arrow.connect(address), patience)
