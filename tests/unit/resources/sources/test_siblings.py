"""Files beside a document, and heads of texts: what withholds a document that is silent itself, and what does not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipelines.parsing.formats import WITH_HEADS
from pipelines.settings.sources import SourceSettings
from resources.parsers.registry import media_type_of
from resources.parsers.source_text import decode_plainly
from resources.parsers.text.front_matter import groups_at_top
from resources.side_cars import LARGEST_SIDE_CAR, may_restrict
from resources.sources import folder as listing_module
from resources.sources.folder import list_source
from resources.sources.siblings import Before, Siblings
from tests.support.places import DATA, needs_data

SOURCE = SourceSettings(name="s", path="/s")


def listed(root: Path, before: Before = listing_module.NOTHING) -> dict[str, object]:
    """Groups of what is a document, None for everybody, and codes of what failed."""
    listing = list_source(SourceSettings(name="s", path=str(root)), root, before=before)
    found: dict[str, object] = {document.uri: document.groups for document in listing.documents}
    return {**found, **{failure.uri: failure.code for failure in listing.failures}}


def written(root: Path, files: Mapping[str, str | bytes]) -> None:
    for name, said in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(said.encode() if isinstance(said, str) else said)


# ---------------------------------------------------------------- names

SAYS = "groups: [hr]\n"
NAMES = [
    *("g.md.meta.yaml~", "g.md.meta.yaml.bak", "g.md.meta.yaml.txt", "g.md.meta.yaml (1)", "g.md.meta.yaml\r"),
    *("g.md.yaml", "g.md.yml", "g.md.json", "g.md.toml", "g.md.ini", "g.md.xml", "g.md.meta", "g.md.meta.yml"),
    *("g.md.meta.json", "g.md.meta.xml", "g.md.META.YAML", "G.MD.meta.yaml", "g.md.metadata.yaml", "g.md.access"),
    *(
        "g.md_meta.yaml",
        "g.md-meta.yaml",
        "g.md meta.yaml",
        "g.md+x",
        "g.md#",
        "#g.md.meta.yaml#",
        "g.md.elements.yaml",
    ),
    *("g.yaml", "g.meta.yaml", "g.meta.yml", "g_meta.yaml", "g-meta.json", "g (copy).meta.yaml", "g.groups", "g.acl"),
    *(".g.md.meta.yaml", ".g.meta.yaml", "._g.md.meta.yaml", "..g.md.meta.yaml", ".g.md.meta.yaml.swp", "_g.md.yaml"),
    *("ｇ.md.meta.json", "g\u200b.md.meta.yaml", "g.md\u00a0.meta.yaml", "g.md\u2026yaml", "g.md.Elements.json"),
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_file_that_continues_the_name_of_a_document_and_names_groups_withholds_it(name: str, tmp_path: Path) -> None:
    written(tmp_path, {"g.md": "Text.", name: SAYS, "other.md": "Other."})
    found = listed(tmp_path)
    assert found.pop("g.md") in ("side_car", "orphan") and found.pop("other.md") is None
    assert set(found.values()) <= {"orphan"}, "what names groups is no document"


@pytest.mark.parametrize("name", ["gx.yaml", "g2.yaml", "xg.md.yaml", "sub/g.yaml", "gé.yaml", "other.yaml", "gक.yaml"])
def test_a_file_that_continues_no_name_withholds_nothing(name: str, tmp_path: Path) -> None:
    written(tmp_path, {"g.md": "Text.", name: SAYS})
    assert listed(tmp_path)["g.md"] is None


@pytest.mark.parametrize("name", ["e\u0301.md.meta.json", "\u00c9.md.meta.json", "\u00e9.meta.yml"])
def test_forms_of_unicode_are_one_name(name: str, tmp_path: Path) -> None:
    written(tmp_path, {"\u00e9.md": "Text.", name: SAYS})
    assert listed(tmp_path)["\u00e9.md"] == "side_car"


def test_a_whole_name_means_that_document_alone_and_a_stem_all_that_have_it(tmp_path: Path) -> None:
    written(tmp_path, {"g.md": "1", "g.txt": "2", "g-1.md": "3", "g.md.yaml": SAYS})
    assert listed(tmp_path) == {"g.md": "side_car", "g.md.yaml": "orphan", "g.txt": None, "g-1.md": None}
    (tmp_path / "g.md.yaml").rename(tmp_path / "g.yaml")
    assert listed(tmp_path) == {"g.md": "side_car", "g.txt": "side_car", "g.yaml": "orphan", "g-1.md": None}


def test_a_document_that_names_its_own_groups_is_for_these(tmp_path: Path) -> None:
    head = "---\ngroups: [law]\n---\nText."
    written(tmp_path, {"a.md": head, "a.md~": head, "a.yaml": SAYS, "b.txt": "Text.", "b.txt.meta.yaml": SAYS})
    written(tmp_path, {"b.txt.meta.yaml~": "groups: [board]", "b.yml": "groups: [board]"})
    assert listed(tmp_path) == {"a.md": ("law",), "b.txt": ("hr",)}
    (tmp_path / "b.txt.meta.yaml").write_text("title: B")
    assert listed(tmp_path)["b.txt"] == "side_car", "a title alone decides nothing"


def test_a_parsable_file_is_a_sibling_where_it_continues_a_whole_name(tmp_path: Path) -> None:
    written(tmp_path, {"a.txt": "Text.", "a.txt.meta.txt": '{"groups": ["hr"]}', "a-2.md": "---\ngroups: [hr]\n---\n"})
    assert listed(tmp_path) == {"a.txt": "side_car", "a.txt.meta.txt": "orphan", "a-2.md": ("hr",)}
    written(tmp_path, {"b.txt": "Text.", "b.txt.meta.html": "<meta name='groups' content='hr'><p>"})
    assert (listed(tmp_path)["b.txt"], listed(tmp_path)["b.txt.meta.html"]) == ("side_car", "orphan")
    (tmp_path / "b.txt.meta.html").unlink()
    (tmp_path / "b.txt").unlink()
    written(tmp_path, {"a.txt.meta.txt.meta.yaml": "title: On groups\ngroups: [law]"})
    assert listed(tmp_path) == {"a.txt": None, "a.txt.meta.txt": ("law",), "a-2.md": ("hr",)}, "it is a document"


def test_siblings_of_the_file_that_a_link_leads_to_count(tmp_path: Path) -> None:
    written(tmp_path, {"sub/a.txt": "Text.", "sub/a.txt.yaml": SAYS})
    (tmp_path / "near.txt").symlink_to("sub/a.txt")
    assert listed(tmp_path)["near.txt"] == listed(tmp_path)["sub/a.txt"] == "side_car"


def test_an_unreadable_sibling_may_restrict(tmp_path: Path) -> None:
    root = tmp_path / "root"
    written(root, {f"{name}.md": "Text." for name in "abcd"})
    (tmp_path / "outside.yaml").write_text("title: x")
    (root / "a.md.json").symlink_to("../outside.yaml")
    os.mkfifo(root / "b.md.json")
    (root / "c.md.json").symlink_to("nowhere")
    (root / "d.md.json").symlink_to(tmp_path)
    found = listed(root)
    assert (found["a.md"], found["b.md"]) == ("side_car", "side_car")
    assert (found["c.md"], found["d.md"]) == (None, None), "a link to nothing, or to a folder, says nothing"


def test_a_document_that_fails_otherwise_is_withheld_for_its_sibling(tmp_path: Path) -> None:
    written(tmp_path, {"a.txt": b"x" * (2 << 20), "a.yaml": SAYS})
    listing = list_source(SourceSettings(name="s", path=str(tmp_path)), tmp_path, max_megabytes=1)
    assert {item.uri: item.code for item in listing.failures}["a.txt"] == "side_car"


def test_a_document_that_is_renamed_away_from_its_sibling_stays_withheld(tmp_path: Path) -> None:
    written(tmp_path, {"a.txt": "Text.", "a.yaml": SAYS, "b.txt": "Text 2.", "b.txt.acl": SAYS})
    first = list_source(SourceSettings(name="s", path=str(tmp_path)), tmp_path)
    assert first.lost.keys() == {"a.txt", "b.txt"}
    (tmp_path / "a.txt").rename(tmp_path / "new.txt")
    (tmp_path / "b.txt").rename(tmp_path / "later.txt")
    found = listed(tmp_path, Before(first.lost, lost=first.lost))
    assert found == {"new.txt": "orphan", "later.txt": "orphan", "a.yaml": "orphan", "b.txt.acl": "orphan"}


def test_a_sibling_whose_document_is_not_there_is_named(tmp_path: Path) -> None:
    written(
        tmp_path, {"gone.txt.meta.yml": SAYS, "GONE.txt": "Text.", "gone.md.json": '{"title": "A"}', "x.yaml": SAYS}
    )
    assert listed(tmp_path) == {"GONE.txt": "side_car", "gone.txt.meta.yml": "orphan"}
    (tmp_path / "GONE.txt").unlink()
    assert listed(tmp_path) == {"gone.txt.meta.yml": "orphan"}


def test_the_message_says_what_to_do(tmp_path: Path) -> None:
    written(tmp_path, {"a.txt": "Text.", "a.yaml": SAYS})
    listing = list_source(SourceSettings(name="s", path=str(tmp_path)), tmp_path)
    said = {item.uri: item.message for item in listing.failures}
    assert "a.yaml beside it names groups" in said["a.txt"]
    assert all("a.txt.meta.yaml" in message and "remove" in message for message in said.values())


def test_every_sibling_is_read_once_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three documents share a stem, and no name is looked at for another."""
    written(tmp_path, {"a.md": "1", "a.txt": "2", "a.html": "3", "a.bin": b"\0" * (1 << 20), "b.bin": "x"})
    asked: list[int] = []

    def ask(content: bytes, media_type: str | None) -> bool:
        asked.append(len(content))
        return may_restrict(content, media_type)

    monkeypatch.setattr(listing_module, "may_restrict", ask)
    assert set(listed(tmp_path)) == {"a.md", "a.txt", "a.html"}
    assert asked == [LARGEST_SIDE_CAR + 1]


def test_names_of_a_large_folder_are_looked_up_a_few_times_each(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for at in range(2000) for name in (f"a-{at}.md", f"a-{at}.json")]
    looked, found = 0, TextSetOf(names)

    class Counting(TextSetOf):
        def __contains__(self, name: object) -> bool:
            nonlocal looked
            looked += 1
            return super().__contains__(name)

    monkeypatch.setattr("resources.sources.siblings.TextSet", Counting)
    assert len(list(Siblings(SOURCE, found))) == 2000
    assert looked < 12 * len(names)


class TextSetOf(set[str]):
    """A TextSet in memory."""


# ---------------------------------------------------------------- what a sibling says

RESTRICTS: dict[str, str | bytes] = {
    "yaml": "groups: [hr]",
    "capital": "Groups: hr",
    "singular": "group: hr",
    "misspelt": "gropus: [hr]",
    "homoglyph": "gr\u043eups: [hr]",
    "principals": "principals: [u-1]",
    "allowed": "title: x\nallowed_groups: [hr]",
    "blank": "groups:",
    "json": '{"title": "A", "groups": ["hr"]}',
    "tabs": '{\n\t"groups": ["hr"]\n}',
    "escaped": '{"gr\\u006fups": ["hr"]}',
    "json5": "{groups: ['hr'],}",
    "damaged json": '{"title": "A", "groups": ["hr"',
    "damaged map": '{"version": 1, "document": {"groups": ["hr"]}, "elements": [',
    "map": '{"version": 1, "document": {"groups": ["hr"]}, "elements": []}',
    "side-car within": "metadata: {groups: [hr]}",
    "listed": "- groups: [hr]",
    "two documents": "---\ngroups: [hr]\n---\n",
    "doubled": "groups: [hr]\ngroups: [law]",
    "broken yaml": "title: [a\ngroups: [hr]\n",
    "garbage before": "%$#@ {{{ \x01\ngroups: hr\n",
    "toml": 'title = "A"\ngroups = ["hr"]',
    "toml table": '[document]\ngroups = ["hr"]',
    "ini": "; what may be read\n[access]\ngroups=hr",
    "section": "[groups]\nhr = true",
    "properties": "groups = hr",
    "commented": "# groups: [hr]",
    "markdown": "---\ntitle: A\ngroups: [hr]\n---\n\n# A\n\nText.",
    "prose before": "Please note:\nsome words of prose\ngroups: hr",
    "xml": "<meta><groups><group>hr</group></groups></meta>",
    "xml property": '<?xml version="1.0"?><document groups="hr"/>',
    "property of a page": "<html><head><title>A</title><meta name='groups' content='hr'></head></html>",
    "named property": '<properties><property name="groups" value="hr"/></properties>',
    "utf-16": "groups: [hr]".encode("utf-16"),
    "utf-16 without a mark": "groups: [hr]".encode("utf-16-le"),
    "utf-32": "groups: [hr]".encode("utf-32"),
    "mark": "\ufeffgroups: [hr]".encode(),
    "crlf": "title: A\r\ngroups: [hr]\r\n",
    "cr": "title: A\rgroups: [hr]\r",
    "swap file": b"b0VIM 9.0\0\0\0\0U3210\0\0\0groups: [hr]\0title: x\0",
    "latin-1": "title: Caf\xe9\ngroups: [hr]".encode("latin-1"),
    "large": "groups: [hr]\n" + "x: y\n" * 20_000,
    "large json": '{"groups": ["hr"], "a": "' + "x" * 70_000,
    "tagged": "!!map {groups: [hr]}",
    "question": "? groups\n: [hr]",
    "deep": "groups: " + "[" * 40 + "]" * 40,
}
RESTRICTS_NOTHING: dict[str, str | bytes] = {
    "nothing": "",
    "unity": "fileFormatVersion: 2\nguid: 8a1\nTextureImporter:\n  spriteGroups: 1\n",
    "compose": "services:\n  web:\n    groups: [a]\n    group_add: [b]\n",
    "nested json": '{"data": {"groups": [1]}, "rows": [{"group": "a"}]}',
    "records": '[{"id": 1, "group": "a"}, {"id": 2, "group": "b"}]',
    "damaged records": '[{"id": 1, "group": "a"}, {"id": 2, "group": "b"',
    "deep damaged": '{"a": {"groups": [1]}, "b": ',
    "words": "The groups of the north came on Monday.\nGroups of three.\n",
    "prose": "Note well.\n\nGroups: the following groups of people may come to it on Monday.\n",
    "python": "import re\n\ndef first(text):\n    groups = re.match(text).groups()\n    return groups\n",
    "python at the top": "import re\ngroups = re.match('a', 'b').groups()\n",
    "markup": "<svg><g id='group'/></svg>",
    "project": "<Project><ItemGroup><Compile Include='a'/></ItemGroup><PropertyGroup/></Project>",
    "pom": "<project><groupId>org.example</groupId></project>",
    "text of xml": "<a>groups: of people</a>",
    "picture": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 40,
    "groups in bytes": b"\0\1\2groups\0\3principals\xff" * 50,
    "log": "2026-01-01 12:00:00 groups: 4 joined\n" * 40,
    "large": "x" * 70_000,
    "tex": "\\section{Groups}\nLet $G$ be one: groups are sets.\n",
    "names": "hr\nboard\n",
    "subtitles": "1\n00:00:01,000 --> 00:00:02,000\nThe groups, they said.\n",
    "lock": ",ann,host,01.01.2026 10:00,file:///home/ann;",
    "growth": "growth: 3\nground: wet\ngrouping: no\nprincipal_amount: 4\n",
}


def test_a_possible_document_is_checked_by_its_head_only() -> None:
    said = b"# Notes\n\nSome text.\n\ngroups: hr\n"
    assert may_restrict(said) and not may_restrict(said, media_type="text/markdown")
    assert may_restrict(b"---\ngroups: [hr]\n---\nText", media_type="text/markdown")


@pytest.mark.parametrize("said", RESTRICTS.values(), ids=RESTRICTS)
def test_a_sibling_restricts_that_has_groups_as_a_key(said: str | bytes) -> None:
    content = said.encode() if isinstance(said, str) else said
    assert may_restrict(content[: LARGEST_SIDE_CAR + 1])


@pytest.mark.parametrize("said", RESTRICTS_NOTHING.values(), ids=RESTRICTS_NOTHING)
def test_a_sibling_that_speaks_of_groups_restricts_nothing(said: str | bytes) -> None:
    content = said.encode() if isinstance(said, str) else said
    assert not may_restrict(content[: LARGEST_SIDE_CAR + 1])


# ---------------------------------------------------------------- heads

_FRONT = "---\ngroups: [hr]\n---\n"
HEADS = [
    *(("a.txt", text) for text in (
        _FRONT, _FRONT.replace("\n", "\r\n"), "+++\ngroups = ['hr']\n+++\n", ";;;\n{\"groups\": [\"hr\"]}\n;;;\n",
        '{"groups": ["hr"]}\n', '{\n "title": "x",\n "groups": ["hr"]\n}\n', "```yaml\ngroups: [hr]\n```\n",
        "~~~\ngroups: hr\n~~~\n", "<!-- groups: hr -->\n", "<!--\ngroups:\n  - hr\n-->\n", "groups: hr\n\n",
        "Groups: hr\n\n", "group: hr\n", "GROUPS=hr\n", "# groups: hr\n", "// groups: hr\n", "; groups = hr\n",
        "% groups: hr\n", "/*\n * groups: hr\n */\n", ":groups: hr\n\n", "= Title\n:groups: hr\n\n",
        "groups:\n- hr\n\n",         "Pay bands\ngroups: hr\n\n",
        "title: Pay\n\ngroups: [hr]\n\n", "allowed_groups: [hr]\n", "principals: [u-1]\n",
        "gr\u043eups: hr\n", "\u200bgroups: hr\n", "===\ngroups: hr\n===\n", "> groups: hr\n\n", "- groups: hr\n\n",
        "**groups:** hr\n\n", "`groups: hr`\n\n", "[groups]\nhr\n\n", '"groups": ["hr"]\n', "\n\n  groups: hr\n",
    )),
    *(("a.rst", text) for text in (
        ":groups: hr\n\n", ".. groups: hr\n\n", "..\n   groups: hr\n\n", ".. meta::\n   :groups: hr\n\n",
        "=====\nTitle\n=====\n\n:Author: x\n:groups: hr\n\n",
    )),
    *(("a.org", text) for text in (
        "#+GROUPS: hr\n", "#+TITLE: A\n#+groups: hr\n* A\n", ":PROPERTIES:\n:GROUPS: hr\n:END:\n",
    )),
    *(("a.html", text) for text in (
        f"{_FRONT}<html><body>", "<!-- groups: hr -->\n<html><body>", f"<!doctype html>\n<!--\n{_FRONT}-->\n<body>",
        '<html><head><title>A</title><meta name="groups" content="hr"></head><body>', "groups: hr\n<p>",
        "<meta content=hr name=Groups>", "<p>groups: hr</p><p>", f"<pre>{_FRONT}</pre>",
    )),
    *(("a.csv", text) for text in ("# groups: hr\nid,name\n", f"{_FRONT}id,name\n", "groups: hr\nid,name\n")),
    ("a.xml", '<?xml version="1.0"?>\n<!-- groups: hr -->\n<a>'),
    *(("a.md", text) for text in (
        "groups: hr\n\n", "<!-- groups: hr -->\n# A\n", "```yaml\ngroups: [hr]\n```\n\n# A\n", 
        "# Pay\n\ngroups: [hr]\n\n", "/* title: x\n * groups: hr */\n",
        "title: Pay\ngroups: hr\n\n# A\n", "---\ntitle: A\n---\n\n<!-- groups: hr -->\n", "[//]: # (groups: hr)\n\n",
    )),
]  # fmt: skip
NO_HEADS = [
    *(("a.txt", text) for text in (
        "Groups: the following groups of people may come.\n", "Groups\n======\n", "Group: North\nDate: 1 May\n",
        "Newsgroups: comp.lang.c\nSubject: x\n\n", "MINUTES\n\nGroup: Finance Committee\nDate: 3 May\n", "Groups: 12\n",
        "Groups: see below.\n", "Pancakes\n\nFor groups: double it all.\n",
        "The groups: hr, board and law may read it.\n",
        "uid=0(root) gid=0(root) groups=0(root)\n", "How to restrict a file\n\nWrite groups: [hr] at its head.\n",
        "Working Group: HTTP\n", "Principal: Mrs Jones\n", "principal_amount: 5000\n", "Grouping: by age\n",
        "Title\n\nA paragraph comes first here\n\ngroups: hr\n", "2026-01-01 12:00 groups: hr\n",
        "INFO: groups loaded\n", "title: x\nauthor:\n  group: staff\n",
    )),
    *(("a.md", text) for text in (
        "# Groups\n", "# Groups: an overview\n", "## Group: Lions\n", "# A\n\n```yaml\ngroups: [hr]\n```\n",
        "# A\n\nWrite at the head:\n\n    groups: [hr]\n", "---\n\nIt begins.\n\ngroups: [one]\n",
    )),
    *(("a.rst", text) for text in (
        "Groups\n------\nGroup: North\n", "Guide\n=====\n\nExample::\n\n    groups: [hr]\n",
    )),
    *(("a.html", text) for text in (
        '<html><head><meta name="content_group" content="Docs"></head><body>', "<title>Groups: hr</title><p>",
        "<body><h1>Groups</h1><p>Groups: the people who came.</p>", 
        "<script>var x = {groups: 1};\ngroups: x</script><p>",
        "<style>\n.groups: hr {}</style><p>", "<ul><li>Groups:</li><li>A</li></ul>",
    )),
    *(("a.csv", text) for text in (
        "id,groups\n1,a\n", "groups\na\n", '"Group: A",1\n', "Report: Sales\nGroup: North\n",
    )),
    ("a.xml", "<a><groups>x</groups></a>"),
    ("a.eml", "Subject: A\nNewsgroups: a.b\nGroups: hr\n\n"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "head"), HEADS, ids=ascii)
def test_a_head_that_names_groups_and_is_not_obeyed_withholds_its_text(name: str, head: str, tmp_path: Path) -> None:
    written(tmp_path, {name: f"{head}The bands of pay are said here.\n"})
    assert listed(tmp_path) == {name: "front_matter"}
    (tmp_path / f"{name}.meta.yaml").write_text(SAYS)
    assert listed(tmp_path) == {name: ("hr",)}, "its side-car says it"


@pytest.mark.parametrize(("name", "head"), NO_HEADS, ids=ascii)
def test_a_head_that_speaks_of_groups_withholds_nothing(name: str, head: str, tmp_path: Path) -> None:
    written(tmp_path, {name: f"{head}The bands of pay are said here.\n"})
    assert listed(tmp_path) == {name: None}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
def test_a_head_is_asked_in_every_encoding(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(f"{_FRONT}The bands of pay are said here.".encode(encoding))
    assert listed(tmp_path) == {"a.txt": "front_matter"}


@needs_data("")
def test_no_file_of_the_shared_data_is_withheld() -> None:
    """Neither for its head or a file beside it, nor when every file beside it is asked as if it were a sibling."""
    listing = list_source(SourceSettings(name="s", path=str(DATA)), DATA)
    assert len(listing.documents) > 400 and listing.failures == []
    files = [file for file in DATA.rglob("*") if file.is_file()]
    texts = [file for file in files if media_type_of(file) in WITH_HEADS]
    assert len(texts) > 200
    for file in texts:
        assert not groups_at_top(decode_plainly(file.read_bytes()[: 1 << 18]), media_type_of(file) or ""), file
    for file in (file for file in files if media_type_of(file) is None):
        with file.open("rb") as stream:
            assert not may_restrict(stream.read(LARGEST_SIDE_CAR + 1)), file
