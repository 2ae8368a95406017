"""Buckets of S3, and of servers that speak like it, by botocore, which follows no redirects to other hosts.

Credentials are those that boto3 finds: the environment, ~/.aws, the machine's role.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from typing import Any
from urllib.parse import urlsplit

from pipelines.errors import DocumentError, SettingsError, SourceError
from resources.connectors.registry import options_of
from resources.connectors.source import Address, Entry

ATTEMPTS = 4
"""Of each request, where the server is busy or ails."""
_AT_ONCE = 16
_CONNECTS, _ANSWERS = 5, 30
"""Seconds for a connection, and between two pieces of an answer."""
_SIGNED = 900
"""Seconds that a signed address holds, which is asked at once: clocks differ."""
_PIECE = 1 << 20
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_REFUSED = frozenset(
    {"AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch", "403"}
)
_GONE = frozenset({"NoSuchKey", "404", "PreconditionFailed", "412"})


def connect(address: Address) -> BucketSource:
    """Options: `endpoint` (a server that speaks S3), `region`, `anonymous` (true for a public bucket)."""
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.httpsession import URLLib3Session
    from botocore.session import Session
    from botocore.utils import get_environ_proxies

    options = options_of(address, endpoint=None, region=None, anonymous="false")
    parts = urlsplit(address.url)
    if not parts.netloc:
        raise SettingsError(f"source {address.name!r}: no bucket in its path; write s3://BUCKET/PREFIX")
    if options["anonymous"] not in ("true", "false"):
        raise SettingsError(f"source {address.name!r}: its option anonymous is true or false")
    anonymous = options["anonymous"] == "true"
    _require_private(address.name, options["endpoint"], anonymous)
    config = Config(
        connect_timeout=_CONNECTS,
        read_timeout=_ANSWERS,
        retries={"mode": "standard", "max_attempts": ATTEMPTS},
        max_pool_connections=_AT_ONCE,
        signature_version=UNSIGNED if anonymous else "s3v4",
    )
    given = {"endpoint_url": options["endpoint"] or None, "region_name": options["region"] or None}
    try:
        session = Session()
        client = session.create_client("s3", config=config, **given)
        direct = URLLib3Session(
            verify=session.get_config_variable("ca_bundle") or True,
            proxies=get_environ_proxies(client.meta.endpoint_url),
            timeout=(_CONNECTS, _ANSWERS),
            max_pool_connections=_AT_ONCE,
        )
    except Exception as error:  # what botocore raises of an endpoint, a region or a file of settings has no common base
        raise SourceError(f"source {address.name!r}: {address.url} cannot be used: {error}") from None
    return BucketSource(address, client, direct, parts.netloc, parts.path.strip("/"))


def _require_private(name: str, endpoint: str, anonymous: bool) -> None:
    near = urlsplit(endpoint).hostname in _LOOPBACK
    if endpoint.startswith("http://") and not near and not anonymous:
        raise SettingsError(f"source {name!r}: its endpoint is plain HTTP, and not on loopback; use https")


class BucketSource:
    """What is below a prefix. The revision is the object's ETag."""

    at_once = _AT_ONCE

    def __init__(self, address: Address, client: Any, direct: Any, bucket: str, prefix: str) -> None:
        self._address, self._client, self._direct, self._bucket = address, client, direct, bucket
        self._prefix = f"{prefix}/" if prefix else ""

    def entries(self) -> Iterator[Sequence[Entry]]:
        from botocore.exceptions import BotoCoreError, ClientError

        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix)
        try:
            for page in pages:
                # What ends in a slash is how consoles keep an empty folder.
                found = [item for item in page.get("Contents", ()) if not item["Key"].endswith("/")]
                yield [self._entry(item) for item in found]
        except (BotoCoreError, ClientError) as error:
            raise self._fault(error) from None

    def _entry(self, item: dict[str, Any]) -> Entry:
        return Entry(item["Key"].removeprefix(self._prefix), item["ETag"], item["Size"])

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Each is a request of its own."""

    def read(self, entry: Entry) -> Generator[bytes]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            with closing(self._body(entry)) as body:
                yield from body.iter_chunks(_PIECE)
        except (BotoCoreError, ClientError, OSError) as error:
            if _code(error) in _GONE:
                told = "it changed or went away after it was listed; the next run reads it again"
                raise DocumentError(f"{entry.uri}: {told}", "changed") from None
            if _code(error) in _REFUSED - {"AccessDenied", "403"}:
                raise self._fault(error) from None
            raise DocumentError(f"{entry.uri}: the bucket does not give it: {_said(error)}", "unreadable") from None

    def _body(self, entry: Entry) -> Any:
        """The object by a signed address, for half of what get_object takes of the processor; what does not come at
        once is asked for by get_object, which tries again and tells what is wrong."""
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

        told = f"source {self._address.name!r}: cannot list {self._address.url}: {_said(error)}; nothing was changed."
        if isinstance(error, NoCredentialsError) or _code(error) in _REFUSED:
            remedy = "Give credentials that may read it: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile"
            return SourceError(f"{told} {remedy}", "credentials")
        if _code(error) == "NoSuchBucket":
            return SourceError(f"{told} See that the bucket is there, and its region and endpoint right")
        return SourceError(told)


def _code(error: Exception) -> str:
    """S3's own of an error, such as NoSuchKey; "" of one that no server answered."""
    response: dict[str, Any] = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def _said(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else f"{text[:300]}..."
