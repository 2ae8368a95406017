"""Calls and tokens a minute, shared pauses, retries, giving up, and what a run may spend. No test sleeps."""

from __future__ import annotations

import threading

import pytest

from resources.llm.endpoint import CallFailed
from resources.llm.limits import FAILURES_IN_A_ROW, Budget, RateLimits, Retries, Stopped

RUNNING = threading.Event()


class Clock:
    """Time that passes only where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def starts(limits: RateLimits, clock: Clock, tokens: list[int]) -> list[float]:
    """When calls start that are made one after another, in seconds from the first."""
    begun, found = clock.now, []
    for count in tokens:
        limits.wait(count, clock.sleep, RUNNING.is_set)
        found.append(clock.now - begun)
    return found


def patience(clock: Clock, limits: RateLimits | None = None, retries: int = 5, longest: float = 60.0) -> Retries:
    return Retries(limits or RateLimits(0, 0, clock), retries, longest, clock.sleep, jitter=lambda: 1.0)


def failing(*errors: CallFailed | None):  # type: ignore[no-untyped-def]
    """A call that fails so often, then answers."""
    waiting = list(errors)

    def ask() -> str:
        error = waiting.pop(0) if waiting else None
        if error:
            raise error
        return "answer"

    return ask


def no_answer(retry_after: float | None = None) -> CallFailed:
    failed = CallFailed("no answer")
    failed.retry_after = retry_after
    return failed


# ---------------------------------------------------------------- limits


def test_no_call_waits_if_there_are_no_limits(clock: Clock) -> None:
    assert starts(RateLimits(0, 0, clock), clock, [10**9] * 100) == [0.0] * 100


def test_no_minute_has_more_calls_than_allowed(clock: Clock) -> None:
    assert starts(RateLimits(2, 0, clock), clock, [1] * 5) == [0.0, 0.0, 60.0, 60.0, 120.0]


def test_no_minute_has_more_tokens_than_allowed(clock: Clock) -> None:
    assert starts(RateLimits(0, 100, clock), clock, [60, 40, 60, 30, 40]) == [0.0, 0.0, 60.0, 60.0, 120.0]


def test_a_call_larger_than_the_limit_starts_alone(clock: Clock) -> None:
    assert starts(RateLimits(0, 100, clock), clock, [50, 500, 50]) == [0.0, 60.0, 120.0]


def test_a_small_call_does_not_overtake_a_large_one_that_waits(clock: Clock) -> None:
    limits, stopping = RateLimits(0, 100, clock), threading.Event()
    limits.wait(60, clock.sleep, RUNNING.is_set)
    with pytest.raises(Stopped):
        limits.wait(60, lambda seconds: stopping.set(), stopping.is_set)
    assert starts(limits, clock, [40]) == [60.0]


def test_time_that_has_passed_counts(clock: Clock) -> None:
    limits = RateLimits(1, 0, clock)
    assert starts(limits, clock, [1]) == [0.0]
    clock.now += 45
    assert starts(limits, clock, [1]) == [15.0]
    clock.now += 61
    assert starts(limits, clock, [1]) == [0.0]


def test_threads_share_the_limit(clock: Clock) -> None:
    limits, lock, begun = RateLimits(3, 0, clock), threading.Lock(), []

    def call() -> None:
        with lock:  # one sleeps at a time, so that the clock is everyone's
            limits.wait(1, clock.sleep, RUNNING.is_set)
            begun.append(clock.now - 1000.0)

    threads = [threading.Thread(target=call) for _ in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert begun == [0.0] * 3 + [60.0] * 3 + [120.0] * 3


def test_a_pause_holds_all_calls_back(clock: Clock) -> None:
    limits = RateLimits(0, 0, clock)
    limits.hold(7)
    limits.hold(3)
    assert starts(limits, clock, [1, 1]) == [7.0, 7.0]


def test_a_pause_that_begins_while_a_call_waits_holds_it_too(clock: Clock) -> None:
    limits = RateLimits(1, 0, clock)
    limits.wait(1, clock.sleep, RUNNING.is_set)

    def sleep(seconds: float) -> None:
        if not clock.pauses:
            limits.hold(100)
        clock.sleep(seconds)

    limits.wait(1, sleep, RUNNING.is_set)
    assert clock.pauses == [60.0, 40.0]


def test_a_call_that_waits_ends_when_it_is_not_wanted_any_more(clock: Clock) -> None:
    limits, stopping = RateLimits(1, 0, clock), threading.Event()
    limits.wait(1, clock.sleep, stopping.is_set)
    with pytest.raises(Stopped):
        limits.wait(1, lambda seconds: stopping.set(), stopping.is_set)


# ---------------------------------------------------------------- retries


@pytest.mark.case(6)
def test_pauses_double_up_to_the_longest(clock: Clock) -> None:
    ask = failing(*[no_answer()] * 5)
    assert patience(clock, longest=10).call(ask, RUNNING) == "answer"
    assert clock.pauses == [1.0, 2.0, 4.0, 8.0, 10.0]


@pytest.mark.case(6)
def test_pauses_are_jittered_to_anything_below(clock: Clock) -> None:
    halves = Retries(RateLimits(0, 0, clock), 5, 60, clock.sleep, jitter=lambda: 0.5)
    halves.call(failing(no_answer(), no_answer()), RUNNING)
    assert clock.pauses == [0.5, 1.0]


@pytest.mark.case(6)
def test_a_call_is_made_again_as_often_as_allowed(clock: Clock) -> None:
    asked = []

    def ask() -> str:
        asked.append(1)
        raise no_answer()

    with pytest.raises(CallFailed, match="no answer"):
        patience(clock, retries=2).call(ask, RUNNING)
    assert len(asked) == 3
    assert clock.pauses == [1.0, 2.0]


def test_all_calls_wait_as_long_as_the_endpoint_asks(clock: Clock) -> None:
    limits = RateLimits(0, 0, clock)
    assert patience(clock, limits).call(failing(no_answer(retry_after=30)), RUNNING) == "answer"
    assert clock.now == 1030.0
    limits.hold(5)
    patience(clock, limits).call(failing(), RUNNING)
    assert clock.now == 1035.0


def test_a_wait_longer_than_the_settings_allow_ends_the_run(clock: Clock) -> None:
    made = patience(clock, longest=60)
    with pytest.raises(CallFailed, match=r"3600 s, more than llm\.longest_wait_seconds"):
        made.call(failing(no_answer(retry_after=3600)), RUNNING)
    assert clock.pauses == []
    assert made.gave_up is not None


def test_a_permanent_failure_is_not_retried(clock: Clock) -> None:
    made = patience(clock)
    with pytest.raises(CallFailed, match="too long"):
        made.call(failing(CallFailed("too long", "rejected", passing=False)), RUNNING)
    assert clock.pauses == []
    assert made.gave_up is None
    assert made.call(failing(), RUNNING) == "answer"


def test_prompts_that_are_refused_one_by_one_do_not_end_the_run(clock: Clock) -> None:
    made = patience(clock, retries=0)
    for _ in range(FAILURES_IN_A_ROW * 2):
        with pytest.raises(CallFailed):
            made.call(failing(CallFailed("too long", "rejected", passing=False)), RUNNING)
    assert made.gave_up is None


def test_a_wrong_key_ends_the_run(clock: Clock) -> None:
    made = patience(clock)
    with pytest.raises(CallFailed):
        made.call(failing(CallFailed("wrong key", "rejected", passing=False, hopeless=True)), RUNNING)
    with pytest.raises(CallFailed, match=r"not asked.*wrong key") as raised:
        made.call(lambda: pytest.fail("it was asked"), RUNNING)
    assert raised.value.code == "rejected"


def test_an_endpoint_that_answers_nobody_is_left_alone(clock: Clock) -> None:
    made = patience(clock, retries=0)
    for number in range(FAILURES_IN_A_ROW):
        assert made.gave_up is None, number
        with pytest.raises(CallFailed, match=r"^no answer$"):
            made.call(failing(no_answer()), RUNNING)
    with pytest.raises(CallFailed, match=r"not asked.*the next run asks again: no answer") as raised:
        made.call(lambda: pytest.fail("it was asked"), RUNNING)
    assert raised.value.code == "unreachable"


def test_one_answer_between_failures_keeps_hope(clock: Clock) -> None:
    made = patience(clock, retries=0)
    for _ in range(FAILURES_IN_A_ROW):
        for _ in range(FAILURES_IN_A_ROW - 1):
            with pytest.raises(CallFailed):
                made.call(failing(no_answer()), RUNNING)
        made.call(failing(), RUNNING)
    assert made.gave_up is None


def test_a_pause_ends_when_the_replies_are_not_wanted_any_more(clock: Clock) -> None:
    stopping = threading.Event()
    made = Retries(RateLimits(0, 0, clock), 5, 60, lambda seconds: stopping.set(), jitter=lambda: 1.0)
    with pytest.raises(Stopped):
        made.call(failing(no_answer()), stopping)


# ---------------------------------------------------------------- budget


def test_a_budget_is_what_is_set_aside_and_what_was_spent() -> None:
    budget = Budget(1.0, spent=0.5)
    assert budget.reserve(0.25)
    assert not budget.reserve(0.5)
    budget.settle(0.25, 0.125)
    assert budget.reserve(0.375)
    assert not budget.reserve(0.0001)
