"""The shape of figures: the versions of all stages, the defaults, and the script that made them with its imports from
benchmarks and tests. A `Measured:` line ends with its hash; `make everything` names the lines where that is another.

    python -m benchmarks.support.shape             those lines
    python -m benchmarks.support.shape COMMAND     the line to put above figures of a command
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CURRENT = ("indexing", "parsing", "peers", "reliability", "results", "serving")
"""Pages of docs/measured that speak of today. The others record why something was decided, as of their commits."""
KEPT = "kept"
"""Last word of a line on a page of today whose figures are those of its commit and are not measured again."""
_OWN = ("benchmarks", "examples", "tests")
_TOLD_BY = tuple(f"benchmarks/support/{name}.py" for name in ("machine", "published", "shape"))
"""Files that say what was measured, by whom, and shape no figure of ours."""
_SCRIPT = re.compile(rf"(?:{'|'.join(_OWN)})/[\w/*]+\.py")
_MEASURED = re.compile(r"^Measured: .*? · commit \S+ · (?P<command>`[^`]+`|[^·]+) · .*?(?: · of (?P<hash>\S+))?$")
_OF_MAKE = {"faults": ("tests/support/reliability.py", "tests/support/defences.py", "tests/faults/*.py")}
"""Scripts of a target that the Makefile does not name."""


def scripts(command: str, root: Path = ROOT) -> list[Path]:
    """Return the files that a command runs: those that it names, or that its target in the Makefile does."""
    named: list[str] = _SCRIPT.findall(command)
    if made := re.search(r"\bmake ([\w-]+)", command):
        makefile = (root / "Makefile").read_text("utf-8") if (root / "Makefile").exists() else ""
        recipe = re.search(rf"^{made[1]}:.*\n((?:\t.*\n)*)", makefile, re.MULTILINE)
        named = [*_OF_MAKE.get(made[1], ()), *(_SCRIPT.findall(recipe[1]) if recipe else [])]
    return sorted(file for name in named for file in root.glob(name))


def parts(script: Path, root: Path = ROOT) -> set[Path]:
    """Return a script with all that it imports of ours, and what is named after it: NAME.yaml and the folder NAME."""
    found, left_out = set[Path](), {root / name for name in _TOLD_BY}
    waiting = [script, script.with_suffix(".yaml"), *script.with_suffix("").rglob("*")]
    while waiting:
        file = waiting.pop()
        if file in found | left_out or not file.is_file() or "__pycache__" in file.parts:
            continue
        found.add(file)
        if file.suffix == ".py":
            waiting += [root / f"{name.replace('.', '/')}.py" for name in _imported(file)]
    return found


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in _OWN:
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] in _OWN)


def shape(command: str, root: Path = ROOT) -> str:
    """Return the hash of what shapes the figures of a command; comments and words that explain shape nothing."""
    from pipelines.settings.base import Settings
    from pipelines.stages import STAGES

    told: dict[str, object] = {
        "stages": {stage.name: stage.version for stage in STAGES.values()},
        "settings": Settings().model_dump(mode="json"),
        "files": {str(file.relative_to(root)): _content(file) for script in scripts(command, root)
                  for file in parts(script, root)},
    }  # fmt: skip
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:10]


def _content(file: Path) -> str:
    if file.suffix != ".py":
        return hashlib.sha256(file.read_bytes()).hexdigest()
    tree = ast.parse(file.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):  # strings that stand alone explain
            node.body = [each for each in body if not _is_words(each)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_words(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def stale(root: Path = ROOT) -> list[str]:
    """Return the lines on pages of today that tell of another state, each with its page and the command to run anew."""
    found = []
    for name in CURRENT:
        page = root / "docs" / "measured" / f"{name}.md"
        for line in page.read_text("utf-8").splitlines() if page.exists() else ():
            if not line.startswith("Measured:") or line.endswith(f" · {KEPT}"):
                continue
            measured = _MEASURED.match(line)
            command, was = (measured["command"].strip("`"), measured["hash"]) if measured else (line, None)
            if was != (now := shape(command, root)):
                said = f"was measured of {was}, and today is {now}" if was else "does not say of what it was measured"
                found.append(f"{page.relative_to(root)}: `{command}` {said}; run it anew.")
    return found


if __name__ == "__main__":
    from benchmarks.support.machine import provenance

    print("\n".join(stale()) if len(sys.argv) == 1 else provenance(" ".join(sys.argv[1:])))
