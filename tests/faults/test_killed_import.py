"""`pincite import-vectors` killed while it keeps vectors: what it kept is whole, the next goes on, and nothing of it is
embedded."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources.engine.tables import ParquetTables
from tests.faults.held_run import held_run
from tests.faults.running import assert_verified
from tests.support.embedding_server import embedding_server, hashed_vector
from tests.support.projects import make_project, new_database

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(("point", "number"), [("file half written", 1), ("file half written", 4), ("file written", 2)])
def test_an_import_that_is_killed_keeps_nothing_half(point: str, number: int, server_url: str, tmp_path: Path) -> None:
    with embedding_server() as server, new_database(server_url) as url:
        project = make_project(
            tmp_path / "project", database=url, embedder={"endpoint": server.url, "model": "fake"},
            sentences={"related_floors": {"fake": 0.3}},
        )  # fmt: skip
        assert project.run("export-texts", tmp_path / "texts").code == 0
        texts = pa.concat_tables([pq.read_table(part) for part in sorted((tmp_path / "texts").iterdir())])
        rows = pa.array([hashed_vector(text, 16) for text in texts["text"].to_pylist()])
        pq.write_table(texts.append_column("vector", rows), tmp_path / "vectors.parquet")
        command = ("import-vectors", tmp_path / "vectors.parquet")
        with held_run(tmp_path / "run", *command, "--config", project.config, point=point, number=number) as run:
            run.kill()
        tables = ParquetTables(str(project.state / "parquet"))
        names = [name for name in tables.files() if "/imported-" in name]
        assert all(tables.intact(name) for name in names)
        assert bool(names) == (number > 1)
        held = {key for name in names for key in tables.read(name, ["text_hash"])["text_hash"].to_pylist()}
        ran = project.run(*command)
        assert ran.code == 0, ran.out + ran.err
        assert ran.json["missing"] == 0 and ran.json["taken"] + ran.json["known"] == texts.num_rows
        assert ran.json["known"] <= len(held) and (ran.json["known"] > 0 or number == 1)
        server.forget()
        assert project.index()["embedded"] == {"chunks": 0, "sentences": 0} and server.texts == []
        assert_verified(project)
