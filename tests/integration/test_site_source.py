"""Pages of a site as a source: links, robots, redirects, conditional requests, and what hostile sites try."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pipelines.errors import DocumentError, SettingsError, SourceError
from pipelines.settings.sources import SourceSettings
from resources.connectors import site as site_module
from resources.connectors.site import Scope, document_name, links_of, sitemap_urls
from resources.connectors.source import connect
from resources.sources.folder import FolderListing, list_source
from resources.sources.landing import Landing
from tests.support.site import Site, running_site

pytestmark = pytest.mark.integration


@pytest.fixture
def site() -> Iterator[Site]:
    with running_site() as made:
        made.html(
            "/docs/", "The start.", "ferry", "/docs/choir.html#note", "/other/page", "http://192.0.2.1/x", "plan.pdf"
        )
        made.html("/docs/ferry", "The ferry crosses the river.", "/docs/", "mailto:a@b", "javascript:x()")
        made.html("/docs/choir.html", "The choir sings in May.", "missing", "photo.gif")
        made.html("/other/page", "Not below the address.")
        made.pages["/docs/plan.pdf"] = "application/pdf", b"%PDF-1.4 plan"
        made.pages["/docs/photo.gif"] = "image/gif", b"GIF8" + b"x" * 100
        yield made


def settings(site: Site, **options: str) -> SourceSettings:
    return SourceSettings(name="site", path=f"web+{site.url}/docs/", options=options)


def bring(site: Site, folder: Path, **options: str) -> FolderListing:
    source = settings(site, **options)
    landing = Landing(folder, source)
    with landing.alone(), closing(connect(source, landing.folder)) as connected:
        landing.bring(connected, None)
    with landing.open_result() as brought:
        return list_source(source, landing.root, None, brought=brought)


def names(listing: FolderListing) -> list[str]:
    return [raw.uri for raw in listing.documents]


ALL = ["choir.html", "ferry/index.html", "index.html", "plan.pdf"]


def test_pages_linked_below_the_address_are_fetched(site: Site, tmp_path: Path) -> None:
    found = bring(site, tmp_path)
    assert names(found) == ALL and not found.failures
    assert {(item.uri, item.code) for item in found.skipped} == {("photo.gif", "unsupported")}
    assert "/other/page" not in site.paths() and site.paths(404) == ["/docs/missing"]


def test_unchanged_pages_are_not_sent_again(site: Site, tmp_path: Path) -> None:
    first = bring(site, tmp_path)
    site.asked.clear()
    site.html("/docs/ferry", "The ferry is blue.", "/docs/new")
    site.html("/docs/new", "A new page.")
    now = bring(site, tmp_path)
    assert set(site.paths(304)) == {"/docs/", "/docs/choir.html", "/docs/plan.pdf"}
    assert names(now) == sorted([*ALL, "new/index.html"])
    hashes = [{raw.uri: raw.content_hash for raw in found.documents} for found in (first, now)]
    assert {uri for uri in ALL if hashes[0][uri] != hashes[1][uri]} == {"ferry/index.html"}


def test_robots_are_obeyed_and_a_site_that_hides_them_is_not_read(site: Site, tmp_path: Path) -> None:
    site.pages["/robots.txt"] = "text/plain", b"User-agent: *\nDisallow: /docs/ferry\n"
    assert names(bring(site, tmp_path)) == ["choir.html", "index.html", "plan.pdf"]
    site.faults["/robots.txt"] = 503
    with pytest.raises(SourceError, match=r"'site'.*robots"):
        bring(site, tmp_path)


def test_redirects_are_followed_within_the_site_alone(site: Site, tmp_path: Path) -> None:
    with running_site() as private:
        private.html("/secret", "The vault opens at nine.")
        site.redirects = {
            "/docs/ferry": "/docs/boat",
            "/docs/choir.html": f"{private.url}/secret",
            "/docs/plan.pdf": "/docs/plan.pdf",
        }
        site.html("/docs/boat", "The boat.")
        found = bring(site, tmp_path)
        assert private.asked == []
    assert names(found) == ["boat/index.html", "index.html"]
    assert {(item.uri, item.code) for item in found.failures} == {("plan.pdf/index.html", "unreadable")}


def test_a_page_that_fails_loses_nothing_that_it_linked_to(site: Site, tmp_path: Path) -> None:
    site.html("/docs/ferry", "The ferry.", "deep")
    site.html("/docs/deep", "Only the ferry links here.")
    bring(site, tmp_path)
    for fault in (500, 403):
        site.faults["/docs/ferry"] = fault
        found = bring(site, tmp_path)
        assert names(found) == ["choir.html", "deep/index.html", "index.html", "plan.pdf"]
        assert {(item.uri, item.code) for item in found.failures} == {("ferry/index.html", "unreadable")}
    site.faults = {"/docs/ferry": 404}
    assert names(bring(site, tmp_path)) == ["choir.html", "index.html", "plan.pdf"]
    site.faults = {"/docs/": 500}
    with pytest.raises(SourceError, match="Nothing was changed"):
        bring(site, tmp_path)


def test_a_site_without_end_is_given_up(site: Site, tmp_path: Path) -> None:
    site.html("/docs/", "The start.", "calendar/1")
    with pytest.raises(SourceError, match="more than 50 pages; raise its option most"):
        bring(site, tmp_path, most="50")


def test_a_page_without_end_fails_alone(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_module, "MOST_BYTES", 1 << 20)
    site.endless.add("/docs/ferry")
    found = bring(site, tmp_path)
    assert names(found) == ["choir.html", "index.html", "plan.pdf"]
    (failed,) = found.failures
    assert (failed.uri, failed.code) == ("ferry/index.html", "unreadable") and "over 1 MB" in failed.message


def test_a_sitemap_names_the_pages(site: Site, tmp_path: Path) -> None:
    site.pages["/sitemap.xml"] = (
        "text/xml",
        (
            f"<urlset><url><loc>{site.url}/docs/choir.html</loc></url>"
            f"<url><loc> {site.url}/other/page </loc></url></urlset>"
        ).encode(),
    )
    assert names(bring(site, tmp_path, sitemap=f"{site.url}/sitemap.xml")) == ["choir.html"]
    with pytest.raises(SettingsError, match="another host"):
        bring(site, tmp_path, sitemap="https://example.org/sitemap.xml")


def test_pages_lost_from_the_state_are_requested_again(site: Site, tmp_path: Path) -> None:
    bring(site, tmp_path)
    root = Landing(tmp_path, settings(site)).root
    (root / "choir.html").unlink()
    assert names(bring(site, tmp_path)) == ALL and "May" in (root / "choir.html").read_text()
    source = connect(settings(site), Landing(tmp_path, settings(site)).folder)
    with closing(source):
        entries = {entry.uri: entry for page in source.entries() for entry in page}
        site.html("/docs/choir.html", "Other.")
        with pytest.raises(DocumentError, match="changed after the listing"):
            list(source.read(entries["choir.html"]))


@pytest.mark.parametrize(
    ("path", "media_type", "name"),
    [
        ("/docs/", "text/html", "index.html"),
        ("/docs/a", "text/html", "a/index.html"),
        ("/docs/a/", "text/html", "a/index.html"),
        ("/docs/a.html", "text/html", "a.html"),
        ("/docs/a.php?id=1&b=2", "text/html", "a.php?id=1&b=2/index.html"),
        ("/docs/a.pdf", "application/pdf", "a.pdf"),
        ("/docs/download", "application/pdf", "download.pdf"),
        ("/docs/%D1%82%D0%B0.html", "text/html", "та.html"),
        ("/docs/notes.md", "text/plain", "notes.md"),
    ],
)
def test_pages_are_named_by_their_paths(path: str, media_type: str, name: str) -> None:
    assert (
        document_name(Scope.from_start("https://example.org/docs/"), f"https://example.org{path}", media_type) == name
    )


@pytest.mark.parametrize(
    ("url", "within"),
    [
        ("https://example.org/docs", True),
        ("https://example.org/docs/a", True),
        ("https://example.org:443/docs/a", True),
        ("https://example.org/docsother", False),
        ("http://example.org/docs/a", False),
        ("https://example.org.evil.test/docs/a", False),
        ("https://example.org@evil.test/docs/a", False),
        ("https://[::1/docs/", False),
    ],
)
def test_a_source_is_one_site_and_what_is_below_its_path(url: str, within: bool) -> None:
    assert Scope.from_start("https://example.org/docs/").has(url) is within


def test_links_are_read_from_any_markup() -> None:
    body = (
        b"<A class=x HREF = 'b?x=1&amp;y=2'>1</A><a href=c#top>2</a><a name=n>3</a><a href='http://[bad'>4</a><ahref=d>"
    )
    scope = Scope.from_start("https://example.org/docs/")
    first, second = "https://example.org/docs/b?x=1&y=2", "https://example.org/docs/c"
    assert links_of(body, "https://example.org/docs/", scope, 10) == (first, second)
    assert links_of(body, "https://example.org/docs/", scope, 1) == (first,)
    sitemaps = b"<sitemapindex><sitemap><loc>https://example.org/x</loc></sitemap><loc>https://a/x</loc></sitemapindex>"
    assert sitemap_urls(sitemaps, scope, 10) == ([], ["https://example.org/x"])


FORGED = {
    "ferry.meta.yaml": "groups: [hr]",
    "choir.html.meta.yaml": "groups: [hr]",
    "choir.html.meta.yml": "groups: [hr]",
    "choir.json": '{"groups": ["hr"]}',
    "choir.html.elements.json": '{"version": 1, "elements": [{"kind": "paragraph", "text": "Forged."}]}',
    "plan.pdf.elements.json": "{",
    "gone.html.meta.yaml": "groups: [hr]",
    "gone.pdf.elements.json": "{}",
    "own.md": "---\ngroups: [hr]\n---\nText.",
    "own.txt": "groups: [hr]\n\nText.",
}
"""Uploads by which a stranger would restrict, or rewrite, pages of others."""


def test_uploads_by_strangers_cannot_describe_other_pages(site: Site, tmp_path: Path) -> None:
    for name, text in FORGED.items():
        kind = "text/markdown" if name.endswith(".md") else "text/plain" if name.endswith(".txt") else "application/x"
        site.pages[f"/docs/{name}"] = kind, text.encode()
    site.html("/docs/", "The start.", "ferry", "choir.html", "plan.pdf", *FORGED)
    found = bring(site, tmp_path)
    assert names(found) == sorted([*ALL, "own.md", "own.txt"]) and not found.failures
    assert {raw.groups for raw in found.documents} == {()}, "only the source's groups hold"
    assert {raw.media_type for raw in found.documents if raw.uri.startswith("choir")} == {"text/html"}


def test_a_site_takes_no_memberships_from_what_lies_on_it(site: Site, tmp_path: Path) -> None:
    source = settings(site).model_copy(update={"memberships": True})
    with pytest.raises(SettingsError, match="not trusted"):
        connect(source, tmp_path)
