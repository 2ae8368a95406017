"""The object store that the setting `tables` names, opened by its address."""

from __future__ import annotations

import os

from resources.clouds import connect
from resources.clouds.bucket import Refused, Unusable, require_https
from resources.object_store.objects import PATIENCE, ObjectStore, refused_rights, unusable


def open_store(address: str, patience: float = PATIENCE) -> ObjectStore:
    """Return the store at a checked address. No request is sent yet. A request fails after `patience` seconds of
    pauses.

    Raise SettingsError, IndexStateError (`credentials`, `store`).
    """
    if address.startswith("file:"):
        from resources.object_store import folder

        return ObjectStore(folder.connect(address), patience)
    endpoint = ""
    if address.startswith("az:") and (named := require_https("AZURE_STORAGE_ENDPOINT", "tables")):
        endpoint = f"{named}/{os.environ.get('AZURE_STORAGE_ACCOUNT', '')}"
    try:
        return ObjectStore(connect(address, "tables", writes=True, endpoint=endpoint), patience)
    except Refused as error:
        raise refused_rights(address, error) from None
    except Unusable as error:
        raise unusable(address, str(error), error.remedy) from None
