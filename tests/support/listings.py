"""Listings of sources, compared."""

from __future__ import annotations

from dataclasses import replace

from resources.sources.folder import FolderListing


def assert_same(one: FolderListing, other: FolderListing) -> None:
    assert list(one.documents) == list(other.documents)
    assert replace(one, documents=other.documents) == other
