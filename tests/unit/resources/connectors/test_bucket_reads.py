"""A bucket as a source, on a client that fails as a test says."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from pipelines.errors import SettingsError, SourceError
from pipelines.settings.sources import SourceSettings
from resources.clouds.bucket import ObjectInfo, Passing
from resources.connectors.bucket import BucketSource
from resources.connectors.source import Entry, SourceAddress, connect

TEXT = b"The ferry crosses."


class Failing:
    """A bucket of one object, whose answers end with a failure, and whose listing names its second page for ever."""

    address = "s3://papers"

    def __init__(self) -> None:
        self.asked: list[object] = []

    def read(self, key: str, start: int, end: int | None, revision: str = "") -> Generator[bytes]:
        self.asked.append((start, end))
        assert len(self.asked) < 5, "what has come whole is asked for again"
        yield TEXT[start:end]
        raise Passing("it broke off")

    def page(self, below: str, token: str) -> tuple[Sequence[ObjectInfo], str]:
        self.asked.append(token)
        assert len(self.asked) < 5, "the listing does not end"
        return [], "2"

    def put(self, key: str, body: bytes | Path) -> None: ...

    def size(self, key: str) -> int | None: ...

    def delete(self, keys: Sequence[str]) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def bucket() -> Failing:
    return Failing()


@pytest.fixture
def source(bucket: Failing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BucketSource:
    monkeypatch.setattr("resources.clouds.bucket.FIRST_PAUSE", 0.001)
    return BucketSource(SourceAddress("papers", "s3://papers", {}, tmp_path), bucket)


def test_an_answer_that_fails_after_the_last_byte_is_whole(bucket: Failing, source: BucketSource) -> None:
    assert b"".join(source.read(Entry("a", "17", len(TEXT)))) == TEXT
    assert bucket.asked == [(0, len(TEXT))]


def test_a_page_that_names_itself_as_the_next_ends_a_listing(bucket: Failing, source: BucketSource) -> None:
    with pytest.raises(SourceError, match="no page of a listing"):
        list(source.entries())
    assert bucket.asked == ["", "2"]


@pytest.mark.parametrize("endpoint", ["http://store.example", "HTTP://store.example"])
def test_credentials_are_not_sent_in_the_clear(endpoint: str, tmp_path: Path) -> None:
    settings = SourceSettings(name="papers", path="s3://papers/under", options={"endpoint": endpoint})
    with pytest.raises(SettingsError, match="plain HTTP"):
        connect(settings, tmp_path)
