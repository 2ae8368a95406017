"""Names of groups, as side-cars, files, settings and askers give them. What cannot be meant is an error and never
public: a blank, a word for nothing, a name that two people would read differently."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

GROUPS = "groups"
_NOTHING = ("null", "none", "nil", "~", "[]", "{}", "-")
_LIKE_GROUPS, _LETTERS = 0.8, 4
"""How alike a word is, and how many letters it has in common at least then."""
_LONGEST_KEY, _LONGEST_NAME = 12, 200
_WORD = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+")
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")


def group_names(given: Any) -> tuple[str, ...]:
    """The groups that a list of names, or names joined by commas, stands for; at least one.

    Raises ValueError saying what is wrong with them."""
    named = given.split(",") if isinstance(given, str) else given
    if not isinstance(named, list | tuple) or not all(isinstance(name, str) for name in named):
        raise ValueError("groups must be a list of names")
    if not named:
        raise ValueError("groups is blank; name at least one group, or leave the key out")
    return tuple(dict.fromkeys(group_name(name) for name in named))


def group_name(given: str) -> str:
    """One name. Raises ValueError."""
    name = given.strip()
    if not name or name.casefold() in _NOTHING:
        raise ValueError(f"groups has a blank name ({given!r}); name at least one group, or leave the key out")
    if "," in name:
        raise ValueError(f"group {name!r} has a comma, which divides names; write each on its own")
    if any(unicodedata.category(char) in _UNSEEN and char != " " for char in name):
        raise ValueError(f"group {name!a} has characters that cannot be seen, which no asker would name")
    return unicodedata.normalize("NFC", name)


def misnamed(values: Any) -> Iterator[str]:
    """Keys of plain values, at any depth, that may be meant as `groups` and are not that key of the outermost."""
    pending = [(values, True)]
    while pending:
        value, outermost = pending.pop()
        if isinstance(value, dict):
            yield from (str(key) for key in value if means_groups(str(key)) and not (outermost and key == GROUPS))
        if isinstance(value, dict | list):
            pending += [(item, False) for item in (value.values() if isinstance(value, dict) else value)]


def means_groups(key: str) -> bool:
    """Whether a key is `groups`, or that misspelt, or has that word in it, as `allowed_groups` has."""
    return _means_groups(key[:_LONGEST_NAME])


@lru_cache(4096)
def _means_groups(key: str) -> bool:
    plain = unicodedata.normalize("NFKC", key)
    words = ["".join(char for char in plain if char.isalnum()), *_WORD.findall(plain)]
    return any(_like_groups(word.casefold()) for word in words)


def _like_groups(word: str) -> bool:
    return word.endswith(("group", "groups")) or (
        len(word) <= _LONGEST_KEY
        and len(set(word) & set(GROUPS)) >= _LETTERS
        and any(SequenceMatcher(None, word, meant).ratio() >= _LIKE_GROUPS for meant in (GROUPS, "group"))
    )
