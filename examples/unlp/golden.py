"""Golden questions of the UNLP 2026 shared task, of one of its domains or of both.

    python examples/unlp/golden.py QUESTIONS.csv [--domain medicine] > golden.jsonl

The same without a domain is `pincite eval --import unlp QUESTIONS.csv`.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from resources.evaluation.golden import import_questions

DOMAIN, ID = "Domain", "Question_ID"


def golden(file: Path, domain: str = "") -> Iterator[dict[str, Any]]:
    """Yield the questions of a domain, or all, as `pincite eval` reads them. Raise UsageError for a wrong file."""
    with file.open(newline="", encoding="utf-8-sig") as stream:
        own = {f"unlp-{row[ID]}" for row in csv.DictReader(stream) if domain in ("", row[DOMAIN])}
    yield from (line for line in import_questions("unlp", file) if line["id"] in own)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--domain", default="", help="questions of this domain alone")
    given = parser.parse_args()
    for line in golden(given.questions, given.domain):
        print(json.dumps(line, ensure_ascii=False))
