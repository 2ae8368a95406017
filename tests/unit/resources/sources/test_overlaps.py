"""No file is found by two roads: which sources are one place, which lie within another, and what is left out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import SourceError
from pipelines.settings.sources import SourceSettings
from resources.connectors.locations import location_of, of_folder
from resources.sources.folder import list_source
from resources.sources.overlaps import OWN, STATE, Overlaps


def source(name: str, path: str | Path, *groups: str, **more: Any) -> SourceSettings:
    return SourceSettings(name=name, path=str(path), groups=groups, **more)


def overlaps(*sources: SourceSettings, said: tuple[str, ...] = ("a", "b"), state: Path | None = None) -> Overlaps:
    return Overlaps(sources, said, {STATE: of_folder(state)} if state else {})


SAME = {
    "host": ("https://Example.org/x.pdf", "https://example.org./x.pdf"),
    "port": ("webdav+https://h.org:443/a", "webdav+https://h.org/a/"),
    "plain": ("web+http://h.org/a/", "web+https://h.org/a/"),
    "scheme": ("webdav+https://h.org/a", "web+https://h.org/a/"),
    "page": ("web+https://h.org/a/index.html", "web+https://h.org/a/"),
    "escapes": ("webdav+https://h.org/%61/b%20c", "webdav+https://h.org/a/b c/"),
    "dots": ("webdav+https://h.org/a/x/../b/./", "webdav+https://h.org//a/b"),
    "case": ("webdav+https://h.org/A", "webdav+https://h.org/a"),
    "prefix": ("s3://bucket/a/", "s3://bucket/a"),
    "endpoint": ("s3://b/a?endpoint=https://s3.eu-central-1.amazonaws.com", "s3://b/a?region=eu-central-1"),
    "server": ("s3://b/a?endpoint=https://MINIO.example.org:443/", "s3://b/a?endpoint=https://minio.example.org"),
    "google": ("gs://b/a", "s3://b/a?endpoint=https://storage.googleapis.com"),
    "account": ("az://b/a?account=me", "az://b/a?account=me&endpoint=https://me.blob.core.windows.net"),
    "repository": ("git+https://h.org/team/wiki.git", "git+ssh://git@h.org/team/wiki"),
    "branch": ("git+https://h.org/w?ref=main&path=/a/", "git+https://h.org/w?ref=refs/heads/main&path=a"),
    "head": ("git+https://h.org/w", "git+https://h.org/w?ref=main"),
    "inbox": ("imaps://ann@h.org", "imap://Ann@h.org:143/inbox"),
    "query": ("postgresql://me@h.org/db?query=SELECT+1", "postgresql://h.org:5432/db?query=select++1;"),
}
APART = {
    "prefix": ("s3://bucket/a", "s3://bucket/ab"),
    "slashes": ("s3://bucket/a/b", "s3://bucket/a//b"),
    "server": ("s3://b/a", "s3://b/a?endpoint=https://minio.example.org"),
    "port": ("https://h.org:8443/x.pdf", "https://h.org/x.pdf"),
    "tags": ("git+https://h.org/w?ref=v1", "git+https://h.org/w?ref=v2"),
    "repository": ("git+https://h.org/w", "https://h.org/w"),
    "user": ("imaps://ann@h.org/A", "imaps://bob@h.org/A"),
    "folder below": ("imaps://ann@h.org/A", "imaps://ann@h.org/A/B"),
    "left out": ("imaps://ann@h.org/A?below=true&without=A/B", "imaps://ann@h.org/A/B/C"),
    "queries": ("postgresql://h.org/db?query=SELECT+1", "postgresql://h.org/db?query=SELECT+2"),
    "beside": ("webdav+https://h.org/ab", "webdav+https://h.org/a"),
}
WITHIN = {
    "bucket": ("s3://b", "s3://b/a/hr", "a/hr"),
    "key": ("s3://b/a", "s3://b/a//hr", "/hr"),
    "site": ("web+https://h.org/docs/", "web+https://H.org/docs/HR/", "hr"),
    "file": ("web+https://h.org/docs/start.html", "https://h.org/docs/hr/pay.pdf", "hr/pay.pdf"),
    "drive": ("webdav+https://h.org/", "webdav+https://h.org/%68r", "hr"),
    "git": ("git+https://h.org/w?ref=v1", "git+ssh://h.org/w.git?ref=v2&path=hr", "hr"),
    "mail": ("imaps://ann@h.org?below=true", "imaps://ann@h.org/A/B", "A/B"),
    "mail below": ("imaps://ann@h.org/A?below=true", "imaps://ann@h.org/A/B%20.x", "A/B.x"),
    "plugin": ("shelf://top/a", "shelf://top/a/b", "b"),
}


@pytest.mark.parametrize("first, second", SAME.values(), ids=SAME)
def test_two_addresses_of_one_place_are_refused(first: str, second: str) -> None:
    assert location_of(source("a", first)).same(location_of(source("b", second)))
    found = overlaps(source("a", first), source("b", second, "hr"))
    assert found.closed.keys() == {"a"}
    with pytest.raises(SourceError, match=r"'a' .*'b' .*same root"):
        found.require_none()


@pytest.mark.parametrize("first, second", APART.values(), ids=APART)
def test_addresses_that_share_nothing_are_let_be(first: str, second: str) -> None:
    one, other = source("a", first), source("b", second, "hr")
    found = overlaps(one, other)
    found.require_none()
    assert found.elsewhere_of(one) == found.elsewhere_of(other) == OWN


@pytest.mark.parametrize("outer, inner, name", WITHIN.values(), ids=WITHIN)
def test_an_address_within_another_is_left_out_of_it(outer: str, inner: str, name: str) -> None:
    one, other = source("a", outer), source("b", inner, "hr")
    found = overlaps(other, one)
    found.require_none()
    assert list(found.elsewhere_of(one).names) == [name] and found.inner == {"b"}
    assert found.elsewhere_of(other) == OWN
    assert found.elsewhere_of(one).why(f"{name}/secret.md") and not found.elsewhere_of(one).why("open.md")


def test_a_page_with_a_query_lies_where_it_would_without() -> None:
    one = source("a", "web+https://h.org/docs/")
    found = overlaps(one, source("b", "web+https://h.org/docs/hr/", "hr")).elsewhere_of(one)
    assert found.why("HR?page=2/index.html") and found.why("hr/index.html") and not found.why("hrs?page=2")


def test_a_folder_is_the_same_under_whatever_name(tmp_path: Path) -> None:
    (tmp_path / "docs" / "hr").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "docs")
    one = source("a", tmp_path / "docs")
    for same in ("link", "docs/", "docs/../link", "docs/hr/.."):
        assert overlaps(one, source("b", f"{tmp_path}/{same}", "hr")).problems, same
    assert list(overlaps(one, source("b", tmp_path / "link" / "hr")).elsewhere_of(one).names) == ["hr"]
    assert list(overlaps(one, source("b", f"git+file://{tmp_path}/link?path=hr")).elsewhere_of(one).names) == ["hr"]
    assert overlaps(one, source("b", f"git+file://{tmp_path}/docs/.git")).problems


def test_who_may_find_less_is_not_closed(tmp_path: Path) -> None:
    def closed(a: tuple[str, ...], b: tuple[str, ...]) -> set[str]:
        return set(overlaps(source("a", tmp_path, *a), source("b", tmp_path, *b)).closed)

    assert closed((), ()) == set()
    assert closed(("x",), ("x", "y")) == {"b"}
    assert closed(("x",), ("y",)) == {"a", "b"}


def test_a_source_within_a_restricted_one_says_who_may_find_it(tmp_path: Path) -> None:
    outer, inner = source("a", tmp_path, "hr"), source("b", tmp_path / "open")
    overlaps(outer, inner).require_none()
    found = overlaps(outer, inner, said=("a",))
    assert found.closed.keys() == {"b"}
    with pytest.raises(SourceError, match=r"`groups: \[\]`"):
        found.require_none()
    overlaps(outer, source("b", tmp_path / "open", "x"), said=()).require_none()


def listed(outer: SourceSettings, found: Overlaps) -> tuple[list[str], dict[str, str]]:
    listing = list_source(outer, Path(outer.path), elsewhere=found.elsewhere_of(outer))
    return [raw.uri for raw in listing.documents], {item.uri: item.code for item in listing.skipped}


def test_nothing_of_a_source_within_another_is_read_for_the_outer(tmp_path: Path) -> None:
    (tmp_path / "docs" / "hr" / "deep").mkdir(parents=True)
    for name in ("open.md", "hr/pay.md", "hr/deep/a.md", "hr.md"):
        (tmp_path / "docs" / name).write_text("text")
    (tmp_path / "docs" / "link.md").symlink_to("hr/deep/a.md")
    (tmp_path / "docs" / "own.md").symlink_to("open.md")
    outer = source("a", tmp_path / "docs")
    found = overlaps(outer, source("b", tmp_path / "docs" / "hr", "hr"))
    assert listed(outer, found) == (["hr.md", "open.md", "own.md"], {"hr": "overlap", "link.md": "overlap"})
    (tmp_path / "docs" / "hr").rename(tmp_path / "unmounted")
    found = overlaps(outer, source("b", tmp_path / "docs" / "hr", "hr"))
    (tmp_path / "unmounted").rename(tmp_path / "docs" / "hr")
    assert listed(outer, found)[0] == ["hr.md", "open.md", "own.md"], "nobody could look at it meanwhile"


def test_a_folder_of_another_source_is_known_by_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a mount has it in a second place, or a name in another case."""
    for name in ("docs/copy", "hr"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "docs" / "copy" / "pay.md").write_text("text")
    mounted, plain = os.stat(tmp_path / "docs" / "copy"), os.stat

    def stat(path: Any, **more: Any) -> os.stat_result:
        return mounted if path == tmp_path / "hr" else plain(path, **more)

    outer = source("a", tmp_path / "docs")
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", stat)
        found = overlaps(outer, source("b", tmp_path / "hr", "hr"))
    assert listed(outer, found) == ([], {"copy": "overlap"})


def test_files_that_pincite_keeps_are_no_documents(tmp_path: Path) -> None:
    """The files of all sources lie there, whoever may find them."""
    (tmp_path / "state" / "sources" / "hr" / "files").mkdir(parents=True)
    (tmp_path / "state" / "sources" / "hr" / "files" / "pay.md").write_text("text")
    (tmp_path / "open.md").write_text("text")
    outer = source("a", tmp_path)
    found = overlaps(outer, state=tmp_path / "state")
    assert listed(outer, found) == (["open.md"], {"state": "overlap"})
    for inside in ("state", "state/sources"):
        found = overlaps(source("b", tmp_path / inside), state=tmp_path / "state")
        assert found.closed.keys() == {"b"} and "the state folder" in found.problems[0]


@pytest.mark.parametrize("exclude, open_", [
    ([], True),
    (["hr/**"], False),
    (["**/*"], False),
    (["x/hr/**"], True),
    (["hr/*"], True),
    (["hr"], True),
])  # fmt: skip
def test_a_source_is_forgotten_only_where_that_opens_nothing(tmp_path: Path, exclude: list[str], open_: bool) -> None:
    inner = source("b", tmp_path / "hr", "hr")
    found = overlaps(source("a", tmp_path, exclude=exclude), inner)
    assert (found.opened_without("b") is not None) == open_ and found.opened_without("a") is None
    assert overlaps(source("a", tmp_path, "hr"), inner).opened_without("b") is None
    assert overlaps(source("a", tmp_path / "hr"), inner).opened_without("b")
