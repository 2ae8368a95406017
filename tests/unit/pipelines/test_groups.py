from __future__ import annotations

from itertools import product

import pytest

from pipelines.groups import (
    as_group,
    group_name,
    is_principal,
    meant_key,
    part_principals,
    principal_name,
    principal_of,
)

ODD = ("a", "a,b", "b", "a%2Cb", "%", ",", "%2C", "a,", ",a", "ab")


def test_principals_of_different_sources_are_never_the_same() -> None:
    made = {as_group(source, principal): (source, principal) for source, principal in product(ODD, ODD)}
    assert len(made) == len(ODD) ** 2
    assert {principal_of(group) for group in made} == set(ODD)


@pytest.mark.parametrize("source", ["wiki", "w,x", ""])
def test_nobody_can_be_of_a_group_that_a_principal_is(source: str) -> None:
    group = as_group(source, "board")
    assert is_principal(group)
    with pytest.raises(ValueError, match="comma"):
        group_name(group)


def test_documents_and_memberships_write_a_principal_the_same() -> None:
    assert principal_name("  Ma\u0301ire   O'Neill ") == principal_name("M\u00e1ire O'Neill") == "M\u00e1ire O'Neill"
    assert principal_name("Board") != principal_name("board")


def test_groups_and_principals_are_told_apart() -> None:
    assert part_principals(("staff", "wiki,u-1", "wiki,CN=a,OU=b")) == (["staff"], ["u-1", "CN=a,OU=b"])


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        *((key, "groups") for key in ("groups", "group", "Groups", "allowed_groups", "gropus")),
        *((key, "principals") for key in ("principals", "principal", "PRINCIPALS", "principals ", "allowedPrincipals")),
        *(
            (key, "principals")
            for key in ("allowed principal", "principals_allowed", "princpals", "principle", "\uff50rincipals")
        ),
        *((key, "") for key in ("principal_amount", "principal investigator", "municipals", "participants", "prince")),
        *((key, "") for key in ("title", "principality", "capitals", "print")),
    ],
)
def test_a_key_is_recognized_as_the_intended_key(key: str, wanted: str) -> None:
    assert meant_key(key) == wanted
