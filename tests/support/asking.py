"""`pincite serve` as a process, from the moment it says where it is asked until it has ended."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import until

ASKED = re.compile(r"Ask at (http://\S+?)[ ,]")


@contextmanager
def asking(config: Path) -> Iterator[str]:
    """The address of a server of a configuration on a free port."""
    log = config.with_suffix(".log")
    command = [sys.executable, "-m", "pincite.cli", "serve", "--port", "0", "--config", str(config)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stderr=output, start_new_session=True)
    try:
        said = until(lambda: ASKED.search(log.read_text(encoding="utf-8")), log.read_text, process)
        assert said
        yield said[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
