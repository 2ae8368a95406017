"""The forms for issues are such as GitHub takes, and name commands that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from pincite.cli import cli
from tests.support.places import ROOT

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_has_what_it_must(form: Path) -> None:
    read = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert read["name"] and read["description"]
    for part in read["body"]:
        assert part["type"] in ("markdown", "textarea", "input")
        assert part["attributes"].get("value" if part["type"] == "markdown" else "label")
    ids = [part["id"] for part in read["body"] if part["type"] != "markdown"]
    assert ids and len(set(ids)) == len(ids)


def test_the_commands_that_forms_name_are_there() -> None:
    text = "".join(form.read_text(encoding="utf-8") for form in FORMS)
    named = set(re.findall(r"`pincite ([a-z]+)", text))
    assert named and named <= cli.commands.keys()
