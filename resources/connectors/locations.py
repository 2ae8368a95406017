"""The location of a source in a comparable form: a server and a path on it.

Different addresses of one place give the same location: the case of a host, a default port, percent escapes, a user and
a final slash are ignored. Two names of one server count as two servers.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from pipelines.settings.sources import SourceSettings

FILES = ("file",)
"""The server of files on this machine."""
_WEB_PORTS = (None, 80, 443)
_BUCKETS: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "s3": ("amazonaws.com", ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), ".amazonaws.com"),
    "gs": ("storage.googleapis.com", ("STORAGE_EMULATOR_HOST",), ".googleapis.com"),
    "az": ("blob.core.windows.net", (), ""),
}
"""For each scheme: the default server, the environment variables for another server, and the ending of its name."""
_MAIL_PORTS = {"imap": 143, "imaps": 993}


@dataclass(frozen=True, slots=True)
class Location:
    """A place that contains everything `below` its path, except places below the paths `without`."""

    server: tuple[str, ...]
    path: tuple[str, ...] = ()
    version: str = ""
    """Branch, tag or commit of a repository, or "" if the address names no version."""
    below: bool = True
    without: tuple[tuple[str, ...], ...] = ()
    folded: bool = False
    """True if paths are compared regardless of case, since such servers may do so."""

    def same(self, other: Location) -> bool:
        """Say whether both are the same place. Two different named versions are two places."""
        versions = self.version == other.version or not (self.version and other.version)
        return versions and (self.server, self.path) == (other.server, other.path)

    def name_of(self, other: Location) -> str | None:
        """Return the name of another place relative to this one, or None if it is not below this one."""
        depth = len(self.path)
        if not self.below or self.server != other.server or len(other.path) <= depth:
            return None
        if other.path[:depth] != self.path or any(other.path[: len(path)] == path for path in self.without):
            return None
        if self.server[0] != "mail":
            return "/".join(other.path[depth:])
        from pipelines.parsing.mail import clean_name

        return "/".join(clean_name(part) or "_" for part in other.path)  # mails are named from the account's root


def location_of(source: SourceSettings) -> Location:
    """Return the location of a source. If no connector can read the address, it is compared as a whole."""
    scheme = source.scheme
    if not scheme:
        return of_folder(source.path)
    url, _, query = source.path.partition("?")
    try:
        return _of_address(scheme, url, {**dict(parse_qsl(query)), **source.options})
    except ValueError:
        return Location((scheme, source.path))


def of_folder(path: str | Path) -> Location:
    """Return the location of a folder, with links followed."""
    return Location(FILES, Path(os.path.realpath(path)).parts)


def _of_address(scheme: str, url: str, options: Mapping[str, str]) -> Location:
    parts = urlsplit(url)
    host, port = (parts.hostname or "").rstrip("."), parts.port
    if scheme in _BUCKETS:
        prefix = parts.path.strip("/")  # keys have no escapes, and `a//b` is another key than `a/b`
        place = _bucket_server(scheme, options), parts.netloc.casefold()
        return Location(("bucket", *place), tuple(prefix.split("/")) if prefix else ())
    if scheme.startswith("git+"):
        return _repository(scheme, host, port, parts.path, options)
    if scheme in _MAIL_PORTS:
        return _mailbox(scheme, host, port, unquote(parts.username or ""), parts.path, options)
    if scheme == "postgresql":
        # The rows that two queries share cannot be known: only the same query is the same place.
        asked = " ".join(options.get("query", "").split()).rstrip("; ").casefold()
        database = (options.get("host") or host).casefold(), options.get("port") or str(port or 5432)
        return Location(("rows", *database, parts.path.strip("/"), asked))
    if scheme.removeprefix("web+").removeprefix("webdav+") in ("http", "https"):
        server = ("web", host, "" if port in _WEB_PORTS else str(port))
        return Location(server, _web_path(scheme, parts.path), folded=True)
    return Location((scheme, parts.netloc.casefold()), _plain(parts.path))


def _plain(path: str) -> tuple[str, ...]:
    """Return the parts of a path, without escapes, empty parts and dots."""
    found: list[str] = []
    for part in map(unquote, path.split("/")):
        if part == "..":
            del found[-1:]
        elif part not in ("", "."):
            found.append(part)
    return tuple(found)


def folded_name(text: str) -> str:
    """Return a name in a form for comparison regardless of case."""
    return unicodedata.normalize("NFC", text).casefold()


def _web_path(scheme: str, path: str) -> tuple[str, ...]:
    found = _plain(path)
    if scheme.startswith("web+") and found and "." in found[-1] and not path.endswith("/"):
        found = found[:-1]  # the start page of a site
    return tuple(map(folded_name, found))


def _bucket_server(scheme: str, options: Mapping[str, str]) -> str:
    server, variables, ending = _BUCKETS[scheme]
    account = options.get("account") or os.environ.get("AZURE_STORAGE_ACCOUNT", "")
    if scheme == "az":
        server = f"{account.casefold()}.{server}"
    endpoint = options.get("endpoint") or next(filter(None, map(os.environ.get, variables)), "")
    if not endpoint:
        return server
    parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
    host, port = (parts.hostname or "").rstrip("."), parts.port
    if host == "storage.googleapis.com" or (ending and f".{host}".endswith(ending)):
        return "storage.googleapis.com" if host.endswith("googleapis.com") else server
    path = parts.path.strip("/").casefold()
    return host + (f":{port}" if port not in _WEB_PORTS else "") + (f"/{path}" if path else "")


def _repository(scheme: str, host: str, port: int | None, path: str, options: Mapping[str, str]) -> Location:
    below = tuple(part for part in options.get("path", "").split("/") if part)
    ref = options.get("ref", "")
    version = "" if ref == "HEAD" else ref.removeprefix("refs/").removeprefix("heads/").removeprefix("tags/")
    if scheme == "git+file":
        repository = Path(os.path.realpath(unquote(path)))
        repository = repository.parent if repository.name == ".git" else repository
        return Location(FILES, (*repository.parts, *below), version)
    name = folded_name("/".join(_plain(path))).removesuffix(".git")
    return Location(("git", host, "" if port in (*_WEB_PORTS, 22) else str(port), name), below, version)


def _mailbox(scheme: str, host: str, port: int | None, user: str, path: str, options: Mapping[str, str]) -> Location:
    below = options.get("below") == "true"
    at = tuple(unquote(part) for part in path.split("/") if part) or (() if below else ("INBOX",))
    names = [name.strip().strip("/") for name in options.get("without", "").split(",")]
    without = tuple(_inbox(tuple(name.split("/"))) for name in names if name)
    server = ("mail", host, "" if port in (None, *_MAIL_PORTS.values()) else str(port), user.casefold())
    return Location(server, _inbox(at), below=below, without=without)


def _inbox(path: tuple[str, ...]) -> tuple[str, ...]:
    return ("INBOX", *path[1:]) if path and path[0].upper() == "INBOX" else path
