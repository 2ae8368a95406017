"""pincite, by the same calls as the others: `update_index`, which `pincite index` is, and `Index.query`.

The variant is `embedder.dtype`: float32, as the others have it, or auto, as it is shipped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[3])]
sys.path.append(str(Path(__file__).resolve().parent.parent))

from common import STATE, VARIANT, Embedded, K, Place, main, url  # noqa: E402  (the paths above find it)

DTYPE, _, STRATEGY = VARIANT.partition(" ")
ABOUT = {
    "settings": f"embedder: {{preset: english-small, dtype: {DTYPE}}}, all else as shipped; "
    "its own reader, chunks, sentences and "
    + ("hybrid search" if not STRATEGY else f"search by --strategy {STRATEGY}"),
    "rows": "SELECT d.uri, c.text FROM {schema}.chunks c JOIN {schema}.documents d USING (doc_id)",
    "schema": "SELECT 'g' || lpad(generation::text, 4, '0') FROM pincite.live",
}
CONFIG = STATE / "pincite.yaml"


def index(folder: Path) -> None:
    from pincite.run import update_index

    settings = {
        "state": "state",
        "database": url(),
        "sources": [{"name": "documents", "path": str(folder), "include": ["*.pdf"]}],
        "embedder": {"preset": "english-small", "dtype": DTYPE},
    }
    CONFIG.write_text(json.dumps(settings), encoding="utf-8")
    update_index(place=CONFIG)


def query(questions: Sequence[str], strategy: str | None = STRATEGY or None) -> list[list[Place]]:
    from pincite.index import open_index

    with open_index(CONFIG) as found:
        return [
            [(hit["uri"], hit["page_start"], hit["page_end"]) for hit in found.query(question, K, strategy)["hits"]]
            for question in questions
        ]


def watch(module: ModuleType) -> None:
    embedded, embed = Embedded(), module.WindowedEmbedder._embed

    def told(self: Any, texts: Sequence[str], *given: Any) -> Any:
        embedded.tell(texts, None, "bfloat16" if self._bfloat16 else "float32")
        return embed(self, texts, *given)

    module.WindowedEmbedder._embed = told


if __name__ == "__main__":
    main(ABOUT, ("pincite", "torch", "liteparse"), index, query, ("resources.models.embedders.windowed", watch))
