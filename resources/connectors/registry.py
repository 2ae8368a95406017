"""Which connector reads which scheme: the built-in ones, and those of the entry-point group `pincite.sources`."""

from __future__ import annotations

import difflib
import importlib
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from urllib.parse import parse_qsl

from pipelines.errors import SettingsError
from pipelines.settings.sources import SourceSettings
from resources.connectors.source import Address, Connect, Source, checked

GROUP = "pincite.sources"
_BUILT_IN = {
    "s3": "bucket",
    "gs": "google_bucket",
    "az": "azure_container",
    "git+https": "git",
    "git+ssh": "git",
    "git+file": "git",
    "imap": "mail",
    "imaps": "mail",
    "postgresql": "sql_rows",
    "webdav+http": "webdav",
    "webdav+https": "webdav",
    "http": "web_files",
    "https": "web_files",
    "web+http": "site",
    "web+https": "site",
}

_STRANGERS = ("mail", "site")
"""Connectors of sources in which people who are not trusted name the files: senders of mail, visitors who upload."""


def schemes() -> list[str]:
    """All that can be read here."""
    return sorted({*_BUILT_IN, *(item.name for item in _installed())})


def _installed() -> list[EntryPoint]:
    return list(entry_points(group=GROUP))


def named_by_strangers(scheme: str) -> bool:
    """Return whether people who are not trusted choose the names in a source. No file of it has a say in who finds it
    or another: only the source's own groups restrict. A connector of a package says so by an attribute
    `named_by_strangers` of what its entry point names."""
    if not scheme or scheme in _BUILT_IN:
        return _BUILT_IN.get(scheme) in _STRANGERS
    return any(getattr(item.load(), "named_by_strangers", False) for item in _installed() if item.name == scheme)


def require_known(source: SourceSettings) -> None:
    """Raises SettingsError where no connector reads the source's scheme."""
    if source.scheme not in schemes():
        near = difflib.get_close_matches(source.scheme, schemes(), n=1)
        hint = f"did you mean {near[0]}://?" if near else f"known: {', '.join(schemes())}, or a folder"
        raise SettingsError(f"source {source.name!r}: no connector reads {source.scheme}://; {hint}")


def connect(source: SourceSettings, folder: Path) -> Source:
    """The source at an address; `folder` is its own place in the state.

    Raises SettingsError and SourceError."""
    require_known(source)
    url, _, query = source.path.partition("?")
    try:
        asked = dict(parse_qsl(query, strict_parsing=True)) if query else {}
    except ValueError:
        raise SettingsError(f"source {source.name!r}: what follows the ? of its path is not NAME=VALUE&...") from None
    if both := sorted(asked.keys() & source.options.keys()):
        raise SettingsError(f"source {source.name!r}: {both[0]} stands in its path and in its options; leave one out")
    if source.memberships and named_by_strangers(source.scheme):
        told = "people who are not trusted name its files, so that any of them could say who reads it by memberships"
        raise SettingsError(f"source {source.name!r}: {told}: take `memberships` away, and restrict it by `groups`")
    if source.memberships and "memberships" in {**asked, **source.options}:
        raise SettingsError(f"source {source.name!r}: memberships are a file and an option; leave one out")
    made = _connector(source.scheme)(Address(source.name, url, {**asked, **source.options}, folder))
    return checked(source.name, made)


def _connector(scheme: str) -> Connect:
    if scheme in _BUILT_IN:
        module = importlib.import_module(f"resources.connectors.{_BUILT_IN[scheme]}")
        made: Connect = module.connect
        return made
    loaded: Connect = next(item for item in _installed() if item.name == scheme).load()
    return loaded


def options_of(address: Address, **known: str | None) -> dict[str, str]:
    """The options of an address over what each is when it is left out, "" where None.

    Raises SettingsError for one that the source does not have."""
    for name in address.options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known) or 'none'}"
            raise SettingsError(f"source {address.name!r}: no option {name!r}; {hint}")
    return {name: address.options.get(name, value or "") for name, value in known.items()}
