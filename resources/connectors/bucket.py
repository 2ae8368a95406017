"""Buckets of S3, and of servers that speak like it, by botocore, which follows no redirects to other hosts.

Credentials are those that boto3 finds: the environment, ~/.aws, the machine's role.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from typing import Any

from pipelines.errors import DocumentError, SourceError
from resources.connectors.bucket_address import broken_off, entries_of, is_anonymous, place_of, whole
from resources.connectors.source import READING_SECONDS, Address, Entry, fault, options_of
from resources.http_client import CONNECTS, SILENCE, allowed, botocore_session, said

ATTEMPTS = 4
"""Tries of each request, since the server may be busy or fail for a moment."""
_AT_ONCE = 16
_SIGNED = 900
"""Seconds for which a signed address is valid. It is used at once, but clocks differ."""
_PIECE = 1 << 20
_REMEDY = "Give credentials that may read it: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile"
_REFUSED = frozenset(
    {"AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch", "403"}
)
_GONE = frozenset({"NoSuchKey", "404", "PreconditionFailed", "412"})


def connect(address: Address) -> BucketSource:
    """Return the source of an address.

    Options: `endpoint` (a server that speaks S3), `region`, `anonymous` (true for a public bucket)."""
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.session import Session
    from botocore.utils import get_environ_proxies

    options = options_of(address, endpoint=None, region=None, anonymous="false")
    place, anonymous = place_of(address), is_anonymous(address, options)
    config = Config(
        connect_timeout=CONNECTS,
        read_timeout=SILENCE,
        retries={"mode": "standard", "max_attempts": ATTEMPTS},
        max_pool_connections=_AT_ONCE,
        signature_version=UNSIGNED if anonymous else "s3v4",
    )
    given = {"endpoint_url": options["endpoint"] or None, "region_name": options["region"] or None}
    try:
        session = Session()
        client = session.create_client("s3", config=config, **given)
        direct = botocore_session(
            verify=session.get_config_variable("ca_bundle") or True,
            proxies=get_environ_proxies(client.meta.endpoint_url),
            max_pool_connections=_AT_ONCE,
        )
        client.meta.events.register("before-send.s3", lambda request, **_: direct.send(request))
    except Exception as error:  # botocore's errors for an endpoint, region or settings file have no common base
        raise SourceError(f"source {address.name!r}: {address.url} cannot be used: {error}") from None
    return BucketSource(address, client, direct, *place)


class BucketSource:
    """The objects below a prefix. The revision is the object's ETag."""

    at_once = _AT_ONCE

    def __init__(self, address: Address, client: Any, direct: Any, bucket: str, prefix: str) -> None:
        self._address, self._client, self._direct, self._bucket = address, client, direct, bucket
        self._prefix = prefix

    def entries(self) -> Iterator[Sequence[Entry]]:
        from botocore.exceptions import BotoCoreError, ClientError

        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix)
        try:
            for page in pages:
                more = page.get("IsTruncated")
                if not isinstance(more, bool) or (more and not page.get("NextContinuationToken")):
                    raise broken_off(self._address)
                found = ((item.get("Key"), item.get("ETag"), item.get("Size")) for item in page.get("Contents", ()))
                yield entries_of(self._address, found, self._prefix)
        except (BotoCoreError, ClientError) as error:
            raise self._fault(error) from None

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Do nothing, since each object is a request of its own."""

    def read(self, entry: Entry) -> Generator[bytes]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            with allowed(None, READING_SECONDS, packed=True):
                body = self._body(entry)
            with closing(body):
                yield from whole(entry, body.iter_chunks(_PIECE))
        except (BotoCoreError, ClientError, OSError) as error:
            if _code(error) in _GONE:
                told = "it changed or went away after it was listed; the next run reads it again"
                raise DocumentError(f"{entry.uri}: {told}", "changed") from None
            if _code(error) in _REFUSED - {"AccessDenied", "403"}:
                raise self._fault(error) from None
            raise DocumentError(f"{entry.uri}: the bucket does not give it: {said(error)}", "unreadable") from None

    def _body(self, entry: Entry) -> Any:
        """Return the object's body by a signed address, for half of the processor time of get_object. If it does not
        come at once, get_object asks for it, tries again and reports errors."""
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import HTTPClientError
        from botocore.response import StreamingBody

        asked = {"Bucket": self._bucket, "Key": self._prefix + entry.uri, "IfMatch": entry.revision}
        url = self._client.generate_presigned_url("get_object", Params=asked, ExpiresIn=_SIGNED)
        request = AWSRequest("GET", url, headers={"If-Match": entry.revision}, stream_output=True)
        with suppress(HTTPClientError):
            response = self._direct.send(request.prepare())
            if response.status_code == 200:
                return StreamingBody(response.raw, response.headers.get("content-length"))
            response.raw.close()
        return self._client.get_object(**asked)["Body"]

    def close(self) -> None:
        self._direct.close()
        self._client.close()

    def _fault(self, error: Exception) -> SourceError:
        from botocore.exceptions import NoCredentialsError

        if isinstance(error, NoCredentialsError) or _code(error) in _REFUSED:
            return fault(self._address, error, _REMEDY, credentials=True)
        remedy = "See that the bucket is there, and its region and endpoint right"
        return fault(self._address, error, remedy if _code(error) == "NoSuchBucket" else "")


def _code(error: Exception) -> str:
    """Return the S3 code of an error, such as NoSuchKey, or "" if no server answered."""
    response: dict[str, Any] = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))
