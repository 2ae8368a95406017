"""The checks on names of groups and principals.

Principals are the groups and people that a source itself knows.

An unusable name is an error and never makes a document public: a blank, a word such as "none", or an ambiguous name. A
principal appears among a document's groups as `SOURCE,PRINCIPAL`. A group's name has no comma, so nobody can ask as a
principal by name; the source's name keeps the principals of two sources apart.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

from pipelines.parsing.cleaning import clean_text

GROUPS, PRINCIPALS = "groups", "principals"
_NOTHING = ("null", "none", "nil", "~", "[]", "{}", "-")
_LIKE_GROUPS, _LIKE_PRINCIPALS, _LETTERS = 0.8, 0.87, 4
"""Least similarity of a misspelt key to `groups` and to `principals`, and the least number of letters that they
share."""
_LONGEST_KEY, _LONGEST_NAME = 12, 200
MOST_BYTES = 2_200
"""Most bytes of the names that restrict one document, with 8 more for each name, so that they fit in an index entry and
in a term."""
_WORD = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+")
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")


def group_names(given: Any) -> tuple[str, ...]:
    """Return the groups from a list of names or from names joined by commas; at least one.

    Raises ValueError that says which name is wrong and why.
    """
    named = given.split(",") if isinstance(given, str) else given
    if not isinstance(named, list | tuple) or not all(isinstance(name, str) for name in named):
        raise ValueError("groups must be a list of names")
    if not named:
        raise ValueError("groups is blank; name at least one group, or leave the key out")
    return tuple(dict.fromkeys(group_name(name) for name in named))


def group_name(given: str) -> str:
    """Return a group's name in the form used for comparison. Raises ValueError."""
    name = given.strip()
    if not name or name.casefold() in _NOTHING:
        raise ValueError(f"groups has a blank name ({given!r}); name at least one group, or leave the key out")
    if "," in name:
        raise ValueError(f"group {name!r} has a comma, which divides names; write each on its own")
    if any(unicodedata.category(char) in _UNSEEN and char != " " for char in name):
        raise ValueError(f"group {name!a} has characters that cannot be seen, which no asker would name")
    return unicodedata.normalize("NFC", name)


# ---------------------------------------------------------------- principals


def principal_names(given: Any) -> tuple[str, ...]:
    """Return the principals from a list of names or from one name; at least one.

    A name may have commas, as in directories. Raises ValueError that says which name is wrong and why.
    """
    named = [given] if isinstance(given, str) else given
    if not isinstance(named, list | tuple) or not all(isinstance(name, str) for name in named):
        raise ValueError("principals must be a list of names")
    if isinstance(given, str) and "," in given:
        raise ValueError(f"principals {given!r} has a comma: write a list, since one name may have a comma too")
    if not named:
        raise ValueError("principals is blank; name at least one, or leave the key out")
    return tuple(dict.fromkeys(principal_name(name) for name in named))


@lru_cache(1 << 14)
def principal_name(given: str) -> str:
    """Return a principal's name in the form used in documents and memberships. Raises ValueError."""
    name = given.strip()
    if not name or name.casefold() in _NOTHING:
        raise ValueError(f"principals has a blank name ({given!r}); name at least one, or leave the key out")
    if any(unicodedata.category(char) in _UNSEEN and char != " " for char in name):
        raise ValueError(f"principal {name!a} has characters that cannot be seen, which no membership would name")
    return clean_text(name)


def as_group(source: str, principal: str) -> str:
    """Return a principal in the form used among the groups of documents; sql/catalog.sql writes the same form."""
    return f"{source.replace('%', '%25').replace(',', '%2C')},{principal}"


def is_principal(group: str) -> bool:
    return "," in group


def principal_of(group: str) -> str:
    """Return the principal in a document's group, without the name of its source."""
    return group.partition(",")[2]


def part_principals(groups: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the two parts of a document's groups: names of groups, and of principals of its source."""
    named = list(groups)
    return (
        [name for name in named if not is_principal(name)],
        [principal_of(name) for name in named if is_principal(name)],
    )


def require_few(groups: tuple[str, ...]) -> tuple[str, ...]:
    """Return the groups. Raises ValueError if they are too long to store for one document."""
    if sum(len(name.encode("utf-8", "replace")) + 8 for name in groups) > MOST_BYTES:
        raise ValueError(
            f"{len(groups)} names restrict it, more than the {MOST_BYTES:,} bytes that are kept of one document: name "
            "a group that they are members of"
        )
    return groups


# ---------------------------------------------------------------- keys


def misnamed_keys(values: Any, own: tuple[str, ...] = (GROUPS,)) -> Iterator[str]:
    """Yield the keys at any depth that may be misspellings of `groups` or `principals`, except the `own` keys of the
    top level."""
    pending = [(values, True)]
    while pending:
        value, outermost = pending.pop()
        if isinstance(value, dict):
            yield from (str(key) for key in value if means_groups(str(key)) and not (outermost and key in own))
        if isinstance(value, dict | list):
            pending += [(item, False) for item in (value.values() if isinstance(value, dict) else value)]


def remedy(key: str, of: tuple[str, ...] = (GROUPS,)) -> str:
    """Return advice on a misnamed key: what to write, and where. The keys `of` are those allowed at the top level."""
    known = meant_key(key)
    where = "at the top level" if known in of else "at the top level of its side-car, NAME.meta.yaml"
    return f"{key!r} may be meant as {known}: write `{known}: [NAME]` {where}"


def means_groups(key: str) -> bool:
    """Say whether a key is `groups` or `principals`, a misspelling, or contains one, such as `allowed_groups`."""
    return bool(meant_key(key))


def meant_key(key: str) -> str:
    """Return GROUPS or PRINCIPALS if the key means one of them, else ""."""
    return _meant_key(key[:_LONGEST_NAME])


@lru_cache(4096)
def _meant_key(key: str) -> str:
    plain = unicodedata.normalize("NFKC", key)
    words = [word.casefold() for word in _WORD.findall(plain)]
    whole = "".join(char for char in plain if char.isalnum()).casefold()
    if any(_like_groups(word) for word in (whole, *words)):
        return GROUPS
    # The singular is a word of its own, as in `principal_amount`, unless it ends the key.
    alone = any(_like_principals(word) for word in words if word.endswith("s")) or _like_principals(whole)
    return PRINCIPALS if alone or any(map(_like_principals, words[-1:])) else ""


def _like_groups(word: str) -> bool:
    return word.endswith(("group", "groups")) or (
        len(word) <= _LONGEST_KEY
        and len(set(word) & set(GROUPS)) >= _LETTERS
        and any(SequenceMatcher(None, word, meant).ratio() >= _LIKE_GROUPS for meant in (GROUPS, "group"))
    )


def _like_principals(word: str) -> bool:
    return word.endswith(("principal", PRINCIPALS)) or (
        len(word) <= _LONGEST_KEY
        and len(set(word) & set(PRINCIPALS)) > _LETTERS
        and any(SequenceMatcher(None, word, meant).ratio() >= _LIKE_PRINCIPALS for meant in (PRINCIPALS, "principal"))
    )
