"""The client of S3, and of servers with its protocol, by botocore, which follows no redirects to other hosts.

Credentials are those that boto3 finds: in the environment, in ~/.aws, or the machine's role. AWS_ENDPOINT_URL names a
server other than Amazon's. Permissions to list, read, write and delete below the prefix are sufficient: no request
concerns the bucket itself. A listing decides whether an object exists, since a store with permissions for only a prefix
may answer "forbidden" for a missing object.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from resources.clouds.bucket import (
    AT_ONCE,
    READING_SECONDS,
    ObjectInfo,
    Passing,
    Refused,
    Unauthenticated,
    Unusable,
    broken_answer,
    exactly,
    found_of,
    given_more,
    no_page,
    open_body,
    place_of,
    require_https,
)
from resources.http_client import CONNECTS, SILENCE, answer_limits, botocore_session, error_text

if TYPE_CHECKING:
    from botocore.loaders import Loader

IN_PARTS = 1 << 30
"""Bytes above which an object is sent in parts; the store joins them at the end."""
_SIGNED = 900
"""Seconds for which a signed address is valid. It is used at once, but clocks may differ."""
_PIECE = 1 << 20
_SEE_SETTINGS = "see AWS_ENDPOINT_URL, AWS_DEFAULT_REGION and ~/.aws"
_SEE_SERVER = "see the endpoint (AWS_ENDPOINT_URL); it must speak S3"
_BUSY = frozenset(
    {"SlowDown", "InternalError", "RequestTimeout", "ServiceUnavailable", "Throttling", "OperationAborted", "BadDigest"}
)
_UNKNOWN = frozenset({"ExpiredToken", "InvalidToken", "InvalidAccessKeyId", "SignatureDoesNotMatch"})
_GONE = frozenset({"NoSuchKey", "PreconditionFailed", "412"})
"""Codes for a missing or changed object. A 404 without a code does not count, since the server may not be an S3
server."""
_BOUNDED = ("ListObjectsV2", "GetObject", "HeadBucket", "CreateSession")
"""Operations with bounded answers. botocore itself sends the last two. Writing uses botocore's own connections, which
wait for the server's consent before they send a body."""


def connect(
    address: str, owner: str, *, endpoint: str = "", region: str = "", anonymous: bool = False, writes: bool = False
) -> S3Bucket:
    """Return the bucket of an address. `owner` begins the message of a SettingsError.

    Raise SettingsError, Unusable."""
    import botocore.session
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.utils import get_environ_proxies

    if not endpoint and not anonymous:
        for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
            require_https(name, owner)
    config = Config(
        connect_timeout=CONNECTS,
        read_timeout=SILENCE,
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=AT_ONCE,
        signature_version=UNSIGNED if anonymous else "s3v4",
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    try:
        session = botocore.session.get_session()
        given = {"endpoint_url": endpoint or None, "region_name": region or None}
        session.register_component("data_loader", _descriptions(session.get_config_variable("data_path")))
        client = session.create_client("s3", config=config, **given)
        direct = botocore_session(
            verify=session.get_config_variable("ca_bundle") or True,
            proxies=get_environ_proxies(client.meta.endpoint_url),
            max_pool_connections=AT_ONCE,
        )
        for operation in _BOUNDED:
            client.meta.events.register(f"before-send.s3.{operation}", lambda request, **_: direct.send(request))
    except Exception as error:  # botocore's errors for an endpoint, a region or a settings file have no common base
        raise Unusable(error_text(error), _SEE_SETTINGS) from None
    return S3Bucket(address, client, direct)


@cache
def _descriptions(path: str | None) -> Loader:
    """Return the loader of botocore's descriptions of services, which take it longer to parse than a client to make.

    It keeps what it has parsed. Sessions are not kept, since they keep credentials."""
    from botocore.loaders import create_loader

    return create_loader(path)


class S3Bucket:
    """The objects below a prefix; implements bucket.Bucket. The revision is the object's ETag."""

    def __init__(self, address: str, client: Any, direct: Any) -> None:
        self.address, self._client, self._direct = address, client, direct
        self._bucket, self._prefix = place_of(address)

    def put(self, key: str, body: bytes | Path) -> None:
        """Write an object. Its MD5 is sent too, unless it is sent in parts, and the store compares it."""
        with self._asking(of_object=False), open_body(body) as stream:
            md5 = hashlib.md5(usedforsecurity=False)
            while piece := stream.read(_PIECE):
                md5.update(piece)
            size = stream.tell()
            stream.seek(0)
            named = {"Bucket": self._bucket, "Key": self._prefix + key}
            if size >= IN_PARTS:
                self._put_parts(stream, named)
            else:
                self._client.put_object(**named, Body=stream, ContentMD5=base64.b64encode(md5.digest()).decode())

    def _put_parts(self, stream: IO[bytes], named: dict[str, str]) -> None:
        from boto3.s3.transfer import TransferConfig, create_transfer_manager

        with create_transfer_manager(self._client, TransferConfig()) as manager:
            manager.upload(stream, named["Bucket"], named["Key"]).result()

    def read(self, key: str, start: int, end: int | None, revision: str = "") -> Generator[bytes]:
        asked = {"IfMatch": revision} if revision else {}
        if end is not None and not (revision and start == 0):
            asked["Range"] = f"bytes={start}-{end - 1}"
        try:
            with self._asking():
                with answer_limits(None, READING_SECONDS, packed=True):
                    body = self._body(key, asked, (206,) if start else (200, 206))
                with closing(body):
                    pieces = body.iter_chunks(_PIECE)
                    yield from pieces if end is None else exactly(key, pieces, end - start)
        except Refused as error:
            if not isinstance(error, Unauthenticated) and self.size(key) is None:
                raise FileNotFoundError(key) from None
            raise

    def _body(self, key: str, asked: dict[str, str], expected: tuple[int, ...]) -> Any:
        """Return the object's body from a signed address, which takes half of the processor time of get_object. If that
        fails, get_object requests the body and reports errors, whose text contains no signature."""
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError
        from botocore.response import StreamingBody

        named = {"Bucket": self._bucket, "Key": self._prefix + key, **asked}
        headers = {"If-Match" if name == "IfMatch" else name: value for name, value in asked.items()}
        url = self._client.generate_presigned_url("get_object", Params=named, ExpiresIn=_SIGNED)
        request = AWSRequest("GET", url, headers=headers, stream_output=True)
        with suppress(BotoCoreError):
            response = self._direct.send(request.prepare())
            if response.status_code in expected:
                return StreamingBody(response.raw, response.headers.get("content-length"))
            response.raw.close()
        answered = self._client.get_object(**named)
        if answered["ResponseMetadata"]["HTTPStatusCode"] not in expected:  # the whole object instead of a part
            answered["Body"].close()
            raise given_more(key)
        return answered["Body"]

    def size(self, key: str) -> int | None:
        found, _ = self._list_page(self._prefix + key, MaxKeys=1)
        return next((item.size for item in found if item.key == key), None)

    def page(self, below: str, token: str) -> tuple[Sequence[ObjectInfo], str]:
        return self._list_page(self._prefix + below, **({"ContinuationToken": token} if token else {}))

    def _list_page(self, prefix: str, **asked: Any) -> tuple[Sequence[ObjectInfo], str]:
        with self._asking(of_object=False):
            page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, **asked)
        more, token = page.get("IsTruncated"), page.get("NextContinuationToken")
        if not isinstance(more, bool) or (more and not token and "MaxKeys" not in asked):
            raise no_page(remedy=_SEE_SERVER)
        items = (
            (item.get("Key"), item.get("Size"), item.get("ETag"), item.get("LastModified"))
            for item in page.get("Contents", ())
        )
        return found_of(items, self._prefix, _SEE_SERVER), (token if more and token else "")

    def delete(self, keys: Sequence[str]) -> None:
        named = {"Objects": [{"Key": self._prefix + key} for key in keys], "Quiet": True}
        with self._asking(of_object=False):
            answered = self._client.delete_objects(Bucket=self._bucket, Delete=named)
        for error in answered.get("Errors", ()):
            if error["Code"] in _BUSY:
                raise Passing(error["Code"])
            if error["Code"] != "NoSuchKey":
                raise Refused(f"{error['Code']} of deleting {error['Key']}")

    def close(self) -> None:
        self._direct.close()
        self._client.close()

    @contextmanager
    def _asking(self, of_object: bool = True) -> Iterator[None]:
        """Translate botocore's errors to those of Bucket. Only a request `of_object` may report that the object is
        missing."""
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
        from botocore.exceptions import ConnectionError as Unconnected

        try:
            yield
        except ClientError as error:
            raise _answer_error(error, of_object) from None
        except FileNotFoundError:
            raise
        except (HTTPClientError, Unconnected, OSError) as error:
            raise broken_answer(error, _SEE_SERVER) from None
        except BotoCoreError as error:
            raise _request_error(error) from None


def _answer_error(error: Any, of_object: bool) -> Exception:
    told = error.response.get("Error", {})
    code, status = str(told.get("Code", "")), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _GONE and of_object:
        return FileNotFoundError(code)
    if code == "NoSuchBucket":
        return Unusable(f"there is no such bucket ({code})", "see that its name, its region and its endpoint are right")
    if code in _BUSY or status >= 500 or status == 429:
        return Passing(f"{code or status}")
    if status == 401 or code in _UNKNOWN:
        return Unauthenticated(f"{code or status}")
    if status == 403:
        return Refused(f"{code or status}")
    return Unusable(error_text(error), "see AWS_ENDPOINT_URL and AWS_DEFAULT_REGION")


def _request_error(error: Exception) -> Exception:
    from botocore.exceptions import (
        CredentialRetrievalError,
        IncompleteReadError,
        NoCredentialsError,
        PartialCredentialsError,
        TokenRetrievalError,
    )

    if isinstance(error, IncompleteReadError):
        return broken_answer(error, _SEE_SERVER)
    if isinstance(error, NoCredentialsError | PartialCredentialsError | CredentialRetrievalError | TokenRetrievalError):
        return Unauthenticated(error_text(error))
    return Unusable(error_text(error), _SEE_SETTINGS)
