"""Random lives of a folder, against a model of what should be served: documents, PDF and DOCX among them, come, change,
move and go, files break and are mended, groups and side-cars change, models and settings are swapped, generations
rolled back and pruned, runs killed; after every step the oracle, at the end what a clean run serves. A reader who
belongs to no group asks all the while.

A life is told by its seed: PINCITE_SOAK_SEED=17 PINCITE_SOAK_LIVES=1 lives the seventeenth again, and
PINCITE_SOAK_LIVES=100 a hundred from the first on.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pincite.index import open_index
from resources.settings_file import locate
from tests.faults.held_run import POINTS, HeldRun
from tests.faults.lives import File, Folder, packed
from tests.faults.running import Answer, Clean, answer, assert_verified, row_versions
from tests.support.embedding_server import EmbeddingServer
from tests.support.places import LIBRARY
from tests.support.projects import NUMBER, PLACES, Project, new_database, project_copy, rows_of

SEEDS = (34031, 74629, 168161, 17101, 33475)
"""Lives in which every act happens, and every point but `published` kills a run: 250,000 were looked through for the
fewest that have these and the most pairs of an act and the point at which the run after it is killed."""
FIRST_SEED = int(os.environ.get("PINCITE_SOAK_SEED", "1"))
LIVES = int(os.environ.get("PINCITE_SOAK_LIVES", "0"))
STEPS = 6
KILLED = 0.75
"""Share of the steps whose run is killed. Each step costs an oracle, so few of them should go without a kill."""
NOT_REACHED = {"reply kept", "summaries written", "contexts before a commit", "listing regrouped"}
"""Points that no run of these lives comes to: no model writes for them, and their buckets stay as they are."""
REAL = ("policies/travel-policy-2026.pdf", "proposals/harbour-records-proposal.docx")

# ---------------------------------------------------------------- the reader


class Watcher:
    """Asks for all passages, over and over, from a thread, as nobody. What it saw at rest, after a run or a rollback,
    are the versions that a document may have; whatever else it sees is half of one, or none of its business."""

    def __init__(self, project: Project) -> None:
        self._located = locate(str(project.config))
        self._done = threading.Event()
        self._error: BaseException | None = None
        self.polled: list[Answer] = []
        self._whole: dict[tuple[str, str], set[Any]] = {}
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        try:
            with open_index(self._located) as opened:
                while not self._done.is_set():
                    self.polled.append(answer(opened, 1000))
                    self._done.wait(0.2)
        except BaseException as error:
            self._error = error

    def rest(self) -> set[str]:
        """Nothing runs now: what is seen is whole. The documents that nobody in particular finds."""
        with open_index(self._located) as opened:
            seen = answer(opened, 1000)
        for key, passages in seen.items():
            self._whole.setdefault(key, set()).add(passages)
        return {uri for route, uri in seen if route == "lexical"}

    def __enter__(self) -> Watcher:
        self.rest()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        if self._error:
            raise self._error

    def assert_saw_whole_documents(self, doubled: set[str]) -> None:
        assert self.polled, "nobody has asked meanwhile"
        for seen in self.polled:
            for key, passages in seen.items():
                assert key[1] in doubled or passages in self._whole.get(key, ()), key


def assert_found(seen: set[str], public: Mapping[str, str]) -> None:
    """Every document that is for all, or its twin, and no other."""
    assert seen <= public.keys()
    assert {public[uri] for uri in seen} == set(public.values())


# ---------------------------------------------------------------- what happens


def crash(folder: Folder, output: Path, rest: Callable[[], Any]) -> bool:
    """Whether a run was killed at a point: it may not come to it."""
    point, number = folder.chance.choice(sorted(POINTS.keys() - NOT_REACHED)), folder.chance.choice((1, 1, 2))
    run = HeldRun(output, ["index", "--config", str(folder.project.config)], point, number)
    try:
        if run.reached():
            run.kill()
            folder.told.append(f"killed: {point}")
            return True
        assert run.ended() == folder.code, run.out + run.err
        folder.run_was_made()
        rest()
        folder.told.append(f"(ran past {point})")
        return False
    finally:
        run.close()


def served(project: Project) -> dict[str, tuple[str, bool, list[str]]]:
    """uri to the own text of its chunks, whether it is marked stale, and its groups, in the live generation."""
    ((live,),) = project.rows("SELECT generation FROM pincite.live")
    rows = project.rows(
        f"SELECT uri, string_agg(text, ' ' ORDER BY ordinal), bool_or(stale), groups "
        f"FROM g{live:04d}.chunks JOIN g{live:04d}.documents USING (doc_id) GROUP BY doc_id, uri, groups"
    )
    return {uri: (" ".join(text.split()), stale, groups) for uri, text, stale, groups in rows}


def oracle(folder: Folder, rest: Callable[[], Any]) -> None:
    result = folder.project.index("--allow-deletions", code=folder.code)
    if result["held"]:
        rest()  # The generation that is served goes on, under the settings that made it.
        ran = folder.project.run("generations publish", str(result["generation"]))
        assert ran.code == 0, ran.out + ran.err
        rest()
        result = folder.project.index(code=folder.code)
    folder.run_was_made()
    assert (result["published"], result["embedder"]) == (True, folder.project.settings["embedder"]["model"])
    assert {item["uri"] for item in result["documents"]["failed"]} == folder.failing()
    assert all(item["stage"] and item["code"] and item["message"] for item in result["documents"]["failed"])
    assert served(folder.project) == folder.wanted()
    assert_verified(folder.project)


FROZEN = {"terms", "postings"}
"""Their weights come of statistics that a generation keeps from when it was made."""


def whole(project: Project) -> dict[str, Any]:
    """Every row and column that is served, of neighbours, boxes, pages, groups and metadata too; and which passages
    have a word."""
    ((live,),) = project.rows("SELECT generation FROM pincite.live")
    words = f"""SELECT term, groups, array_agg(chunk_id ORDER BY chunk_id) FROM (
        SELECT term, groups, {NUMBER} AS number FROM g{live:04d}.postings, {PLACES}) AS p
        JOIN g{live:04d}.chunks USING (number) GROUP BY term, groups ORDER BY term, groups"""
    with psycopg.connect(project.settings["database"]) as connection:
        rows = rows_of(connection, f"g{live:04d}")
    return {**{table: found for table, found in rows.items() if table not in FROZEN}, "words": project.rows(words)}


def assert_as_clean(folder: Folder, server_url: str, place: Path) -> None:
    """What is served after all that happened is what one run over the same files and settings makes."""
    with new_database(server_url) as url:
        place.mkdir()
        clean = Project(place, dict(folder.project.settings))
        shutil.copytree(folder.project.docs, clean.docs)
        clean.configure(database=url)
        clean.index()
        found, wanted = whole(folder.project), whole(clean)
        for table in wanted:
            assert found[table] == wanted[table], table


# ---------------------------------------------------------------- lives


@pytest.fixture(scope="module")
def start(full: tuple[Project, Clean], server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    # Where overlap begins is calibrated when a generation is made, and would tell of the documents there were then.
    settings = {"chunking": {"overlap_floor": 0.6, "target_tokens": 320}}
    with project_copy(full[0], server_url, tmp_path_factory.mktemp("soak") / "project", **settings) as project:
        for path in sorted(project.docs.rglob("*")):
            if path.is_file():
                path.unlink()
        for uri in REAL:
            project.write(uri, (LIBRARY / uri).read_bytes())
        for number, suffix in enumerate((".txt", ".md", ".pdf", ".docx", ".html")):
            text = f"The lamp {number} is lit at dusk. The keeper of the lamp {number} has the key."
            project.write(f"{number}{suffix}", packed(text, suffix))
        project.index("--allow-deletions")
        yield project


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + LIVES) if LIVES else SEEDS)
def test_served_content_equals_the_folder_content_after_any_event(
    seed: int,
    start: Project,
    server_url: str,
    endpoint: EmbeddingServer,
    tmp_path: Path,
    record_property: Callable[[str, Any], None],
) -> None:
    record_property("life", seed)
    record_property("steps", STEPS)
    kills = 0
    with project_copy(start, server_url, tmp_path / "project") as project:
        texts = {uri: text for uri, (text, *_) in served(project).items()}
        files = {uri: File(text, (project.docs / uri).read_bytes(), text) for uri, text in texts.items()}
        folder = Folder(project, random.Random(seed), files)
        try:
            with Watcher(project) as watcher:
                for number in range(STEPS):
                    for _ in range(folder.chance.choice((1, 2, 3))):
                        folder.act()
                        if folder.told[-1] == "roll_back":
                            watcher.rest()
                    if folder.chance.random() < KILLED:
                        kills += crash(folder, tmp_path / f"run{number}", watcher.rest)
                    oracle(folder, watcher.rest)
                    assert_found(watcher.rest(), folder.public())
                folder.mend()
                oracle(folder, watcher.rest)
                watcher.rest()
            watcher.assert_saw_whole_documents(folder.doubled)
            stood, calls = row_versions(project), len(endpoint.texts)
            project.index()
            assert len(endpoint.texts) == calls
            assert row_versions(project) == stood
            assert_as_clean(folder, server_url, tmp_path / "clean")
            record_property("kills", kills)
            record_property("polled", len(watcher.polled))
        except BaseException:
            print(f"seed {seed}: {', '.join(folder.told)}")
            raise
