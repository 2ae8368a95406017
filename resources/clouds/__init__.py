"""Clients for the buckets of clouds, one for each cloud, chosen by the scheme of an address."""

from __future__ import annotations

from typing import Any

from resources.clouds.bucket import Bucket

CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`, or the machine's account",
    "az": "AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, `az login`, or an identity that has the role Storage Blob Data "
    "Reader (Storage Blob Data Contributor to write)",
}
"""The places of credentials, for messages."""
OPTIONS = {"s3": ("endpoint", "region"), "gs": ("endpoint",), "az": ("account", "endpoint")}
"""Options of `connect` for each scheme."""


def connect(address: str, owner: str, *, anonymous: bool = False, writes: bool = False, **options: str) -> Bucket:
    """Return the bucket SCHEME://BUCKET/PREFIX. No request is sent yet. `owner` begins the message of a SettingsError.
    The options depend on the scheme; "" means that an option is not set.

    Raise SettingsError, Refused, Unusable.
    """
    given: dict[str, Any] = {**options, "anonymous": anonymous, "writes": writes}
    if address.startswith("s3:"):
        from resources.clouds import s3

        return s3.connect(address, owner, **given)
    if address.startswith("az:"):
        from resources.clouds import azure

        return azure.connect(address, owner, **given)
    from resources.clouds import google

    return google.connect(address, owner, **given)
