"""A restriction that cannot be read never makes a document public."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pipelines.errors import LIMITED, DocumentError, PinciteError, SourceError, UsageError
from pipelines.fingerprint import document_id
from pipelines.settings.base import Settings
from pipelines.settings.sources import SourceSettings
from resources.documents.protocol import Task
from resources.engine import withheld
from resources.generations import upkeep as kept_generations
from resources.parsers.registry import ELEMENTS
from resources.parsers.text.front_matter import front_matter
from resources.settings_file import Project
from resources.sources.folder import list_source
from resources.sources.registry import SourceRegistry
from resources.state.run import Run


def listed(root: Path) -> dict[str, object]:
    listing = list_source(SourceSettings(name="s", path=str(root)), root)
    found: dict[str, object] = {document.uri: document.groups for document in listing.documents}
    return {**found, **{failure.uri: failure.code for failure in listing.failures}}


def test_front_matter_that_is_not_yaml_fails_its_document() -> None:
    with pytest.raises(DocumentError, match="not valid YAML") as caught:
        front_matter("---\ntitle: Pay: 2026 bands\ngroups: [hr]\n---\nText.")
    assert caught.value.code == "front_matter"


def test_own_keys_of_front_matter_have_no_case() -> None:
    assert front_matter("---\nGroups: [hr, pay]\nTitle: Pay\n---\nText.")[0] == {"groups": "hr, pay", "title": "Pay"}


def test_a_side_car_that_is_no_plain_file_of_the_source_fails_its_document(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside.yaml").write_text("title: Outside")
    for name, target in (("dangling", "nowhere"), ("escaping", "../outside.yaml")):
        (root / f"{name}.txt").write_text("text")
        (root / f"{name}.txt.meta.yaml").symlink_to(target)
    (root / "large.txt").write_text("text")
    (root / "large.txt.meta.yaml").write_text("title: " + "x" * 70_000)
    (root / "spaced.txt").write_text("text")
    (root / "spaced.txt.meta.yaml").write_text("groups: hr , pay")
    assert listed(root) == {
        "dangling.txt": "side_car",
        "escaping.txt": "side_car",
        "large.txt": "side_car",
        "spaced.txt": ("hr", "pay"),
    }


def test_two_folders_of_one_name_are_refused() -> None:
    book = SourceRegistry(None, None)  # type: ignore[arg-type]
    book.select(SourceSettings(name="docs", path="/a/docs"))
    book.select(SourceSettings(name="docs", path="/a/docs"))
    with pytest.raises(SourceError, match="NAME=PATH"):
        book.select(SourceSettings(name="docs", path="/b/docs"))


HEADS = {
    "a comment beside it": "--- # secret\ngroups: [hr]\n---",
    "json": '---json\n{"title": "Pay", "groups": ["hr"]}\n---',
    "json beside it": '---json {"groups": ["hr"]}\n---',
    "json alone": '{\n  "title": "Pay",\n  "groups": ["hr"]\n}',
    "four": "----\ntitle: Pay\ngroups: [hr]\n----",
    "toml": '+++\ntitle = "Pay"\ngroups = ["hr"]\n+++',
    "em dash": "—\ngroups: [hr]\n—",
    "corrected": "—-\ngroups: [hr]\n—-",
    "no-break space": "\u00a0---\ngroups: [hr]\n---",
    "full-width colon": "---\ngroups：[hr]\n---",
    "full-width rule": "－－－\ngroups: [hr]\n－－－",
    "unclosed comment": "<!-- kept\n---\ngroups: [hr]\n---",
    "under a heading": "# Pay\n\n---\ngroups: [hr]\n---",
    "second block": "---\ntitle: Pay\n---\n\n---\ngroups: [hr]\n---",
    "allowed": "---\nallowed_groups: [hr]\n---",
    "access": "---\naccess-group: hr\n---",
    "camel": "---\nallowedGroups: [hr]\n---",
    "joined": "---\nallowedgroups: [hr]\n---",
    "after lists": "----\ntags:\n- a\n- b\nnote: |\n  one line\n\n  two\ngroups:\n- hr\n----",
    "fenced": "```yaml\n---\ngroups: [hr]\n---\n```",
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_unsupported_front_matter_meant_to_restrict_is_refused(head: str, tmp_path: Path) -> None:
    text = f"{head}\n\nThe bands of pay.\n"
    with pytest.raises(DocumentError) as caught:
        front_matter(text)
    assert caught.value.code == "front_matter"
    (tmp_path / "a.md").write_text(text)
    (tmp_path / "b.md").write_text(text, encoding="utf-16")
    assert set(listed(tmp_path).values()) == {"front_matter"}


@pytest.mark.parametrize(
    "text",
    [
        "# Rules\n\n---\n\nWho may come is said here.\n\nGroups: all of them.\n",
        "---\n\nIt begins with a break.\n\nGroups: [one, two]\n",
        "Title\n-----\n\nSome words first.\n\n" + "line\n" * 60 + "---\nGroups: ours\n",
        "# How to restrict\n\n```yaml\n---\ngroups: [hr]\n---\n```\n",
        "Name | Group\n--- | ---\nGroup: one | two\n",
        "— Хто там? — спитав він.\n\nГрупи: три.\n",
        "# A\n\n---\n\n**Groups:** ours\n",
        "---\ntitle: Grouping of wards\nground: wet\ngrowth: 3\n---\nText.\n",
        "Groups of people came.\n\n---\n\nNote: the groups of the north came on Monday and left. Groups: none.\n",
    ],
)
def test_ordinary_markdown_restricts_nobody(text: str, tmp_path: Path) -> None:
    assert "groups" not in front_matter(text)[0]
    (tmp_path / "a.md").write_text(text)
    assert listed(tmp_path) == {"a.md": None}


def test_a_side_car_that_says_groups_in_other_words_fails_its_document(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "a.txt.meta.yaml").write_text("metadata: {allowed groups: hr}")
    assert listed(tmp_path) == {"a.txt": "side_car"}


def test_no_document_of_the_library_seems_to_restrict(pytestconfig: pytest.Config) -> None:
    files = [
        *pytestconfig.rootpath.glob("tests/data/library/**/*.md"), *pytestconfig.rootpath.glob("*.md"),
        *pytestconfig.rootpath.glob("docs/**/*.md"),
    ]  # fmt: skip
    assert len(files) > 10
    for file in files:
        front_matter(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("code", "told", "hidden"),
    [
        *((code, "element_map_limit", True) for code in ("timeout", "crashed", "limit_exceeded")),
        *((code, "element_map", True) for code in ("empty", "corrupt", "empty_parse", "no_text")),
        ("changed", "changed", False),
    ],
)
def test_a_map_that_fails_withholds_its_document(code: str, told: str, hidden: bool) -> None:
    raw = cast(Any, SimpleNamespace(media_type=ELEMENTS))
    failure = Task("parsed_elements", "id", "s", "a.pdf", raw=raw).failure(code, "why")
    assert (failure.code, withheld(failure)) == (told, hidden)
    assert (told in LIMITED) == (code in LIMITED), "a limit that is raised tries it again"
    assert Task("figure_pictures", "id", "s", "a.pdf", raw=raw, stage="figures").failure(code, "").code == code
    other = cast(Any, SimpleNamespace(media_type="application/pdf"))
    assert Task("parsed_elements", "id", "s", "a.pdf", raw=other).failure(code, "").code == code


def test_a_file_too_large_to_be_listed_still_restricts(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\ngroups: [hr]\n---\n" + "x" * (2 << 20))
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "a.txt.elements.json").write_text("{}" + " " * (2 << 20))
    listing = list_source(SourceSettings(name="s", path=str(tmp_path)), tmp_path, max_megabytes=1)
    assert {item.uri: item.code for item in listing.failures} == {
        "a.md": "limit_exceeded",
        "a.txt": "element_map_limit",
    }
    assert listing.documents.groups_of(document_id("s", "a.md")) == ("hr",)


# ---------------------------------------------------------------- what cannot all be listed


def book_of(folder: Path, remembered: dict[str, str], **sources: str) -> SourceRegistry:
    """A book of these sources by the settings, and as they were remembered."""
    rows = [SimpleNamespace(name=name, root=str(folder / root), settings={}) for name, root in remembered.items()]
    catalog = SimpleNamespace(
        sources=lambda: rows, remember_source=lambda *told: None, remember_lost=lambda *told: None, live=lambda: None
    )
    settings = Settings(sources=[SourceSettings(name=name, path=root) for name, root in sources.items()])
    return SourceRegistry(Project(settings, None, folder, folder / "state"), cast(Any, catalog))


def test_restrictions_of_a_source_are_known_while_another_cannot_be_listed(tmp_path: Path) -> None:
    for name, said in (("shut.txt", "groups: [hr]"), ("broken.txt", "groups: [hr")):
        (tmp_path / "b").mkdir(exist_ok=True)
        (tmp_path / "b" / name).write_text("text")
        (tmp_path / "b" / f"{name}.meta.yaml").write_text(said)
    book = book_of(tmp_path, {"a": "a", "b": "b"}, a="a", b="b")
    alone = book.list_all()
    assert (alone.sources, list(alone.failing)) == (("b",), ["a"]), "a source that fails fails alone"
    with pytest.raises(SourceError):
        book.list_all(everything=True)
    (tmp_path / "b" / "shut.txt.meta.yaml").unlink()  # what was listed is not read again
    found = book.list_remembered()
    assert found.sources == ("b",) and found.known.sources == {"a": (), "b": ()}
    assert found.known.documents.get(document_id("b", "shut.txt")) == ("hr",)
    assert {item.uri: item.code for item in found.failures} == {"broken.txt": "side_car"}


def test_restrictions_are_read_where_a_source_was_last(tmp_path: Path) -> None:
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text("text")
        (tmp_path / folder / "a.txt.meta.yaml").write_text(f"groups: [{folder}]")
    book = book_of(tmp_path, {"docs": "old"}, docs="new", never="gone")
    found = book.list_remembered()
    assert (found.sources, found.known.documents.get(document_id("docs", "a.txt"))) == (("docs",), ("old",))


@pytest.mark.parametrize("error", [UsageError, SourceError, DocumentError])
def test_whatever_refuses_a_run_what_restricts_holds(
    error: type[PinciteError], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    listing = SimpleNamespace(restrict=lambda: done.append("listing"))
    state = cast(Any, SimpleNamespace(run=Run(), listing=listing))
    monkeypatch.setattr(kept_generations, "restrict", lambda state: done.append("generations"))
    with pytest.raises(error, match="refused"), kept_generations.restricted_whatever(state):
        raise error("refused")
    assert done == ["listing", "generations"]
