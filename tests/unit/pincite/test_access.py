"""Who asks, told by what a request carries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from pincite.guard import ByProxy, ByToken, TokenFile, access_of
from pipelines.errors import SettingsError
from pipelines.settings.base import settings_from
from pipelines.settings.serve import ServeSettings
from resources.settings_file import Project

SECRET = "s" * 32
SAID = {"X-Pincite-Secret": SECRET, "X-Forwarded-User": "anna", "X-Forwarded-Groups": "hr, legal"}


def request(*headers: tuple[str, str]) -> HTTPConnection:
    raw = [(name.lower().encode(), value.encode("utf-8")) for name, value in headers]
    return HTTPConnection({"type": "http", "headers": raw})


def by_proxy(**settings: Any) -> ByProxy:
    return ByProxy(ServeSettings(auth="proxy", **settings), SECRET)


def test_the_proxy_names_groups() -> None:
    found = by_proxy(operators="legal").who(request(*SAID.items()))
    assert found is not None
    assert (found.name, found.groups, found.operator, found.by_cookie) == ("anna", ("hr", "legal"), True, True)


@pytest.mark.parametrize(
    "change",
    [
        {"X-Pincite-Secret": ""},
        {"X-Pincite-Secret": "S" * 32},
        {"X-Forwarded-User": " "},
        {"X-Forwarded-Groups": "hr,,legal"},
        {"X-Forwarded-Groups": "null"},
        {"X-Forwarded-Groups": "h\u200br"},
    ],
)
def test_invalid_headers_of_the_proxy_let_nobody_in(change: dict[str, str]) -> None:
    assert by_proxy().who(request(*(SAID | change).items())) is None


@pytest.mark.parametrize("doubled", list(SAID))
def test_a_header_that_is_sent_twice_lets_nobody_in(doubled: str) -> None:
    assert by_proxy().who(request(*SAID.items(), (doubled, SAID[doubled]))) is None


def test_an_asker_without_groups_reads_only_public_documents() -> None:
    found = by_proxy().who(request(*(SAID | {"X-Forwarded-Groups": ""}).items()))
    assert found is not None and found.groups == ()


def test_a_secret_that_no_header_can_have_is_told_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable whose bytes are not UTF-8 has lone surrogates in the place of some."""
    monkeypatch.setattr("os.environ", {"PINCITE_PROXY_SECRET": f"{SECRET}\udcff"})
    with pytest.raises(SettingsError, match=r"PINCITE_PROXY_SECRET.*UTF-8") as caught:
        access_of(project(tmp_path, auth="proxy"))
    assert SECRET not in str(caught.value)


def test_a_token_by_header_or_cookie(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path)
    made = tokens.add("anna", ("hr",), operator=False)
    access = ByToken(tokens, None)
    by_header, by_cookie = (
        access.who(request(("Authorization", f"Bearer {made}"))),
        access.who(request(("Cookie", f"pincite_token={made}"))),
    )
    assert by_header is not None and by_cookie is not None
    assert (by_header.groups, by_header.by_cookie, by_cookie.by_cookie) == (("hr",), False, True)
    wrong = [("Authorization", f"Basic {made}"), ("Authorization", made), ("Cookie", "pincite_token="), ("X", made)]
    assert [access.who(request(header)) for header in wrong] == [None] * 4


def project(state: Path, **serve: Any) -> Project:
    return Project(settings_from({"serve": serve}), None, state, state)


def test_settings_that_let_in_whom_nobody_knows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="loopback alone"):
        settings_from({"serve": {"host": "0.0.0.0"}})
    with pytest.raises(SettingsError, match="pincite tokens add"):
        access_of(project(tmp_path, auth="tokens"))
    monkeypatch.setenv("PINCITE_PROXY_SECRET", "short")
    with pytest.raises(SettingsError, match="at least 16 characters"):
        access_of(project(tmp_path, auth="proxy"))
    with pytest.raises(SettingsError, match="no name of an environment variable"):
        settings_from({"serve": {"auth": "proxy", "proxy": {"secret_env": "the secret itself"}}})
