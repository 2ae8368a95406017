"""The limits of calls to an endpoint: calls and tokens a minute, pauses, retries, giving up, and a run's budget."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from resources.llm.endpoint import CallFailed

T = TypeVar("T")
Sleep = Callable[[float], object]
"""A function that waits for the given seconds, or less: its callers check the clock, and whether to stop, again."""

FAILURES_IN_A_ROW = 3
"""Number of consecutive final failures after which a probe is sent. If the probe gets no answer, the model is not
called again in a run."""
MOST_IN_A_ROW = 30
"""Number of consecutive final failures after which the model is not called again, even if a probe is answered."""
_WINDOW_SECONDS = 60.0
_FIRST_WAIT_SECONDS = 1.0


class Stopped(Exception):
    """The error that replies are no longer wanted."""


class RateLimits:
    """The limits shared by all calls to an endpoint: the calls and tokens in any minute (0 is no limit), and a pause
    that the endpoint asked for. Calls start in order of arrival."""

    def __init__(self, calls: int, tokens: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_calls, self._most_tokens, self._clock = calls, tokens, clock
        self._lock = threading.Lock()
        self._starts: deque[tuple[float, int]] = deque()
        self._held_until = 0.0

    def wait(self, tokens: int, sleep: Sleep, stopped: Callable[[], bool]) -> None:
        """Wait until a call of this many tokens may start. Raise Stopped."""
        with self._lock:
            start = self._reserve(tokens)
        while True:
            if stopped():
                raise Stopped
            pause = max(start, self._held_until) - self._clock()
            if pause <= 0:
                return
            sleep(pause)

    def hold(self, seconds: float) -> None:
        """Start no call before this many seconds have passed."""
        with self._lock:
            self._held_until = max(self._held_until, self._clock() + seconds)

    def _reserve(self, tokens: int) -> float:
        """Return the time at which a call may start: after the calls that arrived earlier, and a minute after enough of
        them. A call larger than the limit starts alone."""
        start = max(self._clock(), self._starts[-1][0] if self._starts else 0.0)
        while self._starts and (self._starts[0][0] + _WINDOW_SECONDS <= start or self._full(tokens)):
            start = max(start, self._starts.popleft()[0] + _WINDOW_SECONDS)
        self._starts.append((start, tokens))
        return start

    def _full(self, tokens: int) -> bool:
        if self._most_calls and len(self._starts) >= self._most_calls:
            return True
        return bool(self._most_tokens) and sum(count for _, count in self._starts) + tokens > self._most_tokens


class Retries:
    """The retries of calls that got no answer, and the decision to give up on an endpoint that answers no call.

    `gave_up` has the reason why no more calls are made. Threads share this object.
    """

    def __init__(
        self,
        limits: RateLimits,
        retries: int,
        longest_wait_seconds: float,
        sleep: Sleep | None = None,
        jitter: Callable[[], float] = random.random,
        answers: Callable[[], bool] = lambda: False,
    ) -> None:
        self._answers = answers
        self.gave_up: str | None = None
        self._code = "unreachable"
        self._limits, self._retries, self._longest = limits, retries, longest_wait_seconds
        self._sleep, self._jitter = sleep, jitter
        self._lock = threading.Lock()
        self._failures = 0

    def call(self, ask: Callable[[], T], stopping: threading.Event, tokens: int = 0) -> T:
        """Return the result of `ask`, with retries as needed and allowed. Raise CallFailed, or Stopped if `stopping` is
        set."""
        sleep = self._sleep or stopping.wait
        for tried in range(self._retries + 1):
            self._require_hope()
            self._limits.wait(tokens, sleep, stopping.is_set)
            self._require_hope()
            try:
                given = ask()
            except CallFailed as failed:
                self._note_failure(failed, last=tried == self._retries)
                if not failed.passing or tried == self._retries:
                    raise
            else:
                self._note_answer()
                return given
            # Full jitter, so that calls that failed together are not repeated together.
            sleep(min(self._longest, _FIRST_WAIT_SECONDS * 2.0**tried) * self._jitter())
        raise AssertionError("unreachable")

    def _note_failure(self, failed: CallFailed, last: bool) -> None:
        wait = failed.retry_after
        if failed.passing and wait is not None and wait > self._longest:
            failed.passing, failed.hopeless = False, True
            failed.message += f"; it asks to be left alone for {wait:.0f} s, more than llm.longest_wait_seconds"
        elif failed.passing and wait is not None:
            self._limits.hold(wait)
        if failed.passing and not last:
            return
        with self._lock:
            # A prompt that is refused itself (400) shows that the endpoint is up.
            self._failures = failures = self._failures + 1 if failed.code == "unreachable" else 0
        # A document that makes the endpoint fail has many prompts: the endpoint may answer those of others.
        asks = failures >= FAILURES_IN_A_ROW and failures % FAILURES_IN_A_ROW == 0 and failures < MOST_IN_A_ROW
        if failed.hopeless or failures >= MOST_IN_A_ROW or (asks and not self._answers()):
            with self._lock:
                if self.gave_up is None and (failed.hopeless or self._failures >= FAILURES_IN_A_ROW):
                    self._code, self.gave_up = failed.code, failed.message

    def _note_answer(self) -> None:
        with self._lock:
            self._failures = 0

    def _require_hope(self) -> None:
        if self.gave_up is not None:
            message = f"not asked, as the endpoint answers nobody; the next run asks again: {self.gave_up}"
            raise CallFailed(message, self._code, passing=False)


class Budget:
    """The money that a run may spend, shared by its models and their threads. Estimates are reserved before a call."""

    def __init__(self, most: float, spent: float = 0.0) -> None:
        self._most, self._committed = most, spent
        self._lock = threading.Lock()

    def reserve(self, cost: float) -> bool:
        """Reserve an amount; return False if too little is left."""
        with self._lock:
            if self._committed + cost > self._most:
                return False
            self._committed += cost
            return True

    def settle(self, reserved: float, actual: float) -> None:
        with self._lock:
            self._committed += actual - reserved
