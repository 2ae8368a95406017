"""Sources that are no folders, brought into a state: what is fetched, what stays, and what fails alone."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pytest

from pipelines.errors import DocumentError, SourceError
from pipelines.settings.sources import SourceSettings
from resources.connectors.source import Entry
from resources.sources import landing as module
from resources.sources.files import Skipped
from resources.sources.folder import FolderListing, list_source
from resources.sources.landing import Landing
from resources.sources.overlaps import Elsewhere
from tests.support.listings import assert_same

SETTINGS = SourceSettings(name="../odd name", path="s3://papers/")


class Shelf:
    """A source in memory. `read_of` are the entries that were read; those of `broken` cannot be."""

    at_once = 4

    def __init__(self, **texts: str) -> None:
        self.texts = {uri.replace("__", "/").replace("_", "."): text for uri, text in texts.items()}
        self.broken: dict[str, BaseException] = {}
        self.ends_after: int | None = None
        self.read_of: list[str] = []

    def entries(self) -> Iterator[Sequence[Entry]]:
        for number, (uri, text) in enumerate(self.texts.items()):
            if number == self.ends_after:
                raise SourceError("the second page did not come")
            yield [Entry(uri, str(hash(text)), len(text))]

    def prepare(self, entries: Sequence[Entry]) -> None: ...

    def read(self, entry: Entry) -> Generator[bytes]:
        self.read_of.append(entry.uri)
        yield self.texts[entry.uri][:1].encode()
        if entry.uri in self.broken:
            raise self.broken[entry.uri]
        yield self.texts[entry.uri][1:].encode()

    def close(self) -> None: ...


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(tmp_path, SETTINGS)


def bring(landing: Landing, shelf: Shelf, largest: int | None = None) -> FolderListing:
    with landing.alone():
        landing.bring(shelf, largest)
    return listing_of(landing)


def listing_of(landing: Landing) -> FolderListing:
    with landing.open_result() as brought:
        return list_source(SETTINGS, landing.root, None, brought=brought)


def names(listing: FolderListing) -> dict[str, str]:
    """Content by uri, and the code of what failed."""
    return {
        **{raw.uri: raw.content_hash for raw in listing.documents},
        **{item.uri: item.code for item in listing.failures},
    }


def raw_files(landing: Landing) -> list[str]:
    return sorted(file.name for file in landing.files.raw.rglob("*") if file.is_file())


def test_an_unchanged_document_is_not_fetched_again(landing: Landing) -> None:
    shelf = Shelf(a_md="# One", deep__b_txt="two")
    first = bring(landing, shelf)
    assert [raw.uri for raw in first.documents] == ["a.md", "deep/b.txt"]
    assert (landing.root / "deep" / "b.txt").read_text() == "two"
    shelf.read_of.clear()
    assert names(bring(landing, shelf)) == names(first) and shelf.read_of == []
    shelf.texts["a.md"] = "# Other"
    assert names(bring(landing, shelf))["a.md"] != names(first)["a.md"] and shelf.read_of == ["a.md"]


def test_it_is_listed_like_a_folder_of_the_same_files(landing: Landing, tmp_path: Path) -> None:
    shelf = Shelf(
        a_md="# One", b_txt="two", b_txt_meta_yaml="groups: [hr]", c_zip="3", d_md="---\ngroups: [law]\n---\nx"
    )
    brought = bring(landing, shelf)
    folder = tmp_path / "folder"
    for uri, text in shelf.texts.items():
        (folder / uri).parent.mkdir(parents=True, exist_ok=True)
        (folder / uri).write_text(text)
    assert_same(brought, list_source(SETTINGS, folder))
    assert {raw.uri: raw.groups for raw in brought.documents}["b.txt"] == ("hr",)


def test_one_copy_of_equal_bytes_is_kept_as_long_as_a_name_has_them(landing: Landing, tmp_path: Path) -> None:
    other = Landing(tmp_path, SourceSettings(name="other", path="s3://others/"))
    bring(landing, Shelf(a_txt="same", b_txt="same"))
    with other.alone():
        other.bring(Shelf(c_txt="same"), None)
    assert len(raw_files(landing)) == 1
    bring(landing, Shelf(b_txt="changed"))
    landing.settle()
    assert len(raw_files(landing)) == 2 and not (landing.root / "a.txt").exists()
    other.remove()
    assert len(raw_files(landing)) == 1 and (landing.root / "b.txt").read_text() == "changed"


def test_an_incomplete_listing_changes_nothing(landing: Landing) -> None:
    shelf = Shelf(a_txt="one", b_txt="two")
    first = bring(landing, shelf)
    shelf.texts = {"b.txt": "new", "c.txt": "three"}
    shelf.ends_after = 1
    with pytest.raises(SourceError, match="second page"):
        bring(landing, shelf)
    landing.settle()
    assert names(listing_of(landing)) == names(first)


def test_an_unreadable_document_fails_alone_and_is_requested_again(landing: Landing) -> None:
    shelf = Shelf(a_txt="one", b_txt="two", b_txt_meta_yaml="groups: [hr]")
    first = bring(landing, shelf)
    shelf.texts |= {"a.txt": "newer", "b.txt.meta.yaml": "groups: [law]"}
    shelf.broken = {uri: DocumentError(f"{uri}: no", "unreadable") for uri in ("a.txt", "b.txt.meta.yaml")}
    failing = bring(landing, shelf)
    assert names(failing) == {"a.txt": "unreadable", "b.txt": "side_car"}, "what may restrict it closes"
    shelf.broken = {}
    healed = bring(landing, shelf)
    assert names(healed).keys() == names(first).keys() and not healed.failures
    assert {raw.uri: raw.groups for raw in healed.documents}["b.txt"] == ("law",)


def test_a_source_that_gives_nothing_fails_as_a_whole(landing: Landing) -> None:
    shelf = Shelf(**{f"n{number}_txt": str(number) for number in range(module.FAILING + 5)})
    shelf.broken = {uri: DocumentError(f"{uri}: no", "unreadable") for uri in shelf.texts}
    with pytest.raises(SourceError, match="20 entries in a row cannot be read"):
        bring(landing, shelf)


def test_a_document_over_the_limit_is_not_fetched_and_may_restrict_itself(landing: Landing) -> None:
    shelf = Shelf(a_txt="x" * (2 << 20), a_md="---\ngroups: [hr]\n---\n" + "x" * (2 << 20), b_txt="small")
    found = bring(landing, shelf, largest=1)
    codes = {item.uri: item.code for item in found.failures}
    assert codes == {"a.txt": "limit_exceeded", "a.md": "front_matter"} and shelf.read_of == ["b.txt"]


@pytest.mark.parametrize("lost", ["file", "bytes"])
def test_a_file_lost_from_the_state_is_fetched_again(landing: Landing, lost: str) -> None:
    shelf = Shelf(a_txt="one")
    first = bring(landing, shelf)
    (landing.root / "a.txt").unlink() if lost == "file" else (landing.root / "a.txt").write_text("")
    assert names(bring(landing, shelf)) == names(first) and (landing.root / "a.txt").read_text() == "one"


def test_a_damaged_list_of_what_was_fetched_is_made_again(landing: Landing) -> None:
    shelf = Shelf(a_txt="one")
    first = bring(landing, shelf)
    (landing.folder / "entries.db").write_bytes(b"no database" * 1000)
    assert names(bring(landing, shelf)) == names(first) and shelf.read_of == ["a.txt", "a.txt"]


def test_a_fetch_that_is_killed_goes_on_where_it_was(landing: Landing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 2)
    shelf = Shelf(a_txt="one", b_txt="two", c_txt="three", d_txt="four")
    shelf.broken = {"c.txt": KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        bring(landing, shelf)
    shelf.broken, shelf.read_of = {}, []
    assert len(bring(landing, shelf).documents) == 4
    assert set(shelf.read_of) <= {"c.txt", "d.txt"}, "the first step stays"


def test_names_that_no_file_can_have_are_named(landing: Landing) -> None:
    odd = {
        "a//b.txt": "1",
        "../up.txt": "2",
        "x\ny.txt": "3",
        "ü" * 200 + ".txt": "4",
        "good.txt": "5",
        ".git/x.txt": "6",
    }
    shelf = Shelf()
    shelf.texts = odd
    found = bring(landing, shelf)
    assert [raw.uri for raw in found.documents] == ["good.txt"] and shelf.read_of == ["good.txt"]
    assert {item.uri for item in found.skipped} == set(odd) - {"good.txt", ".git/x.txt"}
    assert all(isinstance(item, Skipped) and item.code == "name" for item in found.skipped)


def test_a_name_that_is_another_ones_folder_is_a_failure_until_one_goes(landing: Landing) -> None:
    shelf = Shelf(a_txt="file", a_txt__b_txt="below")
    assert set(names(bring(landing, shelf)).values()) >= {"name"}
    del shelf.texts["a.txt"]
    bring(landing, shelf)
    landing.settle()
    assert names(bring(landing, shelf)).keys() == {"a.txt/b.txt"} and not bring(landing, shelf).failures


def test_two_entries_of_one_name_are_refused(landing: Landing) -> None:
    class Twice(Shelf):
        def entries(self) -> Iterator[Sequence[Entry]]:
            yield [Entry("a.txt", "1"), Entry("b.txt", "1")]
            yield [Entry("a.txt", "2")]

    with pytest.raises(SourceError, match="two of its entries have one name"):
        bring(landing, Twice(a_txt="one"))


def test_one_process_reads_a_source_at_a_time(landing: Landing) -> None:
    with landing.alone(), pytest.raises(SourceError, match="another process"), landing.alone(wait=False):
        pass


def test_documents_no_longer_included_are_removed(tmp_path: Path) -> None:
    shelf = Shelf(a_txt="one", b_md="two")
    bring(Landing(tmp_path, SETTINGS), shelf)
    narrower = Landing(tmp_path, SETTINGS.model_copy(update={"exclude": ("*.md",)}))
    narrower.settle()
    assert not (narrower.root / "b.md").exists() and (narrower.root / "a.txt").exists()
    assert len(raw_files(narrower)) == 1


def test_the_beginning_of_what_may_be_a_side_car_is_fetched(landing: Landing) -> None:
    shelf = Shelf(a_md="# One", a_json='{"groups": ["hr"]}', b_txt="two", b_mp4="x" * (3 << 16), c_zip="no sibling")
    shelf.texts |= {".b.txt.yaml": "groups: [hr]", ".git/b.txt.yaml": "groups: [hr]"}
    found = bring(landing, shelf)
    assert {uri: code for uri, code in names(found).items() if code in ("side_car", "orphan")} == {
        "a.md": "side_car", "a.json": "orphan", "b.txt": "side_car", ".b.txt.yaml": "orphan",
    }  # fmt: skip
    assert "c.zip" not in shelf.read_of and (landing.root / "b.mp4").stat().st_size == (1 << 16) + 1
    shelf.read_of.clear()
    landing.settle()
    assert names(bring(landing, shelf)) == names(found) and shelf.read_of == [], "and kept"


def test_documents_of_another_source_are_neither_fetched_nor_kept(tmp_path: Path) -> None:
    whole, shelf = Landing(tmp_path, SETTINGS), Shelf(a_txt="a", hr__b_txt="b", hr__c_txt="c")
    assert set(names(bring(whole, shelf))) == {"a.txt", "hr/b.txt", "hr/c.txt"}
    elsewhere, shelf.texts["hr/d.txt"] = Elsewhere({"hr": "it belongs to another"}), "d"
    parted = Landing(tmp_path, SETTINGS, elsewhere)
    bring(parted, shelf)
    with parted.open_result() as brought:
        listing = list_source(SETTINGS, parted.root, None, brought=brought, elsewhere=elsewhere)
    assert [raw.uri for raw in listing.documents] == ["a.txt"] and "hr/d.txt" not in shelf.read_of
    assert [(item.uri, item.code) for item in listing.skipped] == [("hr", "overlap")]
    parted.settle()
    assert [path.name for path in parted.root.rglob("*.txt")] == ["a.txt"]
