from __future__ import annotations

import io
import sys

import pytest

from pincite.progress import EVERY_SECONDS, Progress, lasting, told


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("done", "total", "seconds", "since", "line"),
    [
        (0, 0, 0.2, 0, "links"),
        (0, 0, 41.0, 0, "links: 41 s"),
        (3, 10, 0.5, 3, "links: 3 of 10"),
        (30, 1000, 10.0, 30, "links: 30 of 1000, 3.0 a second, 5 min left"),
        (3, 10, 60.0, 3, "links: 3 of 10, 3.0 a minute, 2 min left"),
        (5, 10, 30.0, 0, "links: 5 of 10, 30 s"),
        (10, 10, 4.0, 9, "links: 10 of 10, 4 s"),
    ],
)
def test_a_line_says_the_rate_and_what_is_left(done: int, total: int, seconds: float, since: int, line: str) -> None:
    assert told("links", done, total, seconds, since) == line


@pytest.mark.parametrize(("seconds", "said"), [(9.4, "9 s"), (600.0, "10 min"), (7500.0, "2 h 5 min")])
def test_seconds_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert lasting(seconds) == said


def test_beginnings_ends_and_every_ten_seconds_are_told() -> None:
    clock, lines = Clock(), list[str]()
    with Progress(clock, lines.append, terminal=False) as progress:
        progress("loading", 0, 0)
        progress("texts", 1, 500)
        for done in range(2, 400):
            clock.now += 0.125
            progress("texts", done, 500)
        progress("texts", 500, 500)
        progress("texts", 500, 500)
    counted = [line.partition(",")[0] for line in lines]
    assert counted == ["loading", "texts: 1 of 500", *(f"texts: {done} of 500" for done in (81, 161, 241, 321, 500))]
    assert lines[2].endswith(", 8.0 a second, 52 s left")


def test_a_stage_that_is_silent_is_told_to_be_at_work() -> None:
    clock, lines = Clock(), list[str]()
    with Progress(clock, lines.append, terminal=False) as progress:
        progress("links", 0, 0)
        progress.beat()
        clock.now += EVERY_SECONDS
        progress.beat()
        progress.beat()
    clock.now += EVERY_SECONDS
    progress.beat()
    assert lines == ["links", "links: 10 s"]


def test_a_terminal_has_a_bar_and_names_cannot_steer_it(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress(terminal=True) as progress:
        progress("fetched of \x1b[2J", 0, 0)
        progress("texts", 3, 4)
        progress("texts", 4, 4)
    shown = screen.getvalue()
    assert "\x1b[2J" not in shown
    assert "fetched of" in shown
    assert "3/4" in shown
