"""Where a process that works on documents begins: confined before anything is imported that may start a thread.

What confines a process holds for the calling thread and for those that it starts; pyarrow has one of its own as soon
as it is imported.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from resources.workers.frames import read_message
from resources.workers.sandbox import confine
from resources.workers.system_calls import end_with_parent


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    first = read_message(sys.stdin.buffer)
    if first is None:
        return
    folder = [Path(first.value["folder"])]
    confine(folder, folder, programs=[Path(program) for program in first.value["programs"]])

    from resources.workers.worker import serve

    serve(first.value, out)


if __name__ == "__main__":
    main()
