"""Names of the product: a function is named by a verb or a noun, and one public class name means one thing."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.support.places import ROOT

PRODUCT = ("pipelines", "resources", "assets", "pincite")
PREPOSITIONS = (
    "of under beside beneath besides within without before after between behind below above beyond by as at in inside "
    "into on onto off out outside up upon per from to toward until till with for than over about against along among "
    "around despite down during except like near past since through throughout apart"
)
PARTICIPLES = (
    "told kept said held made found sent shown given taken known left lost built bound met got seen fed led laid paid "
    "sold spent spoken written thought taught brought bought caught chosen drawn driven fallen forgotten frozen gone "
    "grown hidden meant won worn torn struck stuck swept sworn stood understood begun done put"
)
"""Participles without the ending -ed or -en of a verb."""
ENDINGS = re.compile(r"[a-z]+(?:ed|en)")
VERBS_AND_NOUNS = (
    "open listen happen shorten lengthen strengthen flatten tighten widen weaken lessen token need feed seed speed "
    "embed exceed succeed proceed shed golden put"
)
"""Words in -ed and -en, and `put`, that are a verb in its plain form or a noun."""


def is_participle_or_preposition(name: str) -> bool:
    """Say whether a name is one word, and this is a participle or a preposition."""
    if name.startswith("__"):
        return False
    word = name.strip("_")
    return word not in VERBS_AND_NOUNS.split() and (
        word in PREPOSITIONS.split() or word in PARTICIPLES.split() or ENDINGS.fullmatch(word) is not None
    )


DEFINITION = re.compile(r"^[ \t]*(?:async[ ]+)?(def|class)[ ]+(\w+)", re.MULTILINE)


@cache
def definitions() -> list[tuple[str, str, str]]:
    """Return kind, name and place of every function, method and class of the product, found by its line."""
    found = []
    for top in PRODUCT:
        for path in sorted((ROOT / top).rglob("*.py")):
            text = path.read_text()
            for match in DEFINITION.finditer(text):
                line = text.count("\n", 0, match.start(2)) + 1
                found.append((match[1], match[2], f"{path.relative_to(ROOT).as_posix()}:{line}"))
    return found


def test_no_function_is_named_by_a_participle_or_preposition_alone() -> None:
    assert [
        f"{place} {name}" for kind, name, place in definitions() if kind == "def" and is_participle_or_preposition(name)
    ] == []


def test_names_of_tests_begin_with_their_subject() -> None:
    begins = re.compile(
        r"^ *(?:async )?def (test_(?:what|of|by|as|and|but|that|those|whether|without)_\w+)", re.MULTILINE
    )
    found = [name for path in (ROOT / "tests").rglob("test_*.py") for name in begins.findall(path.read_text())]
    assert found == ["test_of_it"], "test_everything.py writes this one"


def test_a_public_class_name_means_one_thing() -> None:
    files: dict[str, list[str]] = {}
    for kind, name, place in definitions():
        if kind == "class" and not name.startswith("_"):
            files.setdefault(name, []).append(place)
    assert {name: found for name, found in files.items() if len(found) > 1} == {}


@pytest.mark.parametrize("name", ["told", "_kept", "of", "_under", "found", "grouped", "written", "beside"])
def test_a_participle_or_preposition_alone_is_found(name: str) -> None:
    assert is_participle_or_preposition(name)


@pytest.mark.parametrize("name", ["open", "embed", "tell", "is_kept", "found_rows", "rows_of", "needs", "__enter__"])
def test_verbs_nouns_and_longer_names_pass(name: str) -> None:
    assert not is_participle_or_preposition(name)
