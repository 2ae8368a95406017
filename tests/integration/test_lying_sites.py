"""Sites, WebDAV folders and lists of files whose server lies: the source fails by name, or one document of it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pipelines.errors import SourceError
from pipelines.settings.sources import SourceSettings
from resources import http_client
from resources.connectors import site
from resources.connectors.source import connect
from resources.sources.folder import FolderListing, list_source
from resources.sources.landing import Landing
from tests.support.lying_server import LyingServer, answer, lying_server

pytestmark = pytest.mark.integration

KINDS = ("webdav+{}/docs/", "web+{}/docs/", "{}/docs/list.txt?manifest=true", "{}/docs/a.md")
PROPFIND = (
    '<multistatus xmlns="DAV:"><response><href>/docs/</href></response><response><href>{}</href><propstat><prop>'
    "<getetag>{}</getetag></prop></propstat></response></multistatus>"
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LyingServer]:
    monkeypatch.setattr(http_client, "LONGEST_WAIT", 0.0)
    with lying_server() as made:
        yield made


def bring(server: LyingServer, kind: str, folder: Path, **options: str) -> FolderListing:
    source = SourceSettings(name="papers", path=kind.format(server.url), options=options)
    landing = Landing(folder, source)
    with landing.alone(), closing(connect(source, landing.folder)) as connected:
        landing.bring(connected, 1)
    with landing.open_result() as brought:
        return list_source(source, landing.root, None, brought=brought)


def fault(server: LyingServer, kind: str, folder: Path, **options: str) -> str:
    with pytest.raises(SourceError) as caught:
        bring(server, kind, folder, **options)
    assert "othing was changed" in str(caught.value) and len(str(caught.value)) < 1000
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_is_packed_is_not_unpacked(kind: str, server: LyingServer, tmp_path: Path) -> None:
    bomb = gzip.compress(gzip.compress(bytes(50 << 20)))
    packed = answer(bomb, "Content-Encoding: gzip, gzip", status="207 Multi-Status" if "webdav" in kind else "200 OK")
    server.says = {"": packed}
    assert "packed" in fault(server, kind, tmp_path)
    server.says = {"robots": answer(b""), "": packed}
    assert "packed" in fault(server, kind, tmp_path)
    assert not any("gzip" in headers for _, headers in server.asked)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 207 X\r\nContent-Type: text/html\r\n\r\n<a>"])
def test_an_answer_that_trickles_is_left(
    head: bytes, kind: str, server: LyingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "BODY_SECONDS", 0.2)
    monkeypatch.setattr(site, "SECONDS", 0.2)
    body = head.replace(b"207 X", b"207 X" if "webdav" in kind else b"200 OK")
    server.says = {"robots": answer(b""), "HEAD": answer(b""), "": server.trickle(body)}
    assert "does not end within 0.2 s" in fault(server, kind, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "to", ["http://[bad", "http://127.0.0.1:{}\\@evil.test/", "\\\\evil.test/x", "http://x:y/", "file:///"]
)
def test_a_redirect_that_leads_nowhere_is_named(to: str, kind: str, server: LyingServer, tmp_path: Path) -> None:
    away = answer(b"", f"Location: {to.format(server.port)}", status="302 Found")
    server.says = {"robots": answer(b""), "": away}
    fault(server, kind, tmp_path)
    assert len(server.asked) < 20


def test_an_address_with_two_meanings_is_not_asked_for(server: LyingServer, tmp_path: Path) -> None:
    """With the password of one server, requests would be sent to another."""
    with lying_server() as other:
        url = f"http://127.0.0.1:{other.port}\\@127.0.0.1:{server.port}/docs/x"
        server.says = {
            "robots": answer(b""),
            "list.txt": answer(f"{url}\n".encode()),
            "GET /docs/ ": answer(f'<a href="{url}">x</a>'.encode(), "Content-Type: text/html"),
        }
        assert "another server" in fault(server, KINDS[2], tmp_path / "files")
        assert [raw.uri for raw in bring(server, KINDS[1], tmp_path / "site").documents] == ["index.html"]
        assert other.asked == []


# ---------------------------------------------------------------- sites


@pytest.mark.parametrize(
    "robots",
    [
        "User-agent: *\nCrawl-delay: \u00b2",
        "User-agent: *\nCrawl-delay: " + "9" * 5000,
        "User-agent: *\nCrawl-delay: " + "9" * 4000,
        "User-agent: *\nRequest-rate: 1/\u00b2",
        "User-agent: *\nDisallow: http://[bad",
        "User-agent: *\n" + "Disallow: /x\n" * 60_000,
    ],
    ids=["no-number", "digits", "large", "rate", "address", "long"],
)
def test_robots_that_cannot_be_read_close_the_site(robots: str, server: LyingServer, tmp_path: Path) -> None:
    server.says = {"robots": answer(robots.encode()), "": answer(b"Text.", "Content-Type: text/html")}
    assert "robots.txt" in fault(server, KINDS[1], tmp_path)


def test_a_sitemap_is_unpacked_once_and_whole(
    server: LyingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "_MOST_OF_A_SITEMAP", 1 << 20)
    options = {"sitemap": f"{server.url}/sitemap.xml.gz"}
    told = f"<urlset><url><loc>{server.url}/docs/a.html</loc></url></urlset>".encode()
    page = answer(b"Text.", "Content-Type: text/html")
    for header in ("Content-Type: application/gzip", "Content-Encoding: gzip"):
        server.says = {"robots": answer(b""), "sitemap": answer(gzip.compress(told), header), "docs": page}
        assert [raw.uri for raw in bring(server, KINDS[1], tmp_path, **options).documents] == ["a.html"]
    packed = gzip.compress(told)
    for body, said in (
        (packed[:-9], "no whole gzip file"),
        (packed[:20] + b"\xff" * 20, "no whole gzip file"),
        (gzip.compress(told + b" " * (2 << 20)), "over 1 MB"),
    ):
        server.says["sitemap"] = answer(body)
        assert said in fault(server, KINDS[1], tmp_path, **options)
    server.says["sitemap"] = answer(b"".join(b"<loc>%b/docs/%d</loc>" % (server.url.encode(), at) for at in range(99)))
    assert "more than 50 pages" in fault(server, KINDS[1], tmp_path, most="50", **options)


def test_pages_that_link_without_end_are_given_up(
    server: LyingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "MOST_LINKS", 500)
    links = b"".join(b'<a href="/docs/%d">x</a>' % at for at in range(60))
    server.says = {"robots": answer(b""), "docs": answer(links, "Content-Type: text/html")}
    assert "have over 500 links" in fault(server, KINDS[1], tmp_path)
    assert "more than 20 pages" in fault(server, KINDS[1], tmp_path, most="20")
    assert len(server.asked) < 100


# ---------------------------------------------------------------- WebDAV, and lists of files


@pytest.mark.parametrize(
    ("href", "etag", "told"),
    [
        ("http://[bad", "1", "address that is none"),
        ("/docs/" + "x" * 5000, "1", "name of 5000 characters"),
        ("/docs/a.md", "1" * 100_000, "over 16384 characters"),
    ],
)
def test_a_folder_that_lists_what_is_none_fails(
    href: str, etag: str, told: str, server: LyingServer, tmp_path: Path
) -> None:
    server.says = {"": answer(PROPFIND.format(href, etag).encode(), status="207 Multi-Status")}
    assert told in fault(server, KINDS[0], tmp_path)


def test_a_folder_whose_name_leads_elsewhere_is_not_looked_into(server: LyingServer, tmp_path: Path) -> None:
    folder = "<getetag>x</getetag>", "<resourcetype><collection/></resourcetype>"
    body = PROPFIND.format("/docs/x%2F..%2F..%2Fsecret/", "x").replace(*folder)
    server.says = {"": answer(body.encode(), status="207 Multi-Status")}
    assert "the name of no folder" in fault(server, KINDS[0], tmp_path)
    assert len(server.asked) == 1


def test_a_tag_that_no_header_can_hold_costs_its_document(server: LyingServer, tmp_path: Path) -> None:
    listing = answer(PROPFIND.format("/docs/a.md", "&quot;\u0436&quot;").encode(), status="207 Multi-Status")
    server.says = {"PROPFIND": listing, "": answer(b"text")}
    (failed,) = bring(server, KINDS[0], tmp_path).failures
    assert (failed.uri, failed.code) == ("a.md", "unreadable")


def test_a_list_with_an_address_that_is_none_fails(server: LyingServer, tmp_path: Path) -> None:
    server.says = {"": answer(b"http://[bad\n")}
    assert "address that is none" in fault(server, KINDS[2], tmp_path)


def test_a_file_that_is_packed_or_breaks_off_fails_alone(server: LyingServer, tmp_path: Path) -> None:
    told = [{"url": f"{name}.md", "revision": 1} for name in "abc"]
    server.says = {
        "list": answer(json.dumps(told).encode()),
        "a.md": answer(gzip.compress(b"text"), "Content-Encoding: gzip"),
        "b.md": lambda line, headers: iter([answer(b"text", length=9)]),
        "": answer(b"text"),
    }  # fmt: skip
    found = bring(server, KINDS[2], tmp_path)
    assert [raw.uri for raw in found.documents] == ["c.md"]
    assert {item.uri: item.code for item in found.failures} == {"a.md": "unreadable", "b.md": "unreadable"}
