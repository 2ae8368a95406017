"""What the scripts of all systems share: how benchmarks/peers.py calls them, and how it sees what they embed.

    python peer.py about               what is used, by which settings, and where its rows stand
    python peer.py index FOLDER        index the PDFs of a folder, or what changed there
    python peer.py query QUESTIONS     the ten best passages of each question of a JSON list

The last line on standard output is JSON. A script is run in an environment of its own, and so imports nothing of this
project but this file. It is told by the environment: PGHOST, PGUSER and PGDATABASE of an empty database with pgvector;
PEER_STATE, a folder for what it keeps elsewhere; PEER_MODEL, the folder of the model; PEER_VARIANT, which of its
settings; PEER_EMBEDDED, the file to tell embedded texts to; PEER_KILL, after how many of them the process kills itself.
"""

from __future__ import annotations

import importlib.abc
import importlib.metadata
import importlib.util
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

K = 10
HOST, USER, DATABASE = (os.environ.get(name, "") for name in ("PGHOST", "PGUSER", "PGDATABASE"))
STATE, MODEL = Path(os.environ.get("PEER_STATE", ".")), os.environ.get("PEER_MODEL", "")
VARIANT = os.environ.get("PEER_VARIANT", "")
HYBRID = VARIANT.endswith("hybrid")
DOCUMENTS = Path("documents").absolute()
"""Folder of the indexed files. A system that keeps words in memory reads them from there again."""

Place = tuple[str, int, int]
"""A file's name, and the first and last page of a passage in it."""


def url(scheme: str = "postgresql") -> str:
    return f"{scheme}://{USER}@/{DATABASE}?host={HOST}"


class Embedded:
    """Tells the texts that go to a model to the file PEER_EMBEDDED, and kills the process where it is asked to."""

    def __init__(self) -> None:
        self.file, self.last = os.environ.get("PEER_EMBEDDED"), int(os.environ.get("PEER_KILL") or 0)
        self.count = 0

    def tell(self, texts: Sequence[str], limit: int | None, dtype: str) -> None:
        """`limit` is how many tokens of a text the model reads, None where nothing is cut."""
        if not self.file:
            return
        self.count += len(texts)
        if self.last and self.count > self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        with open(self.file, "a", encoding="utf-8") as file:
            file.write(json.dumps({"limit": limit, "dtype": dtype, "texts": list(texts)}) + "\n")


class _After(importlib.abc.MetaPathFinder):
    """Calls `then` with a module once it is imported: to import it here would cost those who never need it."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self.name, self.then = name, then

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec and spec.loader
        execute = spec.loader.exec_module

        def loaded(module: ModuleType) -> None:
            execute(module)
            self.then(module)

        spec.loader.exec_module = loaded  # type: ignore[method-assign]
        return spec


def after_import(name: str, then: Callable[[ModuleType], None]) -> None:
    sys.meta_path.insert(0, _After(name, then))


def watch_sentence_transformers(module: ModuleType) -> None:
    embedded, encode = Embedded(), module.SentenceTransformer.encode

    def told(self: Any, *given: Any, **named: Any) -> Any:
        texts = given[0] if given else next(iter(named.values()))
        dtype = str(next(self.parameters()).dtype).removeprefix("torch.")
        embedded.tell([texts] if isinstance(texts, str) else texts, int(self.max_seq_length), dtype)
        return encode(self, *given, **named)

    module.SentenceTransformer.encode = told


def main(
    about: Mapping[str, Any],
    packages: Sequence[str],
    index: Callable[[Path], None],
    query: Callable[[Sequence[str]], list[list[Place]]],
    watch: tuple[str, Callable[[ModuleType], None]] = ("sentence_transformers", watch_sentence_transformers),
) -> None:
    command, *arguments = sys.argv[1:]
    after_import(*watch)
    result: Any
    if command == "about":
        result = {**about, "versions": {name: importlib.metadata.version(name) for name in packages}}
    elif command == "index":
        started = time.perf_counter()
        index(Path(arguments[0]))
        result = {"seconds": time.perf_counter() - started}
    else:
        result = query(json.loads(Path(arguments[0]).read_text(encoding="utf-8")))
    print("\n" + json.dumps(result), flush=True)
