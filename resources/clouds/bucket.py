"""The interface of a cloud bucket's client, its errors, and the retries after temporary failures.

A bucket is named by an address SCHEME://BUCKET/PREFIX, and keys are relative to the prefix. Clients try once and report
the kind of failure; callers decide how long to retry.
"""

from __future__ import annotations

import io
import os
import random
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar
from urllib.parse import urlsplit

from pipelines.errors import SettingsError
from pipelines.settings.models import is_loopback

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 15.0
"""Longest first pause and longest pause of all, in seconds. The limit doubles with each try."""
AT_ONCE = 16
"""Most requests at the same time."""
READING_SECONDS = 3600.0
"""Most seconds for reading one object."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object of a listing. `changed` is the time when it was written, in seconds since 1970; `revision` changes
    whenever its bytes change."""

    key: str
    size: int
    changed: float
    revision: str = ""


class Passing(Exception):
    """A temporary error that another try may not meet: a busy or failing server, or a broken connection."""


class Refused(Exception):
    """Missing permissions for one request. The credentials may be sufficient for others."""


class Unauthenticated(Refused):
    """Missing, invalid or expired credentials, which are not sufficient for any request."""


class Unusable(Exception):
    """A bucket that is missing, a server with invalid answers, or an invalid setting."""

    def __init__(self, said: str, remedy: str) -> None:
        super().__init__(said)
        self.remedy = remedy


class Bucket(Protocol):
    """A client of one bucket; threads may share it. Its methods raise FileNotFoundError if an object does not exist,
    and Passing, Refused and Unusable."""

    address: str
    """Address to show to people, without secrets."""

    def put(self, key: str, body: bytes | Path) -> None:
        """Write an object, or replace one."""

    def read(self, key: str, start: int, end: int | None, revision: str = "") -> Generator[bytes]:
        """Yield the bytes from `start` to before `end`, or to the last byte, in pieces. With a `revision`, an object of
        another revision counts as missing, and `end` is the object's size. Reading from 0 then requests the whole
        object, so that a longer object is refused and the cloud's checksum is compared."""

    def size(self, key: str) -> int | None:
        """Return the size in bytes, or None if the object does not exist."""

    def page(self, below: str, token: str) -> tuple[Sequence[ObjectInfo], str]:
        """Return a page of the objects whose keys begin with `below`, and the token of the next page. The token is ""
        for the first page and after the last."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete at most DELETED_AT_ONCE objects. Missing objects are ignored."""

    def close(self) -> None: ...


DELETED_AT_ONCE = 1000
"""Most keys of one delete request, the limit of S3."""


def patiently(do: Callable[[], T], patience: float, sleep: Callable[[float], object] | None = None) -> T:
    """Call `do` and return its result. After a temporary failure, call it again after growing pauses, of `patience`
    seconds in total. Raise Passing with the number of tries."""
    waited, tries = 0.0, 0
    while True:
        try:
            return do()
        except Passing as error:
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**tries) * random.uniform(0.5, 1.0)
            tries += 1
            if waited + pause > patience:
                raise Passing(f"{error}, at each of {tries} tries in {waited:.0f} s") from None
            (sleep or time.sleep)(pause)
            waited += pause


def place_of(address: str) -> tuple[str, str]:
    """Return the bucket of an address, and its prefix: "" or a prefix that ends with a slash."""
    parts = urlsplit(address)
    prefix = parts.path.strip("/")
    return parts.netloc, f"{prefix}/" if prefix else ""


def require_https(variable: str, owner: str) -> str:
    """Return the address of an endpoint from the environment, or "". Raise SettingsError if it is plain HTTP and not on
    loopback."""
    named = os.environ.get(variable, "")
    if urlsplit(named).scheme == "http" and not is_loopback(named):
        raise SettingsError(f"{owner}: {variable} is plain HTTP to another machine; use https")
    return named


def no_page(told: str = "", remedy: str = "See that the address is of a bucket") -> Unusable:
    """Return the error for an answer that is not a valid page of a listing."""
    return Unusable(f"it answers with what is no page of a listing{f': {told}' if told else ''}", remedy)


def next_page(
    page: Callable[[str, str], tuple[Sequence[ObjectInfo], str]], below: str, token: str
) -> tuple[Sequence[ObjectInfo], str]:
    """Return a page of a bucket's listing. Raise Unusable if the page names itself as the next: the listing would never
    end."""
    found, following = page(below, token)
    if token and following == token:
        raise no_page("its next page is the same again")
    return found, following


def broken_answer(error: BaseException, remedy: str) -> Passing | Unusable:
    """Return the error for a missing or incomplete answer. An answer that exceeds a limit makes the bucket unusable,
    since another try would exceed it again."""
    from resources.http_client import error_text, overran  # here, since all that read settings import this module

    return Unusable(error_text(error), remedy) if overran(error) else Passing(error_text(error))


def found_of(items: Iterable[tuple[Any, Any, Any, Any]], prefix: str, remedy: str) -> list[ObjectInfo]:
    """Return the objects of a page, from key, size, revision and time. Keys that end in a slash are left out, since
    they only mark empty folders.

    Raise Unusable if an object lacks a field or is not below the prefix: objects missing in a listing would count as
    deleted.
    """
    made = []
    for key, size, revision, changed in items:
        if not isinstance(key, str) or not key.startswith(prefix):
            raise no_page(f"it lists {str(key)[:100]!r}, which was not asked for", remedy)
        if key.endswith("/"):
            continue
        if not isinstance(size, int) or size < 0:
            raise no_page(f"it lists {key[:100]!r} without its size", remedy)
        made.append(
            ObjectInfo(key.removeprefix(prefix), size, changed.timestamp() if changed else 0.0, str(revision or ""))
        )
    return made


def exactly(key: str, pieces: Iterable[bytes], size: int) -> Generator[bytes]:
    """Yield the bytes of an answer. Raise Passing if there are fewer than `size`, and Unusable if there are more."""
    left = size
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            break
        yield piece
    if left < 0:
        raise given_more(key)
    if left:
        raise Passing(f"it gives less of {key} than was asked for")


def given_more(key: str) -> Unusable:
    """Return the error for an answer with more bytes than requested."""
    return Unusable(
        f"it gives more of {key} than was asked for", "see its endpoint, and that nothing else writes there"
    )


@contextmanager
def open_body(body: bytes | Path) -> Iterator[IO[bytes]]:
    """Open the bytes of an object to write as a stream."""
    if isinstance(body, Path):
        with open(body, "rb") as stream:
            yield stream
    else:
        yield io.BytesIO(body)
