"""Answers without a language model: what is declined, what is kept, and whether the pins hold.

    python benchmarks/answering.py [--sets policies library unlp-medicine] [--keep DIR]

`declined` is of the questions that the documents do not answer, `kept` of those that they do; of the kept,
`pinned` is the share with a cited place that is gold, `option` that of the right option. Indexes as of
benchmarks/retrieval.py, which --keep shares.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.datasets import DATASETS, LIBRARY, SHARED, lines, policies_unanswerable  # noqa: E402
from benchmarks.parsing_report import table  # noqa: E402
from benchmarks.retrieval import CASES, SHIPPED, indexed, settings_file  # noqa: E402
from pincite.index import Index, open_index  # noqa: E402
from pipelines.terms import terms_of  # noqa: E402

SETS = {case.dataset: case for case in reversed(CASES) if case.splitter == "structure" and case.dataset in (
    "policies", "library", "unlp-medicine")}  # fmt: skip
UNANSWERABLE = {
    "policies": lambda: policies_unanswerable(SHARED / "policies"),
    "library": lambda: lines(LIBRARY / "unanswerable.jsonl"),
}
LEAST_SHARED = 0.7
"""Share of a gold quote's terms that a citation must hold to be of the same place."""


def cites(citation: Mapping[str, Any], gold: Mapping[str, Any]) -> bool:
    """By page where the gold has one, else by the words of its quote."""
    if citation["uri"] != gold["uri"]:
        return False
    if gold.get("page") is not None:
        return gold["page"] <= (citation["page"] or 0) <= gold.get("page_end", gold["page"])
    wanted = set(terms_of(gold.get("quote", "")))
    return len(wanted & set(terms_of(citation["quote"]))) >= LEAST_SHARED * len(wanted)


def measured(index: Index, name: str, golden: Sequence[Mapping[str, Any]]) -> list[str]:
    groups = DATASETS[name].evaluation.get("groups", ())

    def ask(question: Mapping[str, Any], options: bool) -> dict[str, Any]:
        return index.ask(question["question"], (question.get("options") or {}) if options else (), groups=groups)

    started = time.perf_counter()
    answers = [(question, ask(question, False)) for question in golden]
    seconds = (time.perf_counter() - started) / len(answers)
    kept = [(question, answer) for question, answer in answers if not answer["declined"]]
    pinned = [any(cites(place, gold) for place in answer["citations"] for gold in question["gold"])
              for question, answer in kept]  # fmt: skip
    chosen = [(question["answer"], ask(question, True).get("option")) for question in golden if question.get("options")]
    none = [ask(question, False)["declined"] for question in UNANSWERABLE[name]()] if name in UNANSWERABLE else []
    return [
        name, str(len(golden)), _percent(len(kept), len(answers)), _percent(sum(pinned), len(pinned)),
        f"{sum(len(answer['citations']) for _, answer in kept) / len(kept):.1f}",
        _percent(sum(right == letter for right, letter in chosen), len(chosen)),
        _percent(sum(letter is None for _, letter in chosen), len(chosen)),
        _percent(sum(none), len(none)), f"{1000 * seconds:.0f}",
    ]  # fmt: skip


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(SETS), default=list(SETS))
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep the indexes here, and use those that are here.")
    options = parser.parse_args()
    head = ("set", "questions", "kept", "pinned", "sentences", "option right", "no option", "declined", "ms a question")
    with tempfile.TemporaryDirectory(prefix="pincite-answering-") as folder:
        place = options.keep.resolve() if options.keep else Path(folder)
        rows = []
        for name in options.sets:
            own = place / SETS[name].name.replace(", ", "-")
            golden = list(lines(indexed(SETS[name], own)))
            with open_index(settings_file(own, SHIPPED)) as index:
                rows.append(measured(index, name, golden))
        print("\n".join(table(head, rows)))


if __name__ == "__main__":
    main()
