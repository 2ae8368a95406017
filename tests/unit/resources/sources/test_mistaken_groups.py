"""A mistake about groups fails its document, whose text nobody then finds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipelines.settings.sources import SourceSettings
from resources.sources.folder import list_source

BOARD = "groups: [board]\n"
SIDE_CARS: Mapping[str, str] = {
    "blank": "groups:\n",
    "empty list": "groups: []\n",
    "empty text": "groups: ''\n",
    "comma": "groups: ','\n",
    "null": "groups: null\n",
    "doubled": "groups: [board]\ngroups: []\n",
    "singular": "group: board\n",
    "capital": "Groups: [board]\n",
    "nested": "metadata: {groups: [board]}\n",
    "space": "groups: ['\u00a0']\n",
    "unseen": "groups: ['\u200b']\n",
    "nothing": "",
    "broken": "groups: [board\n",
    "large": f"title: {'x' * 70_000}\n",
    "blank principals": "principals:\n",
    "no principals": "principals: []\n",
    "one principal": "principal: u-1\n",
    "principals within": "metadata: {principals: u-1}\n",
    "as text": "principals: 'u-1, u-2'\n",
    "blank beside principals": "groups:\nprincipals: [u-1]\n",
    "many": f"principals: [{', '.join(f'user-{at:032}' for at in range(1000))}]\n",
}
HEADS: Mapping[str, str] = {
    "blank": "---\ngroups:\n---",
    "empty list": "---\ngroups: []\n---",
    "doubled": "---\ngroups: [board]\ngroups: []\n---",
    "singular": "---\ngroup: board\n---",
    "commented": "<!-- kept -->\n---\ngroup: board\n---",
    "blank lines": "\n\n\n\n\n---\ngroups:\n---",
    "unending": "---\ngroups: [board]\n",
    "listed": "---\n- groups: [board]\n---",
    "large": f"---\ngroups: [board]\nnote: {'x' * 70_000}\n---",
    "tabs": "---\n\tgroups: [board]\n---",
    "nested": "---\nmetadata: {groups: [board]}\n---",
    "principals": "---\nprincipals: [u-1]\n---",
    "one principal": "---\nprincipal: u-1\n---",
    "a plus": "+++\nprincipals = ['u-1']\n+++",
    "bare": "groups: board\n",
    "in a comment": "<!-- groups: board -->",
    "in a fence": "```yaml\ngroups: [board]\n```",
}
BESIDE: Mapping[str, tuple[str, str]] = {
    "backup": (".meta.yaml~", BOARD),
    "yaml": (".yaml", BOARD),
    "underscore": ("_meta.json", '{"groups": ["board"]}'),
    "text": (".meta.yaml.txt", BOARD),
    "broken": (".ini", "[what\ngroups=board"),
}
"""Files beside a document, by how their names continue its name, and what they say."""


def codes(root: Path) -> dict[str, str]:
    listing = list_source(SourceSettings(name="docs", path=str(root)), root)
    assert list(listing.documents) == []
    return {failure.uri: failure.code for failure in listing.failures}


def test_a_mistaken_side_car_fails_its_document(tmp_path: Path) -> None:
    for name, text in SIDE_CARS.items():
        (tmp_path / f"{name}.txt").write_text("The contract.")
        (tmp_path / f"{name}.txt.meta.yaml").write_text(text)
    assert codes(tmp_path) == {f"{name}.txt": "side_car" for name in SIDE_CARS}


def test_mistaken_front_matter_fails_its_document(tmp_path: Path) -> None:
    for name, head in HEADS.items():
        (tmp_path / f"{name}.md").write_text(f"{head}\nThe contract.\n")
    assert codes(tmp_path) == {f"{name}.md": "front_matter" for name in HEADS}


def test_a_file_that_restricts_under_another_name_fails_its_document(tmp_path: Path) -> None:
    for name, (ending, text) in BESIDE.items():
        (tmp_path / f"{name}.txt").write_text("The contract.")
        (tmp_path / f"{name}.txt{ending}").write_text(text)
    assert codes(tmp_path) == {
        **{f"{name}.txt": "side_car" for name in BESIDE},
        **{f"{name}.txt{ending}": "orphan" for name, (ending, _) in BESIDE.items()},
    }
