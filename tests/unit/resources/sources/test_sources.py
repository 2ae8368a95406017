"""Listing a folder: what is taken, what is named and skipped, what a side-car says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import SourceError, UsageError
from pipelines.fingerprint import document_id
from pipelines.settings.sources import SourceSettings
from resources.hashes import content_hash
from resources.sources.files import _pattern
from resources.sources.folder import FolderListing, list_source, source_from


def listed(root: Path, **settings: Any) -> FolderListing:
    return list_source(SourceSettings(name="s", path=str(root), **settings), root)


def uris(listing: FolderListing) -> list[str]:
    return [document.uri for document in listing.documents]


def skipped(listing: FolderListing) -> dict[str, str]:
    return {item.uri: item.code for item in listing.skipped}


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"text of {name}")


def test_documents_are_listed_by_place_with_the_hash_of_their_bytes(tmp_path: Path) -> None:
    write(tmp_path, "b.txt", "a/c.md")
    listing = listed(tmp_path)
    assert uris(listing) == ["a/c.md", "b.txt"]
    last = list(listing.documents)[-1]
    assert last.doc_id == document_id("s", "b.txt")
    assert (last.content_hash, last.size) == (content_hash(tmp_path / "b.txt"), len("text of b.txt"))
    assert (last.groups, last.metadata, last.title) == (None, {}, None)


@pytest.mark.parametrize(
    ("patterns", "taken"),
    [
        ({}, ["a.md", "x/b.txt", "x/y/c.txt"]),
        ({"include": ["*.md"]}, ["a.md"]),
        ({"include": ["**/*.txt"]}, ["x/b.txt", "x/y/c.txt"]),
        ({"include": ["x/*"]}, ["x/b.txt"]),
        ({"include": ["x/**"], "exclude": ["**/c.*"]}, ["x/b.txt"]),
        ({"exclude": ["**"]}, []),
    ],
)
def test_patterns_choose_and_exclusion_wins(tmp_path: Path, patterns: dict[str, Any], taken: list[str]) -> None:
    write(tmp_path, "a.md", "x/b.txt", "x/y/c.txt")
    assert uris(listed(tmp_path, **patterns)) == taken


@pytest.mark.case(23)
def test_nothing_outside_the_folder_is_read(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(tmp_path, "secret.txt", "root/kept.txt", "root/sub/own.txt")
    (root / "out.txt").symlink_to(tmp_path / "secret.txt")
    (root / "loop").symlink_to(root)
    (root / "inside.txt").symlink_to(root / "kept.txt")
    (root / "dangling.txt").symlink_to(root / "nowhere.txt")
    os.mkfifo(root / "pipe.txt")
    listing = listed(root)
    assert uris(listing) == ["inside.txt", "kept.txt", "sub/own.txt"]
    assert skipped(listing) == {
        "out.txt": "symlink", "loop": "symlink", "dangling.txt": "symlink", "pipe.txt": "not_a_file",
    }  # fmt: skip


@pytest.mark.case(23)
def test_names_that_cannot_be_shown_are_skipped_and_named(tmp_path: Path) -> None:
    write(tmp_path, "two\nlines.txt", "..dots.txt", ".hidden.txt", "fine … name.txt")
    (tmp_path / os.fsdecode(b"latin-\xe9.txt")).write_text("text")
    (tmp_path / "program.exe").write_bytes(b"MZ")
    listing = listed(tmp_path)
    assert uris(listing) == ["fine … name.txt"]
    assert sorted(skipped(listing).values()) == ["name", "name", "unsupported"]


def test_files_that_programs_keep_beside_documents_are_no_documents(tmp_path: Path) -> None:
    (tmp_path / "sub" / "~$cache").mkdir(parents=True)
    write(
        tmp_path,
        "~$report.docx",
        "sub/~$budget.xlsx",
        "sub/~$cache/a.md",
        ".~lock.plan.odt#",
        "Thumbs.db",
        "sub/thumbs.db",
    )
    write(tmp_path, "Desktop.ini", "ehthumbs.db", ".DS_Store", "sub/._a.md")
    write(tmp_path, "a.md", "~draft.md", "cost~$.md", "sub/my thumbs.db.txt", "desktop.ini.md")
    listing = listed(tmp_path)
    assert uris(listing) == ["a.md", "cost~$.md", "desktop.ini.md", "sub/my thumbs.db.txt", "~draft.md"]
    assert skipped(listing) == {}


@pytest.mark.case(14)
def test_a_folder_that_cannot_be_listed_is_an_error_not_an_empty_source(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot list"):
        listed(tmp_path / "unmounted")


# ---------------------------------------------------------------- side-cars


def test_a_side_car_describes_its_document_and_is_none_itself(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    (tmp_path / "a.md.meta.yaml").write_text(
        "title: A policy\neffective_date: 2026-03-01\nversion: 2\ngroups: [board]\nmetadata: {floor: 3}\n"
    )
    (document,) = listed(tmp_path, groups=["staff"]).documents
    assert (document.title, document.effective_date, document.version) == ("A policy", "2026-03-01", "2")
    assert (document.groups, document.metadata) == (("board",), {"floor": "3"})


@pytest.mark.parametrize(
    ("side_car", "groups"), [(None, None), ("title: A", None), ("groups: [a]", ("a",)), ("groups: a,b", ("a", "b"))]
)
def test_groups_of_a_side_car_stand_beside_the_source_s(
    tmp_path: Path, side_car: str | None, groups: tuple[str, ...] | None
) -> None:
    write(tmp_path, "a.md")
    if side_car is not None:
        (tmp_path / "a.md.meta.yaml").write_text(side_car)
    (document,) = listed(tmp_path, groups=["staff"]).documents
    assert (document.groups, document.source_groups) == (groups, ("staff",))


ALIASES = "[&a0 [x, x], " + ", ".join(f"&a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 40)) + "]"
"""A list of 1.3 KB that would be longer than any memory as text."""


@pytest.mark.case(19)
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("groups: [unclosed", "a.md.meta.yaml, line 1, column 18: not valid YAML"),
        ("- a list", "must be a mapping"),
        ("colour: red", "unknown key 'colour'"),
        ("effective_date: soon", "'soon' is not a date"),
        ("metadata: [a, b]", "metadata"),
        ("title: [a]", "title must be one value"),
        ("version: {a: b}", "version must be one value"),
        ("effective_date: [[2026-03-01]]", "effective_date must be one value"),
        ("groups: [[board]]", "groups must be a list of names"),
        ("groups: {board: yes}", "groups must be a list of names"),
        (f"groups: {ALIASES}", "aliases repeat too much"),
        (f"metadata: {{team: {ALIASES}}}", "aliases repeat too much"),
        ("title: " + "[" * 30 + "]" * 30, "nested more than 20 deep"),
        ("title: [&a [*a]]", "stands within what it repeats"),
        ("title: a\ntitle: b", "'title' is given twice"),
        ("", "is empty"),
        ("# groups: [board]\n", "is empty"),
        ("groups:", "groups has a blank name"),
        ("groups: ''", "groups has a blank name"),
        ("groups: ','", "groups has a blank name"),
        ("groups: []", "groups is blank"),
        ("groups: ['']", "groups has a blank name"),
        ("groups: [board, ' ']", "groups has a blank name"),
        ("groups: null", "groups has a blank name"),
        ("groups: ~", "groups has a blank name"),
        ("groups: [~]", "groups has a blank name"),
        ("groups: [board]\ngroups: []", "'groups' is given twice"),
        ("groups: [board]\n'groups': []", "'groups' is given twice"),
        ("group: board", "'group' may be meant as groups"),
        ("Groups: board", "'Groups' may be meant as groups"),
        ("GROUPS: [board]", "'GROUPS' may be meant as groups"),
        ("gropus: [board]", "'gropus' may be meant as groups"),
        ("\u200bgroups: [board]", "may be meant as groups"),
        ("groups\u00a0: [board]", "may be meant as groups"),
        ('"gr\u043eups": [board]', "may be meant as groups"),
        ("metadata: {groups: [board]}", "groups stands within another key"),
        ("metadata: {Group: board}", "'Group' may be meant as groups"),
        ("<<: {groups: [board]}", "groups stands within another key"),
        ("groups: ['\u00a0']", "groups has a blank name"),
        ("groups: ['\u200b']", "cannot be seen"),
        ('groups: ["bo\\u200bard"]', "cannot be seen"),
        ("groups: ['a,b']", "has a comma"),
        ("groups: ['s,u-1']", "has a comma"),
        ("principals:", "principals has a blank name"),
        ("principals: []", "principals is blank"),
        ("principals: ['']", "principals has a blank name"),
        ("principals: [u-1, ~]", "principals has a blank name"),
        ("groups: [board]\nprincipals:", "principals has a blank name"),
        ("groups: []\nprincipals: [u-1]", "groups is blank"),
        ("principals: 'CN=Board,OU=x'", "has a comma: write a list"),
        ("principals: {u-1: yes}", "principals must be a list of names"),
        ("principals: [[u-1]]", "principals must be a list of names"),
        ("principals: ['u-1\u200b']", "cannot be seen"),
        ("principals: ['\u00a0']", "has a blank name"),
        ("principals: [u-1]\nprincipals: [u-2]", "'principals' is given twice"),
        ("principal: u-1", "'principal' may be meant as principals"),
        ("Principals: [u-1]", "'Principals' may be meant as principals"),
        ("principels: [u-1]", "'principels' may be meant as principals"),
        ("principles: [u-1]", "'principles' may be meant as principals"),
        ('"pr\u0456ncipals": [u-1]', "may be meant as principals"),
        ("allowed_principals: [u-1]", "may be meant as principals"),
        ("metadata: {principals: u-1}", "principals stands within another key"),
        ("metadata: {principal: u-1}", "'principal' may be meant as principals"),
        ("<<: {principals: [u-1]}", "principals stands within another key"),
        (f"principals: [{', '.join(f'user-{at:032}' for at in range(100))}]", "more than the 2,200 bytes"),
        (f"groups: [{', '.join(f'group-{at:032}' for at in range(100))}]", "more than the 2,200 bytes"),
    ],
)
def test_a_wrong_side_car_fails_its_document_alone(tmp_path: Path, text: str, told: str) -> None:
    write(tmp_path, "a.md", "b.md")
    (tmp_path / "a.md.meta.yaml").write_text(text)
    listing = listed(tmp_path)
    assert uris(listing) == ["b.md"]
    (failure,) = listing.failures
    assert (failure.uri, failure.code, failure.stage) == ("a.md", "side_car", "raw_documents")
    assert told in failure.message, failure.message
    assert "a.md.meta.yaml" in failure.message


def test_principals_stand_among_groups_under_the_name_of_their_source(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b.md", "c.md")
    (tmp_path / "a.md.meta.yaml").write_text("groups: [board]\nprincipals: [u-1, 'CN=Board,OU=x', u-1, 17]\n")
    (tmp_path / "b.md.meta.yaml").write_text(
        "principals: u-1\nmetadata: {principal_amount: 5, principal investigator: A}"
    )
    named = {raw.uri: raw.groups for raw in listed(tmp_path).documents}
    assert named["a.md"] == ("board", "s,u-1", "s,CN=Board,OU=x", "s,17")
    assert named["b.md"] == ("s,u-1",)
    assert named["c.md"] is None


def test_a_file_of_memberships_is_no_document_wherever_it_lies(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "sub/_memberships.csv", "_Memberships.CSV", "_memberships.csv")
    found = listed(tmp_path)
    assert uris(found) == ["a.md"]
    assert {item.uri: item.code for item in found.skipped} == dict.fromkeys(
        ("_Memberships.CSV", "_memberships.csv", "sub/_memberships.csv"), "memberships"
    )
    assert found.memberships is None and found.failures == []


@pytest.mark.case(19)
def test_a_file_over_the_limit_is_named_and_not_read(tmp_path: Path) -> None:
    write(tmp_path, "b.md")
    with (tmp_path / "a.pdf").open("wb") as stream:
        stream.truncate(1 << 43)
    listing = list_source(SourceSettings(name="s", path=str(tmp_path)), tmp_path, max_megabytes=512)
    assert uris(listing) == ["b.md"]
    (failure,) = listing.failures
    assert (failure.uri, failure.code, failure.stage) == ("a.pdf", "limit_exceeded", "raw_documents")
    assert "8,388,608 MB" in failure.message and "parsing.max_megabytes (512)" in failure.message


# ---------------------------------------------------------------- --source


def test_a_source_is_named_by_its_folder_or_by_the_command(tmp_path: Path) -> None:
    (tmp_path / "handbook").mkdir()
    plain = source_from(str(tmp_path / "handbook"))
    assert (plain.name, plain.path) == ("handbook", str(tmp_path / "handbook"))
    assert source_from(f"staff={tmp_path / 'handbook'}").name == "staff"
    known = SourceSettings(name="staff", path="elsewhere", exclude=("*.tmp",), groups=("g",))
    again = source_from(f"staff={tmp_path / 'handbook'}", [known])
    assert (again.exclude, again.groups, again.path) == (("*.tmp",), ("g",), str(tmp_path / "handbook"))


def test_a_source_must_be_a_folder(tmp_path: Path) -> None:
    write(tmp_path, "file.txt")
    with pytest.raises(UsageError, match="is not a folder"):
        source_from(str(tmp_path / "file.txt"))
    with pytest.raises(UsageError, match="no such folder"):
        source_from(f"name={tmp_path / 'none'}")


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("", "'' names no folder"),
        ("name=", "'name=' names no folder"),
        ("hanbook", "hanbook: no such folder: .*; did you mean .*/handbook"),
        ("/no/such/folder", "^/no/such/folder: no such folder$"),
        ('"handbook"', "leave out the quotes"),
        (r"C:\Users\me\docs", "under WSL it is /mnt/c/Users/me/docs"),
        ("file.txt", "name the folder that it is in, or look at it with `pincite parse file.txt`"),
    ],
)
def test_a_folder_that_is_mistyped_is_told_what_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, told: str
) -> None:
    write(tmp_path, "file.txt")
    (tmp_path / "handbook").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=told):
        source_from(typed)


@pytest.mark.parametrize("glob", ["a**/b", "****/x", "**a**/"])
def test_folders_begin_where_a_name_does(glob: str) -> None:
    with pytest.raises(ValueError, match="whole folders"):
        SourceSettings(name="a", path="b", exclude=(glob,))


@pytest.mark.parametrize(
    ("glob", "path", "taken"),
    [
        ("**/*.pdf", "a.pdf", True),
        ("**/*.pdf", "x/y/a.pdf", True),
        ("*.pdf", "x/a.pdf", False),
        ("a*b*c", "abbbcbc", True),
        ("a*b*c", "ab/c", False),
        ("**b*c", "ab/xbyc", True),
        ("x/**/*draft*/**", "x/a/my draft 1/b/c.md", True),
        ("x/**/*draft*/**", "x/a/draft.md", False),
        ("?.m?", "a.md", True),
        ("?.m?", "/.md", False),
    ],
)
def test_globs(glob: str, path: str, taken: bool) -> None:
    assert bool(_pattern(glob).match(path)) is taken
