"""What is chosen where the model is on a graphics card, told by its device alone: no card is needed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from pipelines.settings.models import EmbedderSettings
from resources.models.embedders.specs import resolve
from resources.models.embedders.transformer import TransformerEmbedder, faster_type
from resources.models.embedders.windowed import Window

CARD, PROCESSOR = (SimpleNamespace(device=torch.device(name)) for name in ("cuda", "cpu"))


@pytest.mark.parametrize(("capability", "kind"), [((7, 5), "float32"), ((8, 0), "bfloat16"), ((9, 0), "bfloat16")])
def test_the_numeric_type_on_a_card_follows_its_capability(
    capability: tuple[int, int], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert faster_type(CARD) == kind


def batches(model: SimpleNamespace, **settings: int) -> int:
    """Return in how many batches a hundred windows of a hundred tokens are embedded."""
    given = EmbedderSettings(preset="english-small", **settings)
    made = TransformerEmbedder(resolve(given, "english-small"), given.dtype, given.batch_tokens)
    made.__dict__["_model"] = model
    return len(list(made._batches([Window(0, 0, 100, 0, [1] * 100)] * 100)))


def test_a_card_is_given_larger_batches_unless_the_settings_say_how_large() -> None:
    assert batches(PROCESSOR) == 10
    assert batches(CARD) == 1
    assert batches(CARD, batch_tokens=1000) == batches(PROCESSOR, batch_tokens=1000) == 10
