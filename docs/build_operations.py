"""Writes the codes into docs/operations.md from the data of the code: `python docs/build_operations.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pipelines.codes import ERRORS, EXITS, EXPLAINED, FAILURES, FOUND, SKIPPED, Told  # noqa: E402
from pipelines.errors import LIMITED, PASSING  # noqa: E402
from resources.findings import PROBLEMS  # noqa: E402

PAGE = ROOT / "docs" / "operations.md"
BEGIN, END = "<!-- codes: python docs/build_operations.py -->", "<!-- end of codes -->"
_KEPT = "of generations beside the live one: `pincite generations prune --keep 1` drops them"


def sentence(text: str) -> str:
    """With a capital and a full stop, unless it begins with a command or a key."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def found() -> Mapping[str, Told]:
    """What `verify`, audits and checks find; a message carries its remedy, with the generation's schema."""
    said = {code: (what, remedy or _KEPT) for code, (what, remedy) in PROBLEMS.items() if what}
    return {code: (what, remedy.replace("{schema}", "g0001")) for code, (what, remedy) in (said | dict(FOUND)).items()}


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    heads = list(header)
    return [f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *rows)]


def two(codes: Mapping[str, Told]) -> list[str]:
    rows = ((f"`{code}`", sentence(what), sentence(remedy)) for code, (what, remedy) in sorted(codes.items()))
    return table(("code", "meaning", "what to do"), rows)


def failures() -> list[str]:
    rows = (
        (
            f"`{code}`",
            ", ".join(f"`{stage}`" for stage in stages.split(", ")),
            sentence(what),
            sentence(remedy),
            "yes" if code in PASSING else "under other limits" if code in LIMITED else "no",
        )
        for code, (stages, what, remedy) in sorted(FAILURES.items())
    )
    return table(("code", "stage", "meaning", "what to do", "tried again"), rows)


def part() -> str:
    """What stands between BEGIN and END."""
    exits = ((str(code), sentence(what), sentence(remedy)) for code, (what, remedy) in EXITS.items())
    explained = ((f"`{code}`", sentence(what)) for code, what in sorted(EXPLAINED.items()))
    lines = [
        "### Exit codes\n",
        *table(("exit code", "meaning", "what to do"), exits),
        "\n### Errors of commands\n",
        'With `--json`: `{"error": {"code", "message"}}` on standard output. The message names the thing and the '
        "remedy.\n",
        *two(ERRORS),
        "\n### Failures of documents\n",
        "In `documents.failed` of `pincite index --json` and `failures` of `pincite status --json`, each with its "
        "stage. A failed\ndocument is not tried again before it changes, unless its code says so or `pincite index "
        "--retry-failed` is run.\n",
        *failures(),
        "\n### Files that are no documents\n",
        "In `documents.skipped` of `pincite index --json`.\n",
        *two(SKIPPED),
        "\n### Problems of an index\n",
        "What `pincite verify` finds; audits before publishing and the checks of a run find some of them. `g0001` "
        "stands for the\nschema of the generation.\n",
        *two(found()),
        "\n### Problems of `pincite explain`\n",
        "All but `held` and `refused_text` are mended by `pincite index`, where the generation is the live one.\n",
        *table(("code", "meaning"), explained),
    ]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The manual with the codes as they are now."""
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return f"{head}{BEGIN}\n\n{part()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
