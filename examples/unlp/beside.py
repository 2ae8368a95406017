"""Tables 2 to 5 of the UNLP 2026 paper, run as far as the models at hand go, beside the paper's own figures.

    python examples/unlp/beside.py DATA [--tables 2 3 4 5] [--domain medicine] [--settings FILE] [--keep DIR]

DATA holds `questions.csv` and the folder `pdf` of the shared task. Each table is one `pincite eval --matrix`, whose
indexes and finished runs stand in DIR (build/unlp), so that an interrupted command goes on where it was. `--settings`
names a pincite.yaml with your language model, if you have one. Prints the tables in Markdown: each row says what it
needs, and rows that a matrix excludes have the paper's figures alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from examples.unlp.golden import golden  # noqa: E402  (the path above finds it)
from pipelines.evaluation.matrix import Matrix, MatrixRun, matrix_from  # noqa: E402

NONE = "–"
SHIPPED = "nothing"
ASKING = ("hyde", "multi-query", "logprob", "listwise")
"""Parts of the names of strategies and rerankers that ask a language model."""


def whole_matrix(file: Path) -> tuple[Matrix, Sequence[str]]:
    """Return a table's matrix with the rows that it excludes, and its metrics."""
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    values.pop("exclude", None)
    return matrix_from(values, str(file), file.stem), values["metrics"]


def needs(run: MatrixRun) -> str:
    """Return the models that a row needs beside the shipped one."""
    settings: Mapping[str, Any] = run.overrides
    query, enrichment = settings.get("query", {}), settings.get("enrichment", {})
    asked = " ".join([str(query.get("strategy", "")), *query.get("rerank", ())])
    found = [settings.get("embedder", {}).get("model"), query.get("cross_encoder", {}).get("model")]
    if "llm" in enrichment.values() or any(name in asked for name in ASKING):
        found.append("a language model")
    return ", ".join(name for name in found if name) or SHIPPED


def rows_of(
    matrix: Matrix, metrics: Sequence[str], scored: Mapping[str, Any], theirs: Mapping[str, Sequence[float]]
) -> Iterator[list[str]]:
    """Yield the rows of one table: name, what it needs, and of each metric ours and the paper's."""
    for name in dict.fromkeys(name for table in matrix.tables for name in table.runs):
        run = matrix.runs[name]
        values = [
            value for axis, value in run.choice.items() if len({r.choice[axis] for r in matrix.runs.values()}) > 1
        ]
        label = ", ".join(values)
        paper = theirs.get(label) or theirs.get(label.replace("extracted", "generated", 1)) or theirs.get(values[0])
        own = scored[name]["metrics"] if name in scored else {}
        if not own and not paper:
            continue
        cells = []
        for at, metric in enumerate(metrics):
            ours = f"{100 * own[metric]:.1f}" if own.get(metric) is not None else NONE
            cells.append(f"{ours} / {paper[at]:.1f}" if paper else ours)
        yield [label, needs(run), *cells]


def markdown(title: str, metrics: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = ["row", "needs", *metrics]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join([f"### {title}", "", *(f"| {' | '.join(line)} |" for line in lines)])


def evaluate(table: Path, questions: Path, config: Path, experiments: Path) -> dict[str, Any]:
    """Return the runs of a table by name."""
    from pincite.index import Index
    from pincite.progress import Progress
    from resources.settings_file import locate

    with Progress() as progress, Index(locate(str(config)), progress) as index:
        result = index.evaluate(questions, matrix=table, experiments=experiments)
    for failure in result["failed"]:
        print(f"{table.stem}, {failure['name']}: {failure['message']}", file=sys.stderr)
    return {run["name"]: run for run in result["runs"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tables", nargs="+", default=["2", "3", "4", "5"], choices=["2", "3", "4", "5"])
    parser.add_argument("--domain", default="", help="questions of this domain alone")
    parser.add_argument("--settings", type=Path, help="a pincite.yaml whose other settings hold, such as llm")
    parser.add_argument("--keep", type=Path, default=Path("build/unlp"), help="where indexes and finished runs stand")
    given = parser.parse_args()
    keep = given.keep.resolve()
    keep.mkdir(parents=True, exist_ok=True)
    asked = list(golden(given.data / "questions.csv", given.domain))
    questions, config = keep / "golden.jsonl", keep / "pincite.yaml"
    questions.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in asked), encoding="utf-8")
    own = yaml.safe_load(given.settings.read_text(encoding="utf-8")) if given.settings else {}
    source = {"name": "unlp", "path": str((given.data / "pdf").resolve())}
    config.write_text(yaml.safe_dump({**own, "state": str(keep / "state"), "sources": [source]}), encoding="utf-8")
    paper = yaml.safe_load((HERE / "paper.yaml").read_text(encoding="utf-8"))
    print(f"Ours of {len(asked)} questions / the paper's of 460 questions of both domains, in percent.")
    for number in given.tables:
        file = HERE / f"table{number}.yaml"
        matrix, metrics = whole_matrix(file)
        scored = evaluate(file, questions, config, keep / "experiments")
        rows = list(rows_of(matrix, metrics, scored, paper[file.stem]))
        print("\n" + markdown(f"Table {number}", metrics, rows), flush=True)


if __name__ == "__main__":
    main()
