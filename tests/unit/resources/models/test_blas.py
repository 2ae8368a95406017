from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from pipelines.settings.base import Settings
from resources.models.embedders.light import LightEmbedder, light_embedder, one_thread
from resources.models.embedders.specs import ENGLISH, preset_spec


def threads() -> set[int]:
    np.ones((2, 2)) @ np.ones((2, 2))
    return {item["num_threads"] for item in ThreadpoolController().info() if item["user_api"] == "blas"}


def set_threads(count: int) -> None:
    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        library._real_set_num_threads(count) if hasattr(library, "_real_set_num_threads") else library.set_num_threads(
            count
        )


@pytest.fixture(autouse=True)
def several() -> Iterator[None]:
    """As on a machine with several cores, whatever this one has."""
    before = max(threads())
    set_threads(2)
    yield
    set_threads(before)


def test_many_threads_leave_what_they_found() -> None:
    def within(_: int) -> set[int]:
        with one_thread():
            return threads()

    with ThreadPoolExecutor(4) as pool:
        assert set().union(*pool.map(within, range(200))) == {1}
    assert threads() == {2}


def test_an_exception_inside_the_thread_limit_lifts_it() -> None:
    with pytest.raises(ValueError, match="no"), one_thread():
        raise ValueError("no")
    assert threads() == {2}


def test_a_question_is_embedded_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    made = light_embedder(preset_spec(ENGLISH, Settings().embedder))
    assert made is not None
    seen, vector = [], LightEmbedder._vector

    def watched(self: LightEmbedder, ids: list[int]) -> np.ndarray:
        seen.append(threads())
        return vector(self, ids)

    monkeypatch.setattr(LightEmbedder, "_vector", watched)
    made.queries(["how long are audit logs kept?"])
    assert seen == [{1}]
    assert threads() == {2}
