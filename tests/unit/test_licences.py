"""The page of licences names every package that pincite asks for, each with the licence that its metadata tell."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest
from packaging.utils import canonicalize_name

from tests.support.places import ROOT


@pytest.fixture(scope="module")
def licences() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_licences", ROOT / "docs" / "licences.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def told(licences: ModuleType) -> dict[str, str]:
    rows = re.findall(r"^\| ([\w.-]+) \| \w+ \| \w+ \| (.+) \|$", licences.PAGE.read_text("utf-8"), re.MULTILINE)
    return dict(rows)


def test_every_package_that_is_asked_for_stands_in_it(licences: ModuleType, told: dict[str, str]) -> None:
    asked = {canonicalize_name(requirement.name) for requirement, _ in licences.requirements()}
    assert len(asked) > 40 and asked <= told.keys()


def test_licences_are_those_of_the_metadata(licences: ModuleType, told: dict[str, str]) -> None:
    """Of what is installed: what others bring may be other packages tomorrow."""
    found = {name: licences.licence_of(each) for name, (each, _) in licences.installed().items() if name in told}
    assert len(found) > 100
    assert {name: licence for name, licence in found.items() if licence != told[name]} == {}


def test_every_licence_is_told_and_none_binds_what_uses_it(told: dict[str, str]) -> None:
    assert not [name for name, licence in told.items() if licence == "?"]
    assert {name for name, licence in told.items() if re.search(r"(?<![A-Z])A?GPL", licence)} == set()


def test_models_and_programs_stand_in_it_by_their_packages(licences: ModuleType, told: dict[str, str]) -> None:
    assert {package for _, package, _ in licences.WITHIN} <= told.keys()
