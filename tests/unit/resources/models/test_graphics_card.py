"""What is chosen where the model is on a graphics card, told by its device alone: no card is needed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from pipelines.settings.models import EmbedderSettings
from resources.models.embedders import transformer
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


class OnProcessor:
    """A model that is quicker in bfloat16."""

    device = torch.device("cpu")

    def __getitem__(self, number: int) -> OnProcessor:
        return self

    def to(self, kind: torch.dtype) -> torch.dtype:
        return kind

    def float(self) -> None: ...


@pytest.mark.parametrize("kept", ["{}", "[]", "null", "{", None], ids=["none", "a list", "null", "cut", "no folder"])
def test_the_numeric_type_on_a_processor_is_measured_whatever_the_cache_holds(
    kept: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[torch.dtype] = []

    def seconds(kind: torch.dtype, device: object) -> float:
        asked.append(kind)
        return 1.0 if kind is torch.bfloat16 else 2.0

    monkeypatch.setattr(transformer, "_seconds", seconds)
    cache = tmp_path / "cache"
    monkeypatch.setenv("PINCITE_CACHE", str(cache))
    if kept is None:
        cache.touch()
    else:
        cache.mkdir()
        (cache / "numeric.json").write_text(kept)
    assert [faster_type(OnProcessor()) for _ in range(2)] == ["bfloat16"] * 2
    assert len(asked) == (4 if kept is None else 2), "measured again only where nothing can be kept"


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
