"""Real servers of documents, on loopback: Google's bucket and Azure's container by emulators, and a WebDAV folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socketserver import BaseServer
from threading import Thread
from typing import Any
from unittest import mock

import pytest

from pipelines.settings.sources import SourceSettings
from tests.support.ports import free_port
from tests.support.site import Site
from tests.support.source_contract import Place
from tests.support.waiting import PAUSE_SECONDS

BUCKET = "papers"


@dataclass
class GoogleBucket(Place):
    url: str
    client: Any
    ending: str = ".md"

    @property
    def settings(self) -> SourceSettings:
        options = {"endpoint": self.url, "anonymous": "true"}
        return SourceSettings(name="papers", path=f"gs://{BUCKET}/under", options=options)

    def put(self, uri: str, text: str) -> None:
        self.client.bucket(BUCKET).blob(f"under/{uri}").upload_from_string(text)

    def delete(self, uri: str) -> None:
        self.client.bucket(BUCKET).blob(f"under/{uri}").delete()


@contextmanager
def google_bucket() -> Iterator[GoogleBucket]:
    from gcp_storage_emulator.server import create_server
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.storage import Client

    port = free_port()
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket=BUCKET)
    with mock.patch.object(BaseServer.serve_forever, "__defaults__", (PAUSE_SECONDS,)):
        server.start()
        url = f"http://127.0.0.1:{port}"
        try:
            yield GoogleBucket(url, Client("test", AnonymousCredentials(), client_options={"api_endpoint": url}))
        finally:
            server.stop()


@dataclass
class AzureContainer(Place):
    url: str
    client: Any
    ending: str = ".md"

    @property
    def settings(self) -> SourceSettings:
        options = {"endpoint": self.url, "account": ACCOUNT}
        return SourceSettings(name="papers", path=f"az://{BUCKET}/under", options=options)

    def put(self, uri: str, text: str) -> None:
        self.client.upload_blob(f"under/{uri}", text, overwrite=True)

    def delete(self, uri: str) -> None:
        self.client.delete_blob(f"under/{uri}")


ACCOUNT, KEY = "papersaccount", "cGluY2l0ZQ=="


@contextmanager
def azure_container(place: Path) -> Iterator[AzureContainer]:
    """Of azurite, which is Azure's own, where it is installed; AZURE_STORAGE_KEY is its key."""
    from azure.storage.blob import ContainerClient

    command = shutil.which("azurite-blob")
    if command is None:
        pytest.skip("azurite is not installed: npm install --global azurite")
    port = free_port()
    listens = ("--blobHost", "127.0.0.1", "--blobPort", str(port))
    told = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
    quiet = ("--silent", "--skipApiVersionCheck", "--location", str(place), "--disableTelemetry")
    server = subprocess.Popen(
        [command, *listens, *quiet], env=told, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if "successfully listen" in line:
                break
        url = f"http://127.0.0.1:{port}/{ACCOUNT}"
        client = ContainerClient(url, BUCKET, {"account_name": ACCOUNT, "account_key": KEY})
        client.create_container()
        yield AzureContainer(url, client)
    finally:
        server.kill()
        server.communicate()


@dataclass
class WebdavFolder(Place):
    url: str
    folder: Path
    ending: str = ".md"
    options: dict[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> SourceSettings:
        return SourceSettings(name="papers", path=f"webdav+{self.url}/team%20a", options=self.options)

    def put(self, uri: str, text: str) -> None:
        file = self.folder / uri
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def delete(self, uri: str) -> None:
        (self.folder / uri).unlink()


@contextmanager
def webdav_folder(place: Path, users: dict[str, str] | None = None) -> Iterator[WebdavFolder]:
    """By wsgidav. `users` are names and passwords, of those who alone may read it."""
    from cheroot import wsgi
    from wsgidav.wsgidav_app import WsgiDAVApp

    folder = place / "team a"
    folder.mkdir(parents=True)
    known = {name: {"password": password} for name, password in (users or {}).items()}
    app = WsgiDAVApp(
        {
            "provider_mapping": {"/": str(place)},
            "simple_dc": {"user_mapping": {"*": known or True}},
            "http_authenticator": {"accept_digest": False, "default_to_digest": False},
            "logging": {"enable": False},
            "verbose": 0,
        }
    )
    server = wsgi.Server(("127.0.0.1", 0), app)
    server.expiration_interval = PAUSE_SECONDS
    server.prepare()
    thread = Thread(target=server.serve)
    thread.start()
    try:
        yield WebdavFolder(f"http://127.0.0.1:{server.bind_addr[1]}", folder)
    finally:
        server.stop()
        thread.join()


@dataclass
class Manifest(Place):
    """Files of a site, named by a list; `told` says of each what the list does."""

    site: Site
    ending: str = ".md"

    @property
    def settings(self) -> SourceSettings:
        return SourceSettings(name="papers", path=f"{self.site.url}/files/list.txt", options={"manifest": "true"})

    def put(self, uri: str, text: str) -> None:
        self.site.pages[f"/files/{uri}"] = "text/markdown", text.encode()
        self.tell()

    def delete(self, uri: str) -> None:
        del self.site.pages[f"/files/{uri}"]
        self.tell()

    def line(self, uri: str, body: bytes) -> str:
        return uri

    def tell(self) -> None:
        found = {path.removeprefix("/files/"): body for path, (_, body) in self.site.pages.items()}
        lines = [self.line(uri, body) for uri, body in found.items() if uri.endswith(".md")]
        self.site.pages["/files/list.txt"] = "text/plain", "\n".join(["# papers", "", *lines]).encode()
