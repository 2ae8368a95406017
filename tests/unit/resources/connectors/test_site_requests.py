"""Requests of a site whose server fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import SourceError
from pipelines.settings.sources import SourceSettings
from resources.connectors.source import connect
from tests.support.lying_server import answer, lying_server


@pytest.mark.parametrize("status", [429, 500, 501, 503, 507, 520, 599])
def test_a_server_that_fails_is_asked_twice(status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.http_client.LONGEST_WAIT", 0.0)
    with lying_server() as server:
        server.says = {"robots.txt": answer(b"", status="404 Not Found"), "": answer(b"", status=f"{status} Failed")}
        source = connect(SourceSettings(name="papers", path=f"web+{server.url}/"), tmp_path)
        with pytest.raises(SourceError, match=str(status)):
            list(source.entries())
        source.close()
        assert [line.split()[1] for line, _ in server.asked] == ["/robots.txt", "/", "/"]
