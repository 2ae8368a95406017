"""The measure of growth: it takes quadratic work for what it is, and no step, cache or small cost for growth."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.support import growth
from tests.support.growth import Parts, assert_linear


def counted(work: Callable[[int], object]) -> Callable[[int], dict[str, int]]:
    def measured(length: int) -> dict[str, int]:
        parts = Parts()
        parts.counted("work", lambda: work(length))
        return parts.steps

    return measured


def linear(length: int) -> int:
    total = 0
    for each in range(length):
        total += each
    return total


def quadratic(length: int) -> int:
    total = 0
    for each in range(length):
        total += linear(each)
    return total


def copied(length: int) -> str:
    text = " " * length * 100
    for _ in range(length):
        text.strip()
    return text


def stepped(length: int) -> int:
    return linear(length * (40 if length > 40_000 else 1))


@pytest.mark.parametrize("work", [linear, cache(linear), stepped])
def test_work_in_proportion_passes(work: Callable[[int], object]) -> None:
    assert_linear(counted(work), 20_000)


@pytest.mark.parametrize("work", [quadratic, copied])
def test_quadratic_work_is_found(work: Callable[[int], object]) -> None:
    with pytest.raises(AssertionError, match="work"):
        assert_linear(counted(work), 150)


def partly(length: int) -> int:
    return linear(150 * length) + quadratic(length)


def test_limits_given_stand_in_for_the_usual_ones() -> None:
    assert_linear(counted(partly), 150)
    with pytest.raises(AssertionError, match="work"):
        assert_linear(counted(partly), 150, times=2.5)
    assert_linear(counted(partly), 150, times=2.5, much=10_000_000)


@pytest.fixture
def soon_plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "MUCH", 100)
    monkeypatch.setattr(growth, "PLENTY", 100)


@pytest.mark.usefixtures("soon_plenty")
def test_costly_work_is_counted_in_short_texts_alone() -> None:
    sizes: dict[int, bool] = {}

    def measured(length: int) -> dict[str, int]:
        steps = counted(linear)(length)
        sizes[length] = "work" in steps
        return steps

    assert_linear(measured, 400)
    assert sizes == {50: True, 100: True, 200: True, 400: False, 800: False}
    assert "work" in counted(linear)(400), "the next is counted again"


@pytest.mark.usefixtures("soon_plenty")
def test_quadratic_work_that_costs_plenty_is_found() -> None:
    with pytest.raises(AssertionError, match="work"):
        assert_linear(counted(quadratic), 40)
