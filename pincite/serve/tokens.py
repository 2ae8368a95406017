"""Who may ask by a token, and for which groups: a file of the state that holds hashes, never a token.

    <state>/tokens.json      {"NAME": {"sha256", "groups", "operator", "created"}}

A token has 256 random bits, so that its plain SHA-256 tells nothing of it. What cannot be read lets nobody in.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.errors import IndexStateError, SettingsError, UsageError
from pipelines.groups import group_names
from pipelines.visible import one_line
from resources.state.private import private

FILE = "tokens.json"
PREFIX = "pincite_"
MOST_BYTES = 10 << 20
LONGEST_NAME = 100
_HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Token:
    """Who a token stands for. `operator` sees the names of failed documents; `created` is ISO 8601."""

    sha256: str
    groups: tuple[str, ...]
    operator: bool
    created: str


class TokenFile:
    """The tokens of one state. Reads the file again when it is another one."""

    def __init__(self, state: Path) -> None:
        self._state, self._file = state, state / FILE
        self._read: tuple[tuple[int, ...], dict[str, Token]] | None = None

    def all(self) -> Mapping[str, Token]:
        """By name. Raises SettingsError naming the file, where it is not one of tokens."""
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._no_tokens(error) from None
        identity = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
        if self._read is None or self._read[0] != identity:
            self._read = identity, self._parsed()
        return self._read[1]

    def who(self, given: str) -> tuple[str, Token] | None:
        """The name that a token was made for. Raises SettingsError."""
        held = hashlib.sha256(given.encode("utf-8", "surrogateescape")).hexdigest()
        found = None
        for name, token in self.all().items():  # all of them, so that time tells nothing
            if hmac.compare_digest(token.sha256, held):
                found = name, token
        return found

    def add(self, name: str, groups: tuple[str, ...], operator: bool) -> str:
        """A new token; this is the one time that it is known. Raises UsageError, IndexStateError `name_taken`."""
        if not name.strip() or len(name) > LONGEST_NAME or one_line(name) != name:
            raise UsageError(f"{name!a} is no name for who asks; give up to {LONGEST_NAME} printable characters")
        token = PREFIX + secrets.token_urlsafe(32)
        made = Token(hashlib.sha256(token.encode()).hexdigest(), groups, operator,
                     datetime.now(UTC).isoformat(timespec="seconds"))  # fmt: skip
        with self._changing() as tokens:
            if name in tokens:
                raise IndexStateError(
                    f"{name} has a token already; take it away first: `pincite tokens remove {name}`", "name_taken"
                )
            tokens[name] = made
        return token

    def remove(self, name: str) -> None:
        """Raises IndexStateError `unknown_name`."""
        with self._changing() as tokens:
            if tokens.pop(name, None) is None:
                raise IndexStateError(f"nobody named {name!a} has a token; see `pincite tokens list`", "unknown_name")

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Token]]:
        """The tokens, written back whole if the block ends well, by one process at a time."""
        with private(self._state), (self._state / f"{FILE}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            tokens = dict(self.all())
            yield tokens
            partial = self._file.with_suffix(".partial")
            written = {name: asdict(token) for name, token in sorted(tokens.items())}
            with partial.open("w", encoding="utf-8") as stream:
                json.dump(written, stream, ensure_ascii=False, indent=2)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(partial, self._file)

    def _parsed(self) -> dict[str, Token]:
        try:
            with self._file.open("rb") as stream:
                data = stream.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise ValueError(f"it has more than {MOST_BYTES >> 20} MB")
            values = json.loads(data, object_pairs_hook=_once)
            tokens = {name: _token(value) for name, value in values.items()}
            if len({token.sha256 for token in tokens.values()}) < len(tokens):
                raise ValueError("two names have the same token")
            return tokens
        except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise self._no_tokens(error) from None

    def _no_tokens(self, error: Exception) -> SettingsError:
        return SettingsError(
            f"{self._file}: it is not what `pincite tokens` writes ({error}), so nobody is let in; mend it, or "
            "delete it and add the tokens anew"
        )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _token(value: Any) -> Token:
    made = Token(value["sha256"], tuple(value["groups"]), value["operator"], value["created"])
    known = set(value) == {"sha256", "groups", "operator", "created"} and isinstance(value["groups"], list)
    texts = isinstance(made.created, str) and isinstance(made.sha256, str) and _HASH.fullmatch(made.sha256)
    if not known or not texts or not isinstance(made.operator, bool):
        raise ValueError("an entry has other keys or values than it should")
    if made.groups and group_names(list(made.groups)) != made.groups:
        raise ValueError("an entry names groups that are none")
    return made
