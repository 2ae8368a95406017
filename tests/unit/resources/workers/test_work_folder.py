from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from resources.child_process import child_environment
from resources.workers.pool import WorkFolder


def test_the_folder_of_a_killed_process_is_deleted_and_a_held_folder_is_not(tmp_path: Path) -> None:
    script = "import sys; from pathlib import Path; from resources.workers.pool import WorkFolder\n"
    script += "kept = WorkFolder(Path(sys.argv[1])); print(kept.path, flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=child_environment(),
    )  # fmt: skip
    assert child.stdout and child.stdin
    left = Path(child.stdout.readline().strip())
    (left / "copy.pdf").write_text("text of a document")
    held = WorkFolder(tmp_path)
    assert left.exists()
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    child.stdin.close()
    last = WorkFolder(tmp_path)
    assert not left.exists() and held.path.exists()
    for folder in (held, last):
        folder.close()
    assert list(tmp_path.iterdir()) == []
