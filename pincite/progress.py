"""The progress of long work: a bar on a terminal, lines elsewhere; always on standard error."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from pincite.console import say
from pipelines.escaped_text import one_line

EVERY_SECONDS = 10.0
"""Most seconds without a line if standard error is no terminal, so that a silent stage does not seem to hang."""


class Progress:
    """A report of progress, called with a stage, how much of it is done and how much there is to do; 0 of 0 if only its
    beginning is known. Leaving its context ends it. Any thread may call it."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        say: Callable[[str], None] = say,
        terminal: bool | None = None,
    ) -> None:
        self._clock, self._say = clock, say
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._watch: threading.Thread | None = None
        self._bar: Any = None
        self._stage, self._done, self._total = "", 0, 0
        self._begun, self._from, self._said = 0.0, 0, 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, stage: str, done: int, total: int) -> None:
        with self._lock:
            new, ended = stage != self._stage, 0 < total == done and not self._total == self._done == done
            if new:
                self._stage, self._begun, self._from = stage, self._clock(), done
            self._done, self._total = done, total
            if self._terminal:
                self._draw(new)
            elif new or ended or self._clock() - self._said >= EVERY_SECONDS:
                self._tell()
            if self._watch is None and not self._terminal:
                self._watch = threading.Thread(target=self._beat, daemon=True, name="progress")
                self._watch.start()

    def beat(self) -> None:
        """Report the progress again if nothing was reported for long: a silent stage is still at work."""
        with self._lock:
            if self._stage and self._clock() - self._said >= EVERY_SECONDS:
                self._tell()

    def line(self, text: str) -> None:
        """Write a line of its own, above the bar if there is one."""
        with self._lock:
            if self._bar is not None:
                self._bar.clear()
            self._say(text)
            if self._bar is not None:
                self._bar.refresh()

    def close(self) -> None:
        self._ended.set()
        with self._lock:
            if self._bar is not None:
                self._bar.close()
            self._bar, self._stage = None, ""

    def _beat(self) -> None:
        while not self._ended.wait(EVERY_SECONDS / 4):
            self.beat()

    def _tell(self) -> None:
        self._said = self._clock()
        self._say(told(self._stage, self._done, self._total, self._said - self._begun, self._done - self._from))

    def _draw(self, new: bool) -> None:
        from tqdm import tqdm

        if new:
            if self._bar is not None:
                self._bar.close()
            whole = None if self._total else "{desc} {elapsed}"
            self._bar = tqdm(
                desc=one_line(self._stage), file=sys.stderr, leave=False, mininterval=0.1, bar_format=whole
            )
        if self._total:
            self._bar.bar_format, self._bar.total = None, self._total
        self._bar.update(self._done - self._bar.n)
        if new:
            self._bar.refresh()


def told(stage: str, done: int, total: int, seconds: float, since: int) -> str:
    """Return a line of progress; `since` items were done in these seconds."""
    if not total:
        return stage if seconds < 1 else f"{stage}: {lasting(seconds)}"
    line = f"{stage}: {done} of {total}"
    if seconds < 1:
        return line
    if done == total or since <= 0:
        return f"{line}, {lasting(seconds)}"
    rate = since / seconds
    pace = (
        f"{rate:,.0f} a second" if rate >= 10 else f"{rate:.1f} a second" if rate >= 1 else f"{rate * 60:.1f} a minute"
    )
    return f"{line}, {pace}, {lasting((total - done) / rate)} left"


def lasting(seconds: float) -> str:
    """Return a duration in seconds as people say it."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"
