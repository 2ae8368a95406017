"""What servers of documents do that nobody wishes for: listings that break off, redirects, credentials that expire,
answers without end, and servers that are busy."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from starlette.responses import RedirectResponse, Response, StreamingResponse

from pipelines.errors import SettingsError, SourceError
from pipelines.settings.sources import SourceSettings
from resources import http_client
from resources.connectors import web_files, webdav
from resources.connectors.source import connect
from resources.sources import landing as landing_module
from resources.sources.folder import FolderListing, list_source
from resources.sources.landing import Landing
from tests.support.front import Front, front_before
from tests.support.listings import assert_same
from tests.support.site import Site, running_site
from tests.support.source_contract import Place
from tests.support.stores import KEY, Manifest, azure_container, google_bucket, webdav_folder

pytestmark = pytest.mark.integration

_AZURE_PAGE = (
    '<?xml version="1.0"?><EnumerationResults ContainerName="papers"><Blobs><Blob><Name>under/a.md</Name><Properties>'
    "<Etag>0x1</Etag><Content-Length>3</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob></Blobs><NextMarker>2</NextMarker>"
    "</EnumerationResults>"
)
_GOOGLE_PAGE = json.dumps(
    {
        "kind": "storage#objects",
        "items": [{"name": "under/a.md", "generation": "1", "size": "3"}],
        "nextPageToken": "2",
    }
)
_SECOND_PAGE = {
    "google": {"pageToken=": (500, "broken"), "/o?": (200, _GOOGLE_PAGE)},
    "azure": {"marker=": (500, "broken"), "comp=list": (200, _AZURE_PAGE)},
    "webdav": {"PROPFIND /team%20a/deep": (500, "broken")},
    "manifest": {"GET /files/list.txt": (500, "broken")},
}
_LISTING = {"google": "/o?", "azure": "comp=list", "webdav": "PROPFIND", "manifest": "/files/list.txt"}
_READING = {
    "google": "alt=media",
    "azure": "GET /papersaccount/papers/under",
    "webdav": "GET /team",
    "manifest": "a.md",
}


@dataclass
class Store:
    """A store with a front before it."""

    kind: str
    place: Place
    front: Front

    @property
    def settings(self) -> SourceSettings:
        settings, behind, front = self.place.settings, self.front.behind, self.front.url
        options = {name: value.replace(behind, front) for name, value in settings.options.items()}
        return settings.model_copy(update={"path": settings.path.replace(behind, front), "options": options})


@pytest.fixture(params=list(_LISTING))
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    for limit, value in (
        ("connectors.bucket.PATIENCE", 0.2),
        ("http_client.LONGEST_WAIT", 0.0),
        ("connectors.web_files.MOST_UNTOLD", 4 << 20),
    ):
        monkeypatch.setattr(f"resources.{limit}", value)
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
    with ExitStack() as stack:
        place: Place
        if request.param == "google":
            place = google = stack.enter_context(google_bucket())
            behind = google.url
        elif request.param == "azure":
            place = azure = stack.enter_context(azure_container(tmp_path / "azurite"))
            behind = azure.url.rpartition("/")[0]
        elif request.param == "webdav":
            place = folder = stack.enter_context(webdav_folder(tmp_path / "webdav"))
            behind = folder.url
        else:
            place = listed = Manifest(stack.enter_context(running_site()))
            behind = listed.site.url
        place.put("a.md", "# A\n\nThe ferry crosses.\n")
        place.put("deep/b.md", "# B\n\nThe choir sings.\n")
        yield Store(request.param, place, stack.enter_context(front_before(Front("", behind))))


def bring(store: Store, folder: Path, largest: int | None = None) -> FolderListing:
    landing = Landing(folder, store.settings)
    with landing.alone(), closing(connect(store.settings, landing.folder)) as connected:
        landing.bring(connected, largest)
    return listing_of(store, folder)


def listing_of(store: Store, folder: Path) -> FolderListing:
    landing = Landing(folder, store.settings)
    with landing.open_result() as brought:
        return list_source(store.settings, landing.root, None, brought=brought)


def names(listing: FolderListing) -> list[str]:
    return [raw.uri for raw in listing.documents]


def codes(listing: FolderListing) -> dict[str, str]:
    return {item.uri: item.code for item in listing.failures}


def test_a_listing_that_breaks_off_changes_nothing(store: Store, tmp_path: Path) -> None:
    first = bring(store, tmp_path)
    assert names(first) == ["a.md", "deep/b.md"]
    store.front.faults = dict(_SECOND_PAGE[store.kind])
    with pytest.raises(SourceError, match=r"'papers'.*[Nn]othing was changed"):
        bring(store, tmp_path)
    assert_same(listing_of(store, tmp_path), first)


def test_unchanged_objects_are_not_downloaded_again(store: Store, tmp_path: Path) -> None:
    first = bring(store, tmp_path)
    store.front.asked.clear()
    assert_same(bring(store, tmp_path), first)
    assert not [asked for asked in store.front.asked if _READING[store.kind] in asked and asked.startswith("GET")]


def test_no_redirect_leads_to_another_server(store: Store, tmp_path: Path) -> None:
    first = bring(store, tmp_path)
    with running_site() as private:
        private.pages["/secret.md"] = "text/markdown", b"The vault opens at nine."
        away = partial(RedirectResponse, f"{private.url}/secret.md")
        store.front.faults = {_LISTING[store.kind]: away}
        with pytest.raises(SourceError):
            bring(store, tmp_path)
        store.place.put("a.md", "# A\n\nAnother text.\n")
        store.front.faults = {_READING[store.kind]: away}
        found = bring(store, tmp_path)
        assert codes(found)["a.md"] in ("unreadable", "changed")
        assert private.asked == []
    assert {raw.content_hash for raw in found.documents} <= {raw.content_hash for raw in first.documents}


def test_credentials_that_expire_fail_the_source_and_keep_what_was_fetched(store: Store, tmp_path: Path) -> None:
    expired = "<Error><Code>InvalidAuthenticationInfo</Code><Message>expired</Message></Error>"
    store.front.faults = {_READING[store.kind]: (401, expired)}
    with pytest.raises(SourceError, match="credentials that may read it") as failed:
        bring(store, tmp_path)
    assert failed.value.code == "credentials"
    store.front.faults = {_LISTING[store.kind]: store.front.faults.popitem()[1]}
    with pytest.raises(SourceError, match="credentials that may read it") as failed:
        bring(store, tmp_path)
    assert failed.value.code == "credentials" and KEY not in str(failed.value)
    store.front.faults = {}
    assert len(names(bring(store, tmp_path))) == 2


def test_a_server_that_is_busy_is_asked_again_and_not_for_ever(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resources.connectors.bucket.PATIENCE", 5.0)
    busy = itertools.count()

    def once() -> Response:
        if next(busy):
            store.front.faults.clear()
        return Response("busy", 503, {"retry-after": "0"})

    store.front.faults = {_LISTING[store.kind]: once}
    assert len(names(bring(store, tmp_path))) == 2
    monkeypatch.setattr("resources.connectors.bucket.PATIENCE", 0.2)
    store.front.faults = {_LISTING[store.kind]: (503, "busy")}
    store.front.asked.clear()
    with pytest.raises(SourceError):
        bring(store, tmp_path)
    assert len(store.front.asked) <= http_client.ATTEMPTS


def test_a_document_that_does_not_end_or_is_refused_fails_alone(store: Store, tmp_path: Path) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0)
            yield b"x" * (1 << 20)

    refused = 403, "<Error><Code>AuthorizationFailure</Code><Message>refused</Message></Error>"
    # Azure's library reads what it asked for whole, and so does not look whether it ends.
    store.front.faults = (
        {"under/a.md": refused} if store.kind == "azure" else {"a.md": lambda: StreamingResponse(endless())}
    )
    found = bring(store, tmp_path, largest=2)
    assert names(found) == ["deep/b.md"] and codes(found).keys() == {"a.md"}


# ---------------------------------------------------------------- WebDAV


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Store]:
    with webdav_folder(tmp_path / "webdav") as place, front_before(Front("", place.url)) as front:
        place.put("a.md", "text")
        yield Store("webdav", place, front)


def multistatus(*names: str, more: str = "") -> str:
    one = "<response><href>{}</href><propstat><prop><getetag>1</getetag></prop></propstat></response>"
    own, found = "<response><href>/team%20a/</href></response>", "".join(map(one.format, names))
    return f'<?xml version="1.0"?>{more}<multistatus xmlns="DAV:">{own}{found}</multistatus>'


def listed_of(store: Store, folder: Path) -> list[str]:
    with closing(connect(store.settings, folder)) as source:
        return sorted(entry.uri for page in source.entries() for entry in page)


def test_names_that_lead_elsewhere_are_of_no_folder(folder: Store, tmp_path: Path) -> None:
    told = ("http://192.0.2.1/team%20a/b.md", "/other/c.md", "/team%20a/deep/d.md", "e.md", "/team%20a/x%2Fy.md")
    folder.front.faults = {"PROPFIND": (207, multistatus(*told, "/team%20a/%2e%2e"))}
    # Of another host only the path is looked at: it is this server that is asked for it.
    assert listed_of(folder, tmp_path) == ["..", "b.md", "e.md", "x/y.md"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("<html>", "no XML"),
        ("", "no XML"),
        (multistatus("a.md").replace("/team%20a/", "/elsewhere/"), "another folder"),
        (multistatus("a.md", more='<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">]>'), "declares a document type"),
        (multistatus("a.md").replace("<getetag>1</getetag>", ""), "neither getetag"),
    ],
    ids=["html", "empty", "elsewhere", "entities", "untagged"],
)
def test_an_answer_that_is_no_listing_fails_the_source(answer: str, told: str, folder: Store, tmp_path: Path) -> None:
    folder.front.faults = {"PROPFIND": (207, answer)}
    with pytest.raises(SourceError, match=told):
        listed_of(folder, tmp_path)


@pytest.mark.parametrize("piece", [f"<x>{'x' * 99}</x>", "<response><href>", "<a>"], ids=["siblings", "one", "nested"])
def test_an_answer_without_end_is_given_up(
    piece: str, folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b'<multistatus xmlns="DAV:">'
        while True:
            await asyncio.sleep(0)  # or a server whose asker has gone would never look
            yield piece.encode() * 10_000

    monkeypatch.setattr(webdav, "MOST_BYTES", 1 << 20)
    folder.front.faults = {"PROPFIND": lambda: StreamingResponse(endless(), 207)}
    with pytest.raises(SourceError, match=r"over 1 MB|no XML"):
        listed_of(folder, tmp_path)


def test_folders_within_each_other_without_end_are_given_up(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webdav, "DEEPEST", 5)

    def deeper() -> Response:
        path = folder.front.asked[-1].split()[1].split("?")[0]
        below = f"{path}deeper/"
        kind = "<propstat><prop><resourcetype><collection/></resourcetype></prop></propstat>"
        body = f"<response><href>{path}</href></response><response><href>{below}</href>{kind}</response>"
        return Response(f'<multistatus xmlns="DAV:">{body}</multistatus>', 207)

    folder.front.faults = {"PROPFIND": deeper}
    with pytest.raises(SourceError, match="over 5 folders are within each other"):
        listed_of(folder, tmp_path)


def test_who_may_read_is_known_by_the_netrc_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with webdav_folder(tmp_path / "webdav", {"ann": "s3cret"}) as place:
        place.put("a.md", "text")
        store = Store("webdav", place, Front(place.url, place.url))
        with pytest.raises(SourceError, match="netrc") as failed:
            listed_of(store, tmp_path)
        assert failed.value.code == "credentials"
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login ann password s3cret\n")
        assert listed_of(store, tmp_path) == ["a.md"]
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login ann password s3cret what\n")
        with pytest.raises(SourceError, match="netrc") as failed:
            listed_of(store, tmp_path)
        assert "s3cret" not in str(failed.value)


# ---------------------------------------------------------------- files of the web


@pytest.fixture
def files() -> Iterator[Site]:
    with running_site() as made:
        made.pages["/files/a.md"] = "text/markdown", b"# A"
        made.pages["/files/b c.md"] = "text/markdown", b"# B"
        yield made


def of_site(site: Site, path: str, **options: str) -> Store:
    class Fixed(Manifest):
        @property
        def settings(self) -> SourceSettings:
            return SourceSettings(name="papers", path=f"{site.url}{path}", options=options)

    return Store("manifest", Fixed(site), Front(site.url, site.url))


def test_one_file_is_a_source_and_when_it_is_gone_nothing_is_deleted(files: Site, tmp_path: Path) -> None:
    store = of_site(files, "/files/a.md")
    assert names(bring(store, tmp_path)) == ["a.md"]
    files.faults["/files/a.md"] = 404
    with pytest.raises(SourceError, match="answers 404; nothing was changed"):
        bring(store, tmp_path)
    assert names(listing_of(store, tmp_path)) == ["a.md"]


def test_a_manifest_of_json_says_names_and_revisions(files: Site, tmp_path: Path) -> None:
    told = [
        "b%20c.md",
        {"url": "a.md", "name": "one/a.md", "revision": 7},
        {"url": "a.md", "name": "x.md", "sha256": "0" * 64},
    ]
    files.pages["/files/list.json"] = "application/json", json.dumps(told).encode()
    store = of_site(files, "/files/list.json", manifest="true")
    found = bring(store, tmp_path)
    assert names(found) == ["b c.md", "one/a.md"] and codes(found) == {"x.md": "changed"}
    files.pages["/files/a.md"] = "text/markdown", b"# Another"
    files.asked.clear()
    assert names(bring(store, tmp_path)) == ["b c.md", "one/a.md"]
    assert ("/files/b c.md", 200) in files.asked, "by HEAD"


def test_a_file_of_a_manifest_that_is_gone_fails_alone(files: Site, tmp_path: Path) -> None:
    files.pages["/files/list.txt"] = "text/plain", b"a.md\nmissing.md\n"
    found = bring(of_site(files, "/files/list.txt", manifest="true"), tmp_path)
    assert names(found) == ["a.md"] and codes(found) == {"missing.md": "unreadable"}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"http://192.0.2.1/a.md", "on another server"),
        (b"//192.0.2.1/a.md", "on another server"),
        (b"file:///etc/passwd", "on another server"),
        (b'[{"url": "a.md", "hash": "1"}]', "has 'hash'"),
        (b'[{"url": "a.md", "sha256": "1"}]', "64 hexadecimal"),
        (b'[{"name": "a.md"}]', "has a url"),
        (b"[1]", "has a url"),
        (b"[" * 100_000, "cannot be meant"),
        (b"\xff\xfe", "cannot be meant"),
        (b"a.md\n./a.md", "two of its entries have one name"),
    ],
)
def test_a_manifest_that_cannot_be_meant_is_refused(body: bytes, told: str, files: Site, tmp_path: Path) -> None:
    files.pages["/files/list.txt"] = "text/plain", body
    with pytest.raises(SourceError, match=told):
        bring(of_site(files, "/files/list.txt", manifest="true"), tmp_path)


def test_a_manifest_without_end_is_given_up(files: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_files, "MOST_BYTES", 1 << 20)
    files.endless.add("/files/list.txt")
    with pytest.raises(SourceError, match="over 1 MB"):
        bring(of_site(files, "/files/list.txt", manifest="true"), tmp_path)


def test_a_token_is_sent_to_its_server_and_told_nobody(
    files: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SourceError, match="the environment variable WIKI_TOKEN is not set"):
        bring(of_site(files, "/files/a.md", token="WIKI_TOKEN"), tmp_path)
    monkeypatch.setenv("WIKI_TOKEN", "s3cret")
    assert names(bring(of_site(files, "/files/a.md", token="WIKI_TOKEN"), tmp_path)) == ["a.md"]
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and b"s3cret" in file.read_bytes()]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("http://files.example.org/a.md", "plain HTTP is allowed only on this machine"),
        ("webdav+http://files.example.org/a", "plain HTTP is allowed only on this machine"),
        ("https://files.example.org/a/", "names no file"),
        ("gs://papers/x?endpoint=http://store.example.org", "plain HTTP"),
        ("az://papers/x?account=a&endpoint=http://store.example.org", "plain HTTP"),
        ("az://papers/x", "need an account"),
        ("gs:///x", "no bucket"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused(path: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=told):
        connect(SourceSettings(name="papers", path=path), tmp_path)


def test_a_listing_that_does_not_end_is_given_up(files: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landing_module, "MOST", 5)
    files.pages["/files/list.json"] = (
        "application/json",
        json.dumps([{"url": f"{number}.md", "revision": 1} for number in range(9)]).encode(),
    )
    with pytest.raises(SourceError, match="does not end within 5 entries"):
        bring(of_site(files, "/files/list.json", manifest="true"), tmp_path)
