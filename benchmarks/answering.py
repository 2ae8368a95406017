"""Answers without a language model: what is declined, what is kept, and whether the pins hold.

    python benchmarks/answering.py [--sets policies library unlp-medicine] [--keep DIR]

The figures are those of `pincite eval --answers`: `kept` of the questions that the documents answer, `pinned` of
those kept with a cited place that is gold, `option right` of the choices, `declined` of the questions that
the documents do not answer. Indexes as of benchmarks/retrieval.py, which --keep shares.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.retrieval import CASES, SHIPPED, indexed, percent, settings_file  # noqa: E402
from benchmarks.support.datasets import DATASETS  # noqa: E402  (the path above finds it)
from benchmarks.support.parsing_report import table  # noqa: E402
from pincite.index import open_index  # noqa: E402

SETS = {case.dataset: case for case in reversed(CASES) if case.splitter == "structure" and case.dataset in (
    "policies", "library", "unlp-medicine")}  # fmt: skip
SHOWN = {
    "kept_answerable": "kept",
    "answer_pinned": "pinned",
    "declined_unanswerable": "declined",
    "answer_accuracy": "option right",
    "task_score": "task score",
}


def measured(name: str, place: Path) -> list[str]:
    indexed(SETS[name], place)
    golden = DATASETS[name].write_golden(place / "answered.jsonl", unanswerable=True)
    with open_index(settings_file(place, SHIPPED)) as index:
        (run,) = index.evaluate(golden, answers=True, **DATASETS[name].evaluation)["runs"]
    values = (run["metrics"][metric] for metric in SHOWN)
    return [name, str(run["n"]), *(percent(None if value is None else 100 * value) for value in values)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(SETS), default=list(SETS))
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep the indexes here, and use those that are here.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pincite-answering-") as folder:
        place = options.keep.resolve() if options.keep else Path(folder)
        rows = [measured(name, place / SETS[name].name.replace(", ", "-")) for name in options.sets]
        print("\n".join(table(("set", "questions", *SHOWN.values()), rows)))


if __name__ == "__main__":
    main()
