"""The progress of long work on standard error: one changing line on a terminal, separate lines elsewhere."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from pincite.console import CLEAR, say
from pipelines.escaped_text import one_line

# ---------------------------------------------------------------- words


INDEXING: Mapping[str, str] = {
    "listing the sources": "looking for new and changed documents",
    "parsed_elements": "reading documents",
    "abbreviations": "collecting abbreviations",
    "figure_descriptions": "describing figures",
    "structural_chunks": "dividing into passages",
    "packed_chunks": "joining short passages",
    "chunks": "overlapping neighbouring passages",
    "sentences": "dividing into sentences",
    "chunk_contexts": "adding context to passages",
    "document_summaries": "summarizing documents",
    "chunk_embeddings": "embedding passages",
    "sentence_embeddings": "embedding sentences",
    "sentence_links": "linking related sentences",
    "indexed_documents": "writing the search index",
    "building vector indexes": "building vector indexes",
    "auditing": "checking the new index",
}
"""The stages of an index run in order, by the name that each reports, with words for people."""
WORDS: Mapping[str, str] = {
    **INDEXING,
    "opening the state": "starting the database",
    "beginning the run": "preparing the stages",
    "kept_generations": "updating other generations",
    "questions": "asking test questions",
    "export_texts": "writing texts",
    "verify": "checking rows",
}
"""The work of each stage in words. Names that are missing here are already words."""


def in_words(stage: str) -> str:
    """Return the work of a stage in words. A label may precede its name, and the number of runs at this stage may
    follow."""
    label, colon, name = stage.rpartition(": ")
    name, inner, runs = name.partition(" in ")
    return f"{label}{colon}{WORDS.get(name, name)}{inner}{runs}"


# ---------------------------------------------------------------- report


EVERY_SECONDS = 10.0
"""Most seconds without a line if standard error is not a terminal, so that a silent stage does not seem to hang."""
_REDRAWN_SECONDS = 0.5
"""Seconds between two redraws on a terminal, so that the line changes each second."""


class Progress:
    """A progress report.

    Call it with a stage, the amount done and the total; 0 of 0 means that the stage has begun. Entering its context
    shows `doing` on a terminal at once, before anything is imported. Leaving it ends the report. Any thread may call
    it. `steps` are the counted stages: "stage 4 of 16". A `quiet` report shows nothing. A `kept` one leaves a line for
    every stage on a terminal too.
    """

    def __init__(
        self,
        doing: str = "",
        steps: Iterable[str] = (),
        *,
        quiet: bool = False,
        kept: bool = False,
        clock: Callable[[], float] = time.monotonic,
        say: Callable[[str], None] = say,
        terminal: bool | None = None,
    ) -> None:
        self._doing, self._steps, self._quiet, self._kept = doing, tuple(steps), quiet, kept
        self._clock, self._say = clock, say
        self._terminal = _moves() if terminal is None else terminal
        self._lock, self._ended = threading.RLock(), threading.Event()
        self._watch: threading.Thread | None = None
        self._stage, self._done, self._total, self._step = "", 0, 0, 0
        self._begun, self._from, self._said, self._drawn = 0.0, 0, 0.0, False
        self._wheel = itertools.cycle("|/-\\")

    def __enter__(self) -> Progress:
        if self._terminal and self._doing:
            self(self._doing, 0, 0)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if self._quiet or self._ended.is_set():
            return
        with self._lock:
            new, ended = stage != self._stage, 0 < total == done and not self._total == self._done == done
            if new:
                self._end_stage()
                self._stage, self._begun, self._from = stage, self._clock(), done
                if stage in self._steps:  # no stage counts backwards, in whatever order they come
                    self._step = max(self._step, self._steps.index(stage) + 1)
            self._done, self._total = done, total
            if self._terminal:
                if new or self._clock() - self._said >= _REDRAWN_SECONDS:
                    self._draw()
            elif new or ended or self._clock() - self._said >= EVERY_SECONDS:
                self._tell()
            if self._watch is None:
                self._watch = threading.Thread(target=self._beat, daemon=True, name="progress")
                self._watch.start()

    def beat(self) -> None:
        """Repeat the last report after a long silence, to show that the stage is still at work."""
        with self._lock:
            if self._stage and self._terminal:
                self._draw()
            elif self._stage and self._clock() - self._said >= EVERY_SECONDS:
                self._tell()

    def line(self, text: str) -> None:
        """Write a separate line, above the changing one if there is one."""
        with self._lock:
            self._clear()
            self._say(text)
            if self._stage and self._terminal:
                self._draw()

    def close(self) -> None:
        self._ended.set()
        with self._lock:
            self._end_stage()
            self._clear()
            self._stage = ""

    def _beat(self) -> None:
        while not self._ended.wait(_REDRAWN_SECONDS if self._terminal else EVERY_SECONDS / 4):
            self.beat()

    def _line(self) -> str:
        step = f"stage {self._step} of {len(self._steps)}, " if self._step else ""
        seconds = self._said - self._begun
        return step + progress_line(in_words(self._stage), self._done, self._total, seconds, self._done - self._from)

    def _tell(self) -> None:
        self._said = self._clock()
        self._say(self._line())

    def _end_stage(self) -> None:
        """Leave a line for the ended stage if lines are kept."""
        if self._kept and self._terminal and self._stage in self._steps:
            self._clear()
            self._tell()

    def _draw(self) -> None:
        self._said, self._drawn = self._clock(), True
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(CLEAR + f"{next(self._wheel)} {one_line(self._line())}"[:width])
        sys.stderr.flush()

    def _clear(self) -> None:
        if self._drawn:
            sys.stderr.write(CLEAR)
            sys.stderr.flush()
        self._drawn = False


def _moves() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def progress_line(stage: str, done: int, total: int, seconds: float, since: int) -> str:
    """Return a line of progress; `since` items were done in these seconds."""
    if not total:
        return stage if seconds < 1 else f"{stage}: {lasting(seconds)}"
    line = f"{stage}: {done:,} of {total:,}"
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
    """Return a duration in seconds in words."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"
