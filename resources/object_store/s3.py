"""The objects of S3, and of servers with its protocol, reached through botocore.

Credentials are those that boto3 finds: the environment, ~/.aws, the machine's role. AWS_ENDPOINT_URL names a server
other than Amazon's. Rights to list, read, write and delete below the prefix are enough: nothing is asked of the bucket
itself. A listing decides whether an object exists, since a store that lets only a prefix be listed answers "forbidden"
for an object that does not exist.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from pipelines.errors import IndexStateError
from resources.http_client import CONNECTS, SILENCE, allowed, botocore_session, why
from resources.object_store.objects import AT_ONCE, Found, Passing, refused, require_https, unusable

IN_PARTS = 1 << 30
"""Bytes from which an object is sent in parts; the store joins them at the end."""
_READING = 3600.0
"""Seconds that reading an object may take."""
_PIECE = 1 << 20
_LONGEST = 300
_RIGHTS = (
    "give credentials by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile, that may list, read, write and "
    "delete below that prefix"
)
_BUSY = frozenset(
    {"SlowDown", "InternalError", "RequestTimeout", "ServiceUnavailable", "Throttling", "OperationAborted"}
)


def connect(address: str) -> S3Objects:
    """Return the objects at an address. Raise SettingsError, IndexStateError."""
    import botocore.session
    from boto3.session import Session
    from botocore.config import Config
    from botocore.utils import get_environ_proxies

    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        require_https(name)
    config = Config(
        connect_timeout=CONNECTS,
        read_timeout=SILENCE,
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=AT_ONCE,
        signature_version="s3v4",
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    try:
        session = botocore.session.get_session()
        client = Session(botocore_session=session).client("s3", config=config)
        direct = botocore_session(
            verify=session.get_config_variable("ca_bundle") or True,
            proxies=get_environ_proxies(client.meta.endpoint_url),
            max_pool_connections=AT_ONCE,
        )
        for operation in ("ListObjectsV2", "GetObject"):
            client.meta.events.register(f"before-send.s3.{operation}", lambda request, **_: direct.send(request))
    except Exception as error:  # botocore's errors for an endpoint, a region or a settings file have no common base
        raise unusable(address, _said(error), "see AWS_ENDPOINT_URL, AWS_DEFAULT_REGION and ~/.aws") from None
    parts = urlsplit(address)
    return S3Objects(address, client, parts.netloc, f"{parts.path.strip('/')}/".lstrip("/"))


class S3Objects:
    """The objects below a prefix, which ends with a slash or is empty; implements objects.Objects."""

    def __init__(self, address: str, client: Any, bucket: str, prefix: str) -> None:
        self.address, self._client, self._bucket, self._prefix = address, client, bucket, prefix

    def put(self, key: str, body: bytes | Path) -> None:
        """Write an object. Its MD5 goes with it (unless it is sent in parts), and the store compares it."""
        with self._asking(), _opened(body) as stream:
            md5 = hashlib.md5(usedforsecurity=False)
            while piece := stream.read(_PIECE):
                md5.update(piece)
            size = stream.tell()
            stream.seek(0)
            named = {"Bucket": self._bucket, "Key": self._prefix + key}
            if size >= IN_PARTS:
                self._client.upload_fileobj(stream, **named)
            else:
                self._client.put_object(**named, Body=stream, ContentMD5=base64.b64encode(md5.digest()).decode())

    def read(self, key: str, start: int, end: int | None) -> Generator[bytes]:
        part = {"Range": f"bytes={start}-{end - 1}"} if end is not None else {}
        left = None if end is None else end - start
        try:
            with self._asking():
                with allowed(None, _READING, packed=True):
                    body = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key, **part)["Body"]
                with closing(body):
                    for piece in body.iter_chunks(_PIECE):
                        if left is not None and (left := left - len(piece)) < 0:
                            break
                        yield piece
                if left:
                    raise Passing(f"it gives {'more' if left < 0 else 'less'} of {key} than was asked for")
        except IndexStateError as error:
            if error.code == "credentials" and self.size(key) is None:
                raise FileNotFoundError(key) from None
            raise

    def size(self, key: str) -> int | None:
        with self._asking():
            found = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix + key, MaxKeys=1)
        named = (item for item in self._contents(found) if item.key == key)
        return next((item.size for item in named), None)

    def pages(self, below: str) -> Iterator[Sequence[Found]]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix + below)
        with self._asking():
            for page in pages:
                if page.get("IsTruncated") and not page.get("NextContinuationToken"):
                    raise self._unmeant()
                yield [item for item in self._contents(page) if not item.key.endswith("/")]

    def _contents(self, page: dict[str, Any]) -> Iterator[Found]:
        """Yield the objects on a page of a listing. Raise IndexStateError if it is not such a page: objects that it
        leaves out would be taken for deleted."""
        try:
            if not isinstance(page["IsTruncated"], bool):
                raise self._unmeant()
            for item in page.get("Contents", ()):
                key, size, changed = item["Key"], item["Size"], item["LastModified"].timestamp()
                if not key.startswith(self._prefix) or size < 0:
                    raise self._unmeant()
                yield Found(key.removeprefix(self._prefix), size, changed)
        except (KeyError, AttributeError, TypeError):
            raise self._unmeant() from None

    def _unmeant(self) -> IndexStateError:
        return unusable(
            self.address, "it answers with what is no page of a listing", "see AWS_ENDPOINT_URL; it must speak S3"
        )

    def delete(self, keys: Sequence[str]) -> None:
        named = {"Objects": [{"Key": self._prefix + key} for key in keys], "Quiet": True}
        with self._asking():
            said = self._client.delete_objects(Bucket=self._bucket, Delete=named)
        for error in said.get("Errors", ()):
            if error["Code"] in _BUSY:
                raise Passing(error["Code"])
            if error["Code"] != "NoSuchKey":
                raise refused(self.address, f"{error['Code']} of deleting {error['Key']}", _RIGHTS)

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Translate botocore's errors to those of Objects."""
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        try:
            yield
        except ClientError as error:
            raise self._answered(error) from None
        except FileNotFoundError:
            raise
        except (HTTPClientError, Boto3Error, OSError) as error:
            raise Passing(_said(error)) from None
        except BotoCoreError as error:
            raise self._unasked(error) from None

    def _answered(self, error: Any) -> Exception:
        said = error.response.get("Error", {})
        code, status = str(said.get("Code", "")), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code == "NoSuchKey":
            return FileNotFoundError(code)
        if code == "NoSuchBucket":
            return unusable(self.address, "there is no such bucket", "make it, or mend the setting")
        if code in _BUSY or status >= 500 or status == 429:
            return Passing(f"{code or status}")
        if status in (401, 403) or code in ("ExpiredToken", "InvalidToken", "InvalidAccessKeyId"):
            return refused(self.address, f"{code or status}", _RIGHTS)
        if code == "BadDigest":
            return Passing("BadDigest")
        return unusable(self.address, _said(error), "see AWS_ENDPOINT_URL and AWS_DEFAULT_REGION")

    def _unasked(self, error: Exception) -> Exception:
        from botocore.exceptions import (
            CredentialRetrievalError,
            IncompleteReadError,
            NoCredentialsError,
            PartialCredentialsError,
            TokenRetrievalError,
        )

        if isinstance(error, IncompleteReadError):
            return Passing(_said(error))
        if isinstance(
            error, NoCredentialsError | PartialCredentialsError | CredentialRetrievalError | TokenRetrievalError
        ):
            return refused(self.address, _said(error), _RIGHTS)
        return unusable(self.address, _said(error), "see AWS_ENDPOINT_URL, AWS_DEFAULT_REGION and ~/.aws")


@contextmanager
def _opened(body: bytes | Path) -> Iterator[IO[bytes]]:
    if isinstance(body, Path):
        with open(body, "rb") as stream:
            yield stream
    else:
        yield io.BytesIO(body)


def _said(error: BaseException) -> str:
    text = " ".join(why(error).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
