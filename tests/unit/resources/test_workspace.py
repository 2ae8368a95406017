from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from pipelines.errors import IndexStateError
from pipelines.settings import Settings
from pipelines.stages import WHOLE
from resources.settings_file import Located
from resources.workspace import Workspace


@pytest.mark.parametrize(
    ("table", "bucket", "told"),
    [
        ("parsed_documents", 3, "bucket 03 of parsed_documents has not been made .* materialise parsed_elements first"),
        ("sentence_links", WHOLE, "^sentence_links has not been made .* materialise sentence_links first"),
    ],
)
def test_an_input_that_was_never_made_is_named_with_the_remedy(
    table: str, bucket: int, told: str, tmp_path: Path
) -> None:
    workspace = Workspace(Located(Settings(), None, tmp_path, tmp_path))
    workspace.__dict__["runner"] = SimpleNamespace(manifest=lambda name: {})
    with pytest.raises(IndexStateError, match=told) as caught:
        workspace.manifest_row(table, bucket)
    assert caught.value.code == "missing_input"
