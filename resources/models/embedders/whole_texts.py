"""Embedders that give a vector for a text and tell nothing of its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from pipelines.errors import ModelError
from pipelines.ports import Piece

if TYPE_CHECKING:
    from pipelines.ports import Progress, Spans


def no_parts(name: str) -> ModelError:
    return ModelError(f"embedder {name!r} gives no vectors of tokens whose mean is that of a text")


class WholeTexts:
    """What ports.CountingEmbedder asks of parts of texts, where no text is too long."""

    pools = False

    @property
    def prompt(self) -> str:
        return ""

    @property
    def window(self) -> int:
        return 0

    def pieces(self, texts: Sequence[str]) -> list[list[Piece]]:
        return [[Piece(text, 1)] for text in texts]

    def with_spans(self, texts: Sequence[str], spans: Sequence[Spans], progress: Progress | None = None) -> NoReturn:
        raise no_parts(type(self).__name__)
