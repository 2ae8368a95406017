"""Celery's app of a worker that stops at a named point of tests/faults/held_run.py when a test asks for it, as a
process between two instructions does: what happens to the worker meanwhile happens exactly there.

A test writes the point into the folder that PINCITE_TEST_CONTROL names. Of all workers that come to it the first one
takes it: it says who it is, and goes on when it is told to.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from celery.signals import task_prerun
from dagster_celery.app import app

CONTROL = Path(os.environ["PINCITE_TEST_CONTROL"])
POINT, TAKEN, GO = CONTROL / "point", CONTROL / "taken", CONTROL / "go"
_wrapped: set[str] = set()


@task_prerun.connect
def _watch(**_: Any) -> None:
    if not POINT.exists():
        return
    asked = json.loads(POINT.read_text())
    if asked["id"] in _wrapped:
        return
    _wrapped.add(asked["id"])
    from tests.faults.held_run import wrap

    def wait() -> None:
        try:
            os.close(os.open(TAKEN, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return  # another worker stands here
        TAKEN.with_suffix(".by").write_text(json.dumps([os.environ["PINCITE_TEST_WORKER"], os.getpid()]))
        os.rename(TAKEN.with_suffix(".by"), TAKEN)
        with GO.open() as told:  # until the test lets go of it; a stop and its end do not end that
            fcntl.flock(told, fcntl.LOCK_SH)

    wrap(asked["point"], asked["number"], wait)


__all__ = ["app"]
