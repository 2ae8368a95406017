"""The report of `sources check`: whether a source can be reached and listed, without indexing anything."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from pipelines.settings.sources import SourceSettings
from resources.connectors.source import connect
from resources.sources.files import is_hidden, is_taken, opened_source, walk

MOST = 10


def check_source(source: SourceSettings) -> dict[str, Any]:
    """Return the JSON of `sources check`: the first entries that pass the source's filters. Raise SourceError if it
    cannot be listed."""
    found = _check_connection(source) if source.scheme else _walk(source)
    entries = list(islice((entry for entry in found if is_taken(entry["uri"], source)), MOST + 1))
    return {"source": source.name, "root": source.path, "entries": entries[:MOST], "more": len(entries) > MOST}


def _check_connection(source: SourceSettings) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="pincite-check-") as own, closing(connect(source, Path(own))) as connected:
        for page in connected.entries():
            for entry in page:
                if not is_hidden(entry.uri):
                    yield {"uri": entry.uri, "size": entry.size, "revision": entry.revision}


def _walk(source: SourceSettings) -> Iterator[dict[str, Any]]:
    with opened_source(source, Path(source.path)) as folder:
        for uri in walk(folder, source):
            if isinstance(uri, str):
                yield {"uri": uri, "size": folder.state(folder.resolve(uri)).st_size, "revision": None}
