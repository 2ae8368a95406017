"""One version, told in three places."""

from __future__ import annotations

import re
import tomllib

import pincite
from tests.support.places import ROOT


def test_the_project_the_package_and_the_changelog_tell_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = re.findall(r"^## (\d\S*) - \d{4}-\d\d$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert project["version"] == pincite.__version__ == versions[0]
    assert versions == sorted(versions, key=lambda version: [int(part) for part in version.split(".")], reverse=True)


def test_a_version_that_changes_an_index_says_how_to_upgrade() -> None:
    newest = (ROOT / "CHANGELOG.md").read_text("utf-8").split(f"## {pincite.__version__}")[1].split("\n## ")[0]
    assert "### Upgrading" in newest
