"""No test is decided by speed, chance or the order of threads: what would let one be is refused where it is written.

One place waits: `tests/support/waiting.py`. Its HANG_SECONDS is the limit of what answers, its AT_ONCE_SECONDS that of
what never does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.places import ROOT

WAITING = "tests/support/waiting.py"
CLOCKS = frozenset({"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "thread_time"})
DRAWN = frozenset({"choice", "choices", "randint", "random", "sample", "shuffle", "uniform"})
LIMITS = frozenset(
    {"connect_timeout", "ocr_seconds", "page_timeout_seconds", "timeout", "timeout_seconds", "wait_seconds"}
)
WAITS = frozenset({"communicate", "join", "poll", "result", "settimeout", "wait"})
LEAST = 600.0
"""Seconds that a limit has at least which a slow machine must not reach."""

ALLOWED = {
    "tests/everything.py monotonic": "a command that runs suites, and prints how long each took",
    "tests/mutants/run.py monotonic": "a command that runs tests, and prints how long they took",
    "tests/faults/running.py wait": "how often a reader asks; every answer is judged, however many there are",
    "tests/faults/test_soak.py wait": "how often a reader asks; every answer is judged, however many there are",
    "tests/integration/test_operations.py settimeout": "how often a shell is looked at that runs; nothing is given up",
    "tests/integration/test_source_contract.py wait": "the pace of a server that talks without end",
    "tests/support/imap_server.py wait": "the pace of a server that talks without end",
    "tests/support/llm_server.py wait": "the pace of a server that talks without end",
    "tests/unit/resources/llm/test_endpoint_client.py wait": "the pace of a server that talks without end",
    "tests/unit/resources/parsers/test_old_office.py timeout_seconds": "LibreOffice's start alone takes longer",
    "tests/unit/resources/workers/test_sandbox.py ocr_seconds": "Tesseract's start alone takes longer",
    "tests/unit/resources/llm/test_llm_limits.py sleep": "of the test's own clock",
    "tests/unit/resources/parsers/test_ocr.py ocr_seconds": "only the key of the settings is compared",
    "tests/unit/resources/parsers/test_ocr.py timeout_seconds": "only the key of the settings is compared",
    "tests/faults/test_document_pool.py monotonic": "the pool's own clock, by which a page is given up",
}
"""File and what is called, with the reason why no result hangs on it."""


def found(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Give line, name and fault of each thing that speed or chance may decide."""
    modules = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS and _of(node, "time"):
            yield node.lineno, node.attr, "reads a clock; wait for the event, or count"
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "sleep" and not _is(node.args, 0.0):
            yield node.lineno, name, "sleeps; wait for the event, by tests/support/waiting.py"
        if name in DRAWN and _of(node.func, "random") and "random" in modules:
            yield node.lineno, name, "draws by chance; draw from random.Random(SEED)"
        if name in ("Random", "default_rng") and not node.args:
            yield node.lineno, name, "draws by chance; give it a seed"
        short = [word.arg for word in node.keywords if word.arg in LIMITS and _short(word.value)]
        if name in WAITS and len(node.args) == 1 and _short(node.args[0]):
            short.append(name)
        if name == "select" and len(node.args) == 4 and _short(node.args[3]):
            short.append(name)
        for each in short:
            yield node.lineno, str(each), f"has a limit under {LEAST:g} s; use HANG_SECONDS or AT_ONCE_SECONDS"
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in LIMITS and _short(value):
                    yield node.lineno, str(key.value), f"has a limit under {LEAST:g} s; use HANG_SECONDS"


def _of(node: ast.AST, module: str) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == module


def _is(values: list[ast.expr], wanted: float) -> bool:
    return any(isinstance(value, ast.Constant) and value.value == wanted for value in values)


def _short(value: ast.expr) -> bool:
    if isinstance(value, ast.Tuple):
        return any(map(_short, value.elts))
    return isinstance(value, ast.Constant) and isinstance(value.value, (int, float)) and 0 < float(value.value) < LEAST


def test_no_test_is_decided_by_speed_or_chance() -> None:
    told, used = [], set()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        if file == WAITING or file.startswith("tests/data/library"):
            continue
        for line, name, fault in found(ast.parse(path.read_text(encoding="utf-8"))):
            if f"{file} {name}" in ALLOWED:
                used.add(f"{file} {name}")
            else:
                told.append(f"{file}:{line}: {name} {fault}")
    assert not told, "\n".join(told)
    assert used == ALLOWED.keys(), "allowed, and no longer there"


@pytest.mark.parametrize(
    "code",
    [
        "time.sleep(1)", "await asyncio.sleep(0.01)", "sleep(pause)", "time.monotonic() + 60", "t = time.perf_counter",
        "event.wait(60)", "run(command, timeout=120)", "get(url, timeout=(5, 5))", "select.select([a], [], [], 60)",
        "Settings(timeout_seconds=2)", "{'timeout_seconds': 2}", "import random; random.shuffle(items)",
        "np.random.default_rng()",
    ],
)  # fmt: skip
def test_code_that_depends_on_speed_or_chance_is_found(code: str) -> None:
    body = f"async def test():\n    {code}\n"
    assert list(found(ast.parse(body)))


@pytest.mark.parametrize(
    "code",
    [
        "event.wait()",
        "event.wait(HANG_SECONDS)",
        "asyncio.sleep(0)",
        "Random(3)",
        "default_rng(5)",
        "run(timeout=1800)",
    ],
)
def test_code_that_runs_alike_on_every_machine_is_not_found(code: str) -> None:
    assert not list(found(ast.parse(code)))


def test_every_allowed_file_is_there() -> None:
    assert not [each for each in ALLOWED if not Path(ROOT, each.split()[0]).is_file()]
