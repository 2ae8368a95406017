"""Where tables and raw files of many machines stand: the address of an object store."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

STORES = ("s3", "gs", "az", "file")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_PART = re.compile(r"[\w .,=+@-]+")
_FORMS = "write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER, or leave it out"


def checked_address(address: str) -> str:
    """The address without a slash at its end. Raises ValueError, which repeats no secret: an address is shown."""
    try:
        parts = urlsplit(address)
    except ValueError:
        raise ValueError(f"not an address: {_FORMS}") from None
    if parts.scheme not in STORES or not address.startswith(f"{parts.scheme}://"):
        raise ValueError(f"no store is reached so: {_FORMS}")
    if "@" in parts.netloc or "?" in address or "#" in address:
        raise ValueError("an address alone, since it is shown: credentials and endpoints come from the environment")
    names = parts.path.strip("/").split("/")
    if parts.scheme == "file" and (parts.netloc or names == [""]):
        raise ValueError("the path of a folder is absolute: write file:///FOLDER")
    if parts.scheme != "file" and not _BUCKET.fullmatch(parts.netloc):
        raise ValueError(f"no bucket of such a name can be: {_FORMS}")
    plain = names == [""] or all(_PART.fullmatch(name) and name.strip(".") for name in names)
    if not (plain and address.isprintable()):
        raise ValueError(
            "the parts of its path have letters, digits, spaces and _.,=+@- alone, and none is empty or dots"
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
