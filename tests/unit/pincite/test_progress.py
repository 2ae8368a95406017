from __future__ import annotations

import io
import sys

import pytest

from pincite.progress import EVERY_SECONDS, INDEXING, WORDS, Progress, in_words, lasting, progress_line
from pipelines.stages import STAGES


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
        (30, 1000, 10.0, 30, "links: 30 of 1,000, 3.0 a second, 5 min left"),
        (3, 10, 60.0, 3, "links: 3 of 10, 3.0 a minute, 2 min left"),
        (5, 10, 30.0, 0, "links: 5 of 10, 30 s"),
        (10, 10, 4.0, 9, "links: 10 of 10, 4 s"),
    ],
)
def test_a_line_says_the_rate_and_what_is_left(done: int, total: int, seconds: float, since: int, line: str) -> None:
    assert progress_line("links", done, total, seconds, since) == line


@pytest.mark.parametrize(("seconds", "said"), [(9.4, "9 s"), (600.0, "10 min"), (7500.0, "2 h 5 min")])
def test_seconds_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert lasting(seconds) == said


def test_beginnings_ends_and_every_ten_seconds_are_told() -> None:
    clock, lines = Clock(), list[str]()
    with Progress(clock=clock, say=lines.append, terminal=False) as progress:
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
    with Progress(clock=clock, say=lines.append, terminal=False) as progress:
        progress("links", 0, 0)
        progress.beat()
        clock.now += EVERY_SECONDS
        progress.beat()
        progress.beat()
    clock.now += EVERY_SECONDS
    progress.beat()
    assert lines == ["links", "links: 10 s"]


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Return a terminal of 60 columns in place of standard error, on which no thread of its own draws."""
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(Progress, "_beat", lambda self: None)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    return screen


def drawn(screen: Screen) -> list[str]:
    """Return the line at each redraw, without the wheel that turns."""
    return [part[2:] for part in screen.getvalue().split("\r\x1b[K") if part]


def test_a_terminal_has_one_line_that_moves_and_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    clock = Clock()
    with Progress("starting", clock=clock) as progress:
        clock.now += 1
        progress.beat()
        progress("parsed_elements", 3, 4)
        clock.now += 1
        progress("parsed_elements", 4, 4)
    assert drawn(screen) == ["starting", "starting: 1 s", "reading documents: 3 of 4", "reading documents: 4 of 4, 1 s"]
    assert "\n" not in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_names_cannot_steer_a_terminal_and_no_line_is_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    with Progress() as progress:
        progress("fetched of \x1b[2J", 0, 0)
        progress("x" * 200, 0, 0)
    assert "\x1b[2J" not in screen.getvalue()
    assert drawn(screen) == ["fetched of \\x1b[2J", "x" * 57]


def test_stages_are_counted_and_no_count_falls() -> None:
    lines = list[str]()
    with Progress(steps=("a", "b", "c"), clock=Clock(), say=lines.append, terminal=False) as progress:
        for stage in ("before", "b", "within", "a", "c"):
            progress(stage, 0, 0)
    of_steps = ("stage 2 of 3, b", "stage 2 of 3, within", "stage 2 of 3, a", "stage 3 of 3, c")
    assert lines == ["before", *of_steps]


def test_a_quiet_report_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    with Progress("starting", quiet=True) as progress:
        progress("a", 1, 2)
    assert screen.getvalue() == ""


def test_a_kept_report_leaves_a_line_for_every_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch)
    lines = list[str]()
    with Progress(steps=("chunks",), kept=True, clock=Clock(), say=lines.append) as progress:
        progress("chunks", 2, 2)
    assert lines == [f"stage 1 of 1, {WORDS['chunks']}: 2 of 2"]


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("parsed_elements", "reading documents"),
        ("parsed_elements in 3 runs", "reading documents in 3 runs"),
        ("small: parsed_elements", "small: reading documents"),
        ("fetched of docs in use: a", "fetched of docs in use: a"),
    ],
)
def test_stages_are_said_in_words(stage: str, words: str) -> None:
    assert in_words(stage) == words


def test_every_stage_of_text_and_vectors_has_words_in_its_order() -> None:
    named = [name for name in INDEXING if name in STAGES]
    assert set(named) == STAGES.keys() - {"raw_documents"}
    assert all(set(STAGES[name].inputs).isdisjoint(tables_after(named, name)) for name in named)


def tables_after(named: list[str], name: str) -> set[str]:
    return {table for later in named[named.index(name) :] for table in STAGES[later].tables}
