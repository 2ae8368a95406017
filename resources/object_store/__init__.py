"""The object store that the setting `tables` names, opened by its address."""

from __future__ import annotations

from resources.clouds.bucket import Unusable
from resources.object_store.objects import PATIENCE, ObjectStore, unusable


def open_store(address: str, patience: float = PATIENCE) -> ObjectStore:
    """Return the store at an address that the settings have checked. Nothing is asked of it yet. A request fails after
    `patience` seconds of pauses.

    Raise SettingsError, IndexStateError (`credentials`, `store`)."""
    scheme = address.partition(":")[0]
    if scheme == "s3":
        from resources.clouds import s3

        try:
            return ObjectStore(s3.connect(address, "tables", writes=True), patience)
        except Unusable as error:
            raise unusable(address, str(error), error.remedy) from None
    if scheme == "file":
        from resources.object_store import folder

        return ObjectStore(folder.connect(address), patience)
    from resources.object_store import arrow

    return ObjectStore(arrow.connect(address), patience)
