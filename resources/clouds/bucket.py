"""A bucket of a cloud: what a client of one does, the errors that it raises, and how passing failures are tried again.

A bucket is named by an address SCHEME://BUCKET/PREFIX, and keys are relative to the prefix. Clients try once and say
what kind of failure it was; those who ask decide how long it is tried again, and what a failure costs.
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
"""Seconds: bounds of the first and of the longest pause. The bound doubles with each try."""
AT_ONCE = 16
"""Requests that run at the same time."""
READING_SECONDS = 3600.0
"""Seconds that one answer with the bytes of an object may take."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object of a listing. `changed` is when it was written, in seconds since 1970; `revision` changes whenever its
    bytes do."""

    key: str
    size: int
    changed: float
    revision: str = ""


class Passing(Exception):
    """An error that another try may not meet: a server that is busy or failing, a connection that broke."""


class Refused(Exception):
    """A lack of rights. The credentials may still do other things."""


class Unauthenticated(Refused):
    """Credentials that are missing, invalid or expired, so that they may do nothing."""


class Unusable(Exception):
    """A bucket that is missing, a server that answers what makes no sense, or a setting that cannot be right."""

    def __init__(self, said: str, remedy: str) -> None:
        super().__init__(said)
        self.remedy = remedy


class Bucket(Protocol):
    """A client of one bucket; threads may share it. Its methods raise FileNotFoundError if there is no such object,
    Passing, Refused and Unusable."""

    address: str
    """Address to show to people; it has no secrets."""

    def put(self, key: str, body: bytes | Path) -> None:
        """Write an object, or replace one."""

    def read(self, key: str, start: int, end: int | None, revision: str = "") -> Generator[bytes]:
        """Yield the bytes from `start` to before `end`, or to the last, in pieces. An object of another revision, if
        one is given, does not exist. `end` is then its size: what is read from 0 is asked for whole, so that a longer
        object is refused, and a cloud's checksum compared."""

    def size(self, key: str) -> int | None:
        """Return the size in bytes; None if there is no such object."""

    def page(self, below: str, token: str) -> tuple[Sequence[ObjectInfo], str]:
        """Return a page of the objects whose keys begin with `below`, and the token of the next; "" at the end, and
        for the first page."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete at most DELETED_AT_ONCE objects. A missing one is no error."""

    def close(self) -> None: ...


DELETED_AT_ONCE = 1000
"""Keys of one request to delete, the most that S3 takes."""


def patiently(do: Callable[[], T], patience: float, sleep: Callable[[float], object] | None = None) -> T:
    """Return what `do` returns. After a passing failure, do it again after pauses that grow, which have `patience`
    seconds together. Raise Passing, with the number of tries."""
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
    """Return the bucket of an address, and the prefix with a slash at its end, or "" without a prefix."""
    parts = urlsplit(address)
    prefix = parts.path.strip("/")
    return parts.netloc, f"{prefix}/" if prefix else ""


def require_https(variable: str, owner: str) -> str:
    """Return the address of an endpoint that the environment names; "" if it names none. Raise SettingsError if it is
    plain HTTP and not on loopback."""
    named = os.environ.get(variable, "")
    if urlsplit(named).scheme == "http" and not is_loopback(named):
        raise SettingsError(f"{owner}: {variable} is plain HTTP, and not on loopback; use https")
    return named


def no_page(told: str = "", remedy: str = "See that the address is of a bucket") -> Unusable:
    """Return the error of an answer that cannot be the page of a listing that was asked for."""
    return Unusable(f"it answers with what is no page of a listing{f': {told}' if told else ''}", remedy)


def next_page(
    page: Callable[[str, str], tuple[Sequence[ObjectInfo], str]], below: str, token: str
) -> tuple[Sequence[ObjectInfo], str]:
    """Return what `page` of a bucket returns. Raise Unusable if the page names itself as the next: the listing would
    never end."""
    found, following = page(below, token)
    if token and following == token:
        raise no_page("its next page is the same again")
    return found, following


def broken_answer(error: BaseException, remedy: str) -> Passing | Unusable:
    """Return the error of an answer that did not come, or not whole. Another try would meet a limit again, so that an
    answer that overran one makes the bucket unusable."""
    from resources.http_client import error_text, overran  # here, since all that read settings import this module

    return Unusable(error_text(error), remedy) if overran(error) else Passing(error_text(error))


def found_of(items: Iterable[tuple[Any, Any, Any, Any]], prefix: str, remedy: str) -> list[ObjectInfo]:
    """Return the objects of a page, from key, size, revision and time. Keys that end in a slash are left out: consoles
    keep an empty folder by them.

    Raise Unusable if one lacks a part or is not below the prefix: objects that a listing leaves out would be taken for
    deleted."""
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
    """Yield the bytes of an answer. Raise Passing if they are fewer than `size`, Unusable if they are more."""
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
    """Return the error of an answer that has more bytes than were asked for."""
    return Unusable(
        f"it gives more of {key} than was asked for", "see its endpoint, and that nothing else writes there"
    )


@contextmanager
def open_body(body: bytes | Path) -> Iterator[IO[bytes]]:
    """Open the bytes of an object that is written."""
    if isinstance(body, Path):
        with open(body, "rb") as stream:
            yield stream
    else:
        yield io.BytesIO(body)
