"""The nginx block of docs/guide/asking.md before a server that takes names and groups from it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from pincite.guard import access_of
from pincite.serve.application import application
from pincite.serve.service import Service
from resources.settings_file import locate
from tests.support.asgi import in_thread
from tests.support.embedding_server import EmbeddingServer
from tests.support.places import ROOT
from tests.support.ports import free_port
from tests.support.projects import Project, make_project
from tests.support.waiting import HANG_SECONDS, until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed: apt-get install nginx-light"),
]

SECRET = "0123456789abcdef0123456789abcdef"
USERS = "anna:{PLAIN}one\nboris:{PLAIN}two\n"


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def project(server_url: str, endpoint: EmbeddingServer, tmp_path: Path) -> Project:
    made = make_project(tmp_path / "project", embedder={"endpoint": endpoint.url, "model": "fake"})
    made.write("secret.txt", "The vault code of the registrar is nine.\n")
    made.write("secret.txt.meta.yaml", "groups: [hr]\n")
    made.configure(serve={"auth": "proxy", "url": "http://ask.example"})
    made.index()
    return made


@pytest.fixture
def served(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setenv("PINCITE_PROXY_SECRET", SECRET)
    found = locate(str(project.config))
    service = Service(found)
    app = application(service, access_of(found), "http://ask.example", ["ask.example"])
    with in_thread(app) as port:
        yield port
    service.close()


@pytest.fixture
def proxy(served: int, tmp_path: Path) -> Iterator[str]:
    """nginx with the block of the page, its addresses those of this machine."""
    page = (ROOT / "docs/guide/asking.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```nginx\n(.*?)```", page, re.DOTALL)
    (tmp_path / "users").write_text(USERS, encoding="utf-8")
    block = block.replace("http://127.0.0.1:8750", f"http://127.0.0.1:{served}")
    block = block.replace("/etc/nginx/ask.htpasswd", str(tmp_path / "users"))
    port = free_port()
    user = "" if os.geteuid() else "user root; "
    (tmp_path / "nginx.conf").write_text(
        f"""{user}pid {tmp_path}/pid; error_log {tmp_path}/error.log; daemon off; worker_processes 1; events {{}}
http {{
    access_log off;
    client_body_temp_path {tmp_path}/body; proxy_temp_path {tmp_path}/proxied;
    fastcgi_temp_path {tmp_path}/f; uwsgi_temp_path {tmp_path}/u; scgi_temp_path {tmp_path}/s;
    map $remote_user $ask_groups {{ anna "hr,legal"; default ""; }}
    server {{ listen 127.0.0.1:{port}; server_name ask.example;
{block}
    }}
}}""",
        encoding="utf-8",
    )
    process = subprocess.Popen(["nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")])
    try:
        until(lambda: listens(port), (tmp_path / "error.log").read_text, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def found(url: str, user: tuple[str, str], **headers: str) -> list[str]:
    asked = {"Host": "ask.example", **headers}
    reply = httpx.get(
        f"{url}/api/search", params={"q": "the vault code"}, headers=asked, auth=user, timeout=HANG_SECONDS
    )
    assert reply.status_code == 200, reply.text
    return [hit["uri"] for hit in reply.json()["hits"]]


def test_the_proxy_says_who_asks(proxy: str, served: int) -> None:
    """And a browser cannot, nor who passes the proxy by."""
    assert "secret.txt" in found(proxy, ("anna", "one"))
    assert "secret.txt" not in found(proxy, ("boris", "two"))
    claimed = {"X-Forwarded-Groups": "hr", "X-Forwarded-User": "anna"}
    assert "secret.txt" not in found(proxy, ("boris", "two"), **claimed)
    assert (
        httpx.get(f"{proxy}/api/search?q=vault", headers={"Host": "ask.example"}, timeout=HANG_SECONDS).status_code
        == 401
    )
    program = {"Host": "ask.example", "Content-Type": "application/json"}
    reply = httpx.post(
        f"{proxy}/api/ask", auth=("anna", "one"), headers=program, content='{"q": "vault code"}', timeout=HANG_SECONDS
    )
    assert reply.status_code == 200 and "nine" in reply.text
    past = f"http://127.0.0.1:{served}/api/search?q=vault"
    assert httpx.get(past, headers={"Host": "ask.example", **claimed}, timeout=HANG_SECONDS).status_code == 401
    wrong = {"Host": "ask.example", "X-Pincite-Secret": SECRET[:-1] + "0", **claimed}
    assert httpx.get(past, headers=wrong, timeout=HANG_SECONDS).status_code == 401
