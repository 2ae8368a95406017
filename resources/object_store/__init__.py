"""The object store that the setting `tables` names, opened by its address."""

from __future__ import annotations

from resources.object_store.objects import PATIENCE, ObjectStore


def open_store(address: str, patience: float = PATIENCE) -> ObjectStore:
    """By its address, as the settings have checked it. Nothing is asked of it yet; it is given up after `patience`
    seconds of pauses.

    Raises SettingsError, IndexStateError (`credentials`, `store`)."""
    scheme = address.partition(":")[0]
    if scheme == "s3":
        from resources.object_store import s3

        return ObjectStore(s3.connect(address), patience)
    if scheme == "file":
        from resources.object_store import folder

        return ObjectStore(folder.connect(address), patience)
    from resources.object_store import arrow

    return ObjectStore(arrow.connect(address), patience)
