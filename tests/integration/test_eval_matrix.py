"""`pincite eval --matrix`: many settings as one evaluation, beside the user's index and without touching it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psycopg
import pyarrow.parquet as pq
import pytest

from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, Ran, make_project, new_database
from tests.support.waiting import HANG_SECONDS

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

QUESTIONS = {
    "leave": ("How many days of annual leave do staff receive?", "handbook.md", "twenty-eight days of annual leave"),
    "boiler": ("When is the boiler in the east wing inspected?", "boilers.txt", "inspected every October"),
    "badge": ("What do visitors wear?", "visitors.html", "wear a yellow badge"),
    "vault": ("Who holds the vault key?", "archive/keys.md", "held by the registrar"),
}
MATRIX: dict[str, Any] = {
    "axes": {
        "enrichment": {"on": {}, "off": {"enrichment": {"summary": "off", "context": "off"}}},
        "strategy": {"hybrid": {}, "dense": {"query.strategy": "dense"}, "lexical": {"query.strategy": "lexical"}},
        "rerank": {"none": {}, "weighted": {"query.rerank": ["weighted"]}},
    },
    "tables": {
        "Strategies": {"rows": [{"strategy": "*", "enrichment": "*"}]},
        "Rerankers": {"rows": [{"rerank": "*"}], "metrics": ["recall@1", "mrr"]},
    },
}
RUNS = 3 * 2 + 1
"""base is in both tables."""
FILES = {"runs.parquet", "questions.parquet", "runs.json", "strategies.svg", "rerankers.svg", "tables.md"}


@dataclass
class Bench:
    """A project with golden questions, and matrices whose experiments have a database of their own."""

    project: Project
    url: str

    @property
    def questions(self) -> Path:
        return self.project.folder / "questions.jsonl"

    @property
    def experiments(self) -> Path:
        return self.project.state / "experiments"

    def matrix(self, name: str = "ablations", **values: Any) -> Path:
        """JSON is YAML."""
        file = self.project.folder / f"{name}.yaml"
        file.write_text(json.dumps({**MATRIX, "database": self.url, **values}), encoding="utf-8")
        return file

    def evaluate(self, *arguments: str | Path, **values: Any) -> Ran:
        return self.project.run("eval", self.questions, "--matrix", self.matrix(**values), *arguments)

    def scores(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """All that is said of each run but how long it took."""
        return {run["name"]: {**run, "seconds_per_query": None} for run in result["runs"]}

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What the database of the experiments answers."""
        with psycopg.connect(self.url) as connection:
            return connection.execute(statement).fetchall()  # type: ignore[arg-type]


@contextmanager
def bench(folder: Path, server_url: str, endpoint: EmbeddingServer) -> Iterator[Bench]:
    with new_database(server_url) as own, new_database(server_url) as url:
        project = make_project(folder, database=own, embedder={"endpoint": endpoint.url, "model": "fake"})
        made = Bench(project, url)
        lines = [
            json.dumps({"id": name, "question": text, "gold": [{"uri": uri, "quote": quote}]})
            for name, (text, uri, quote) in QUESTIONS.items()
        ]
        made.questions.write_text("\n".join(lines), encoding="utf-8")
        yield made


@pytest.fixture
def fresh(server_url: str, endpoint: EmbeddingServer, tmp_path: Path) -> Iterator[Bench]:
    """Nothing is indexed yet."""
    with bench(tmp_path / "project", server_url, endpoint) as made:
        yield made


@pytest.fixture(scope="module")
def untouched(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Nothing is ever indexed."""
    with bench(tmp_path_factory.mktemp("untouched") / "project", server_url, endpoint) as made:
        yield made


@dataclass
class Done:
    """A whole matrix beside an index of the user's: what it said, the texts that the user's index and the matrix
    embedded, what stood before and after, the number of keys of each table, and the generations made and published."""

    bench: Bench
    ran: Ran
    indexed: set[str]
    embedded: Counter[str]
    before: tuple[dict[str, Any], Any]
    after: tuple[dict[str, Any], Any]
    keys: dict[str, int]
    generations: list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def done(
    server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory, workers: None
) -> Iterator[Done]:
    with bench(tmp_path_factory.mktemp("done") / "project", server_url, endpoint) as made:
        endpoint.forget()
        made.project.index()
        before, indexed = standing(made), set(endpoint.texts)
        endpoint.forget()
        ran = made.evaluate()
        keys = dict(made.rows("SELECT table_name, count(DISTINCT key) FROM pincite.manifest GROUP BY 1"))
        generations = made.rows("SELECT count(*), count(published_at) FROM pincite.generations")
        yield Done(made, ran, indexed, Counter(endpoint.texts), before, standing(made), keys, generations)


def standing(made: Bench) -> tuple[dict[str, Any], Any]:
    """The user's files with their content and time of writing, and every row of every table of the database."""
    own = made.project.state / "parquet"
    files = {str(file): (file.read_bytes(), file.stat().st_mtime_ns) for file in own.rglob("*") if file.is_file()}
    tables = made.project.rows("SELECT schemaname, relname FROM pg_stat_user_tables ORDER BY 1, 2")
    rows = {
        f"{schema}.{table}": made.project.rows(f"SELECT ctid::text, xmin::text FROM {schema}.{table} ORDER BY ctid")
        for schema, table in tables
        if table != "migrations"
    }
    return files, rows


# ---------------------------------------------------------------- what comes out


def test_every_run_is_scored_and_named_by_its_values(done: Done) -> None:
    assert done.ran.code == 0, done.ran.err
    result = done.ran.json
    assert [run["name"] for run in result["runs"]] == [
        "base", "enrichment=off", "strategy=dense", "enrichment=off, strategy=dense", "strategy=lexical",
        "enrichment=off, strategy=lexical", "rerank=weighted",
    ]  # fmt: skip
    assert (result["failed"], result["resumed"]) == ([], 0)
    for run in result["runs"]:
        assert (run["n"], run["unmapped"]) == (len(QUESTIONS), 0)
        assert run["strategy"] == run["choice"]["strategy"]
        assert run["rerank"] == ([] if run["choice"]["rerank"] == "none" else ["weighted"])
    by_name = {run["name"]: run["metrics"] for run in result["runs"]}
    assert by_name["strategy=lexical"]["recall@5"] == 1.0
    assert len({json.dumps(metrics) for metrics in by_name.values()}) > 1, "no setting made a difference"


def test_results_are_parquet_json_markdown_and_plots(done: Done) -> None:
    folder = done.bench.experiments / "ablations"
    assert {Path(file) for file in done.ran.json["files"]} == {folder / name for name in FILES}
    assert {file.name for file in folder.iterdir()} == FILES
    runs = {row["name"]: row for row in pq.read_table(folder / "runs.parquet").to_pylist()}
    questions = pq.read_table(folder / "questions.parquet").to_pylist()
    assert len(questions) == RUNS * len(QUESTIONS)
    for run in done.ran.json["runs"]:
        row, own = runs[run["name"]], [each for each in questions if each["run"] == run["name"]]
        assert (row["axis.strategy"], row["recall@5"]) == (run["choice"]["strategy"], run["metrics"]["recall@5"])
        assert [row["mrr.low"], row["mrr.high"]] == run["ci95"]["mrr"]
        assert [each["id"] for each in own] == list(QUESTIONS)
        assert sum(each["mrr"] for each in own) / len(own) == pytest.approx(run["metrics"]["mrr"])
        assert all(each["hits"] and len(set(each["hits"])) == len(each["hits"]) for each in own)
        assert sum(each["seconds"] for each in own) / len(own) == pytest.approx(run["seconds_per_query"])
    assert json.loads((folder / "runs.json").read_text())["runs"] == done.ran.json["runs"]
    shown = (folder / "tables.md").read_text()
    assert "### Strategies" in shown and "![Rerankers](rerankers.svg)" in shown
    assert "| rerank | recall@1 | mrr | s a question |" in shown
    for name in ("strategies.svg", "rerankers.svg"):
        assert ElementTree.parse(folder / name).getroot().tag.endswith("svg")


def test_people_see_the_tables_and_where_the_files_are(done: Done) -> None:
    from tests.support.projects import run_command

    made = done.bench
    ran = run_command("eval", made.questions, "--matrix", made.matrix(), "--config", made.project.config)
    assert ran.code == 0
    lines = ran.out.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("strategy  enrichment  accuracy_doc"))
    assert lines[head - 3] == "Strategies" and lines[head + 1].startswith("hybrid    on ")
    assert "Strategies: differences" in lines and "|" not in ran.out
    assert f"written: {made.experiments / 'ablations' / 'tables.md'}" in ran.out
    assert f"finished before: {RUNS} of {RUNS} runs" in ran.out


# ---------------------------------------------------------------- what is shared, and what is left alone


def test_the_users_index_is_as_it_was(done: Done) -> None:
    assert done.after == done.before
    assert any(done.before[0]) and any(done.before[1].values())


def test_a_text_is_embedded_once_and_not_at_all_where_the_user_has_its_vector(done: Done) -> None:
    asked = {"dimension", *(text for text, _, _ in QUESTIONS.values())}
    texts = {text: count for text, count in done.embedded.items() if text not in asked}
    assert texts, "nothing was left to embed, so that nothing is tested of it"
    assert set(texts.values()) == {1}
    assert not texts.keys() & done.indexed


def test_documents_are_parsed_once_and_each_index_is_made_once(done: Done) -> None:
    keys = done.keys
    assert {keys[name] for name in ("raw_documents", "parsed_elements", "packed_chunks", "chunks")} == {1}
    assert keys["chunk_contexts"] == keys["indexed_documents"] == 2
    assert done.generations == [(2, 0)]
    assert done.bench.rows("SELECT * FROM pincite.live") == []


# ---------------------------------------------------------------- again


def test_a_second_time_asks_nothing_and_says_the_same(done: Done, endpoint: EmbeddingServer) -> None:
    endpoint.forget()
    again = done.bench.evaluate().json
    assert endpoint.requests == []
    assert again["resumed"] == RUNS
    assert again["runs"] == done.ran.json["runs"]


def test_numbers_are_the_same_in_another_place(done: Done, server_url: str, tmp_path: Path) -> None:
    with new_database(server_url) as url:
        tables = {"Some": {"rows": [{"strategy": "*"}]}}
        again = done.bench.evaluate("--experiments", tmp_path / "elsewhere", database=url, tables=tables).json
    assert again["resumed"] == 0
    found, first = done.bench.scores(again), done.bench.scores(done.ran.json)
    assert found == {name: first[name] for name in ("base", "strategy=dense", "strategy=lexical")}


@pytest.mark.faults
def test_only_what_changed_is_made_again_and_sources_may_move(fresh: Bench, endpoint: EmbeddingServer) -> None:
    tables = {"t": {"rows": [{"strategy": ["dense", "lexical"]}]}}
    first = fresh.evaluate(tables=tables).json
    fresh.project.write("boilers.txt", "Boiler inspection\n\nThe boiler in the east wing is inspected every May.\n")
    endpoint.forget()
    second = fresh.evaluate(tables=tables).json
    texts = {text for text in endpoint.texts if text not in [each for each, _, _ in QUESTIONS.values()]}
    assert texts and all("oiler" in text for text in texts)
    assert second["resumed"] == 0
    assert (first["runs"][0]["unmapped"], second["runs"][0]["unmapped"]) == (0, 1)
    assert second["runs"][0]["index"]["generation"] == first["runs"][0]["index"]["generation"]
    fresh.project.write(
        "keys.md", "# Keys\n\nThe vault key is held by the registrar.\n", fresh.project.folder / "other"
    )
    fresh.project.configure(sources=[{"name": "docs", "path": "other"}])
    third = fresh.evaluate(tables=tables).json
    assert (third["runs"][0]["index"]["chunks"], third["runs"][0]["unmapped"]) == (1, len(QUESTIONS))


@pytest.mark.faults
def test_a_matrix_needs_no_index_of_the_users_and_starts_a_database_of_its_own(fresh: Bench) -> None:
    tables = {"t": {"rows": [{"strategy": "lexical"}]}}
    ran = fresh.evaluate(database="embedded", tables=tables)
    assert ran.code == 0, ran.err
    assert ran.json["runs"][0]["metrics"]["recall@5"] == 1.0
    assert (fresh.experiments / "state" / "postgres").is_dir()
    assert fresh.project.rows("SELECT count(*) FROM information_schema.schemata WHERE schema_name = 'pincite'") == [
        (0,)
    ]
    assert sorted(entry.name for entry in fresh.project.state.iterdir()) == ["experiments"]


@pytest.mark.faults
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_matrix_goes_on_where_it_was(
    fresh: Bench, endpoint: EmbeddingServer, end: signal.Signals, done: Done
) -> None:
    """It is stopped in the first question of the fourth run. What a shell runs in the background ignores Ctrl-C, and so
    would this process where the tests are run so."""
    runs = fresh.experiments / "runs"

    def fourth(texts: list[str]) -> bool:
        return texts == [QUESTIONS["leave"][0]] and runs.exists() and len(list(runs.iterdir())) == 3

    command = ["eval", fresh.questions, "--matrix", fresh.matrix(), "--config", fresh.project.config, "--json"]
    endpoint.hold(fourth)
    run = subprocess.Popen(
        [sys.executable, "-m", "pincite.cli", *map(str, command)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        assert endpoint.arrived.wait(HANG_SECONDS)
        run.send_signal(end)
        out, err = run.communicate(timeout=HANG_SECONDS)
    finally:
        endpoint.released.set()
        run.kill()
    assert run.returncode == (1 if end is signal.SIGINT else -signal.SIGKILL), err
    if end is signal.SIGINT:
        assert json.loads(out)["error"]["code"] == "interrupted"
        assert "the same command continues after the finished runs" in err
    assert len(list(runs.iterdir())) == 3
    result = fresh.evaluate().json
    assert result["resumed"] == 3
    assert {name: run["metrics"] for name, run in fresh.scores(result).items()} == {
        name: run["metrics"] for name, run in done.bench.scores(done.ran.json).items()
    }


# ---------------------------------------------------------------- what goes wrong


def test_a_run_that_fails_is_named_and_the_others_go_on(done: Done, endpoint: EmbeddingServer) -> None:
    axes = {
        "embedder": {"as set": {}, "other": {"embedder": {"endpoint": endpoint.url, "model": "other"}}},
        "rerank": {"none": {}, "model": {"query.rerank": ["cross-encoder"]}},
    }
    first = done.bench.evaluate(name="failing", axes=axes, tables={"t": {"rows": [{"rerank": "*"}]}})
    assert first.code == 3
    assert [run["name"] for run in first.json["runs"]] == ["base"]
    (failed,) = first.json["failed"]
    assert (failed["name"], failed["code"]) == ("rerank=model", "settings") and "cross_encoder" in failed["message"]

    assert "| model | " in first.json["tables"] and "| failed: " in first.json["tables"]
    rows = {row["name"]: row for row in pq.read_table(done.bench.experiments / "failing" / "runs.parquet").to_pylist()}
    assert rows["rerank=model"]["failed"].startswith("settings: ") and rows["base"]["failed"] is None

    endpoint.next(endpoint.status(401))
    second = done.bench.evaluate(name="failing", axes=axes, tables={"t": {"rows": [{"embedder": "*"}]}})
    assert (second.code, second.json["resumed"]) == (3, 1)
    assert [(item["name"], item["code"]) for item in second.json["failed"]] == [("embedder=other", "model")]

    third = done.bench.evaluate(name="failing", axes=axes, tables={"t": {"rows": [{"embedder": "*"}]}})
    assert (third.code, third.json["resumed"], len(third.json["runs"])) == (0, 1, 2)


def test_a_matrix_is_not_named_as_the_folders_beside_its_results(done: Done) -> None:
    named = done.bench.project.folder / "runs.yaml"
    named.write_bytes(done.bench.matrix().read_bytes())
    ran = done.bench.project.run("eval", done.bench.questions, "--matrix", named)
    assert ran.code == 2
    assert "runs is taken" in ran.err


def test_experiments_never_take_an_index_for_their_own(done: Done, tmp_path: Path) -> None:
    made, user = done.bench, done.bench.project
    ran = made.evaluate("--experiments", tmp_path / "new", database=user.settings["database"])
    assert (ran.code, ran.json["error"]["code"]) == (2, "usage")
    assert "holds an index already" in ran.json["error"]["message"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "state").symlink_to(user.state)
    ran = made.evaluate("--experiments", tmp_path / "mine")
    assert ran.code == 2 and "--experiments" in ran.json["error"]["message"]
    assert standing(made) == done.before


def test_two_matrices_at_once_in_one_place_are_refused(done: Done) -> None:
    from resources.postgres.database import Database

    with Database(done.bench.url, done.bench.experiments) as database, database.exclusive("index"):
        ran = done.bench.evaluate()
    assert (ran.code, ran.json["error"]["code"]) == (1, "busy")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (lambda made: ["--strategy", "dense", "--matrix", made.matrix()], "set query.strategy"),
        (lambda made: ["--matrix", made.project.folder / "none.yaml"], "none.yaml cannot be read"),
        (lambda made: ["--experiments", made.experiments], "name its file with --matrix"),
        (lambda made: ["--matrix", made.matrix(settings={"chunking.target_tokens": 1})], "run 'base': setting"),
    ],
)
def test_invalid_arguments_are_refused_before_anything_is_made(
    untouched: Bench, arguments: Callable[[Bench], list[str | Path]], told: str
) -> None:
    ran = untouched.project.run("eval", untouched.questions, *arguments(untouched))
    assert ran.code == 2
    assert told in ran.json["error"]["message"]
    assert not untouched.experiments.exists()
