"""What is started early, since a run is known to need it while it does other things."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from resources.processes import uncollected

if TYPE_CHECKING:
    from resources.state.parts import Parts


class Warmup:
    """The processes that work on documents, and the slow imports of a model that runs here."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._asked = parts, False
        self._threads: list[threading.Thread] = []

    def start(self, documents: int) -> None:
        """Starts now the processes that so many documents want, and lets the models be imported while they parse."""
        self._parts.pool.warm(documents)
        self._asked = True

    def beside(self) -> None:
        """The imports, while this process waits for others; once, and only after `start`."""
        if self._asked and not self._threads and self._parts.project.settings.embedder.endpoint is None:
            self._threads.append(threading.Thread(target=_import_models, daemon=True, name="warm"))
            self._threads[0].start()

    def join(self) -> None:
        """Importing goes on only while this process waits for others: two threads that both want the interpreter are
        slower than one after the other."""
        for thread in self._threads:
            thread.join()


def _import_models() -> None:
    """The slow imports, so that the interpreter does them while worker processes parse."""
    with uncollected():
        import sentence_transformers  # noqa: F401
