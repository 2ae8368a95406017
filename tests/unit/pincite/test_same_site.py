"""Which requests name a host of ours and come from a page of ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import HTTPConnection

from pincite.guard import is_named, names_of, of_our_pages

HERE = "127.0.0.1:8750"


def asked(**headers: str) -> HTTPConnection:
    sent = {"host": HERE, **{name.replace("_", "-"): value for name, value in headers.items()}}
    raw = [(name.encode(), value.encode("latin-1")) for name, value in sent.items()]
    return HTTPConnection({"type": "http", "headers": raw})


@pytest.mark.parametrize(
    "origin", ["http://[", "http://[::1", "http://]/", "//[x", "http://\u00bd", "null", "", "http://"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_origin_that_is_no_address_is_another_site(origin: str, method: str) -> None:
    assert not of_our_pages(asked(origin=origin), method, by_cookie=True)


@given(st.text(st.characters(max_codepoint=255)))
def test_no_header_is_more_than_another_site(text: str) -> None:
    assert of_our_pages(asked(origin=text), "GET", by_cookie=False) in (False, text.lower().endswith(f"//{HERE}"))
    assert is_named([text], names_of(["ask.example"])) in (True, False)


def test_two_origins_each_have_to_be_ours() -> None:
    sent = [("host", HERE), ("origin", f"http://{HERE}"), ("origin", "https://evil.example")]
    raw = [(name.encode(), value.encode()) for name, value in sent]
    assert not of_our_pages(HTTPConnection({"type": "http", "headers": raw}), "POST", by_cookie=True)


def test_our_own_page_is_ours_in_whichever_letters() -> None:
    assert of_our_pages(asked(origin=f"HTTP://{HERE}"), "POST", by_cookie=True)


@pytest.mark.parametrize(
    ("method", "headers", "by_cookie", "ours"),
    [
        ("POST", {}, True, False), ("POST", {}, False, True), ("GET", {}, True, True),
        ("POST", {"sec_fetch_site": "same-origin"}, True, True),
        ("GET", {"sec_fetch_site": "cross-site"}, False, False),
        ("GET", {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, True, True),
        ("POST", {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, False, False),
        ("POST", {"sec_fetch_site": "none"}, True, False),
    ],
)  # fmt: skip
def test_headers_of_a_browser_decide_whether_a_request_is_ours(
    method: str, headers: dict[str, str], by_cookie: bool, ours: bool
) -> None:
    assert of_our_pages(asked(**headers), method, by_cookie) is ours
