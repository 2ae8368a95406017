"""The tables of codes in docs/reference/codes.md are what the code says, both ways."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pincite import codes, run
from pincite.serve import client, service
from pipelines import errors
from pipelines.stages import STAGES
from resources.checks.findings import AUDITED, PROBLEMS
from resources.documents.protocol import OF_FILES, OF_TEXTS
from resources.postgres.statements import statements
from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "reference" / "codes.md").read_text(encoding="utf-8")


def test_every_code_has_a_row() -> None:
    for table in (codes.ERRORS, codes.FAILURES, codes.SKIPPED, AUDITED, codes.EXPLAINED, PROBLEMS):
        assert {f"`{code}`" for code in table} <= {line.split(" | ")[0][2:] for line in PAGE.splitlines()}


def test_stages_of_failures_are_stages() -> None:
    named = {stage for stages, *_ in codes.FAILURES.values() for stage in stages.split(", ")}
    assert named <= {"raw_documents", *STAGES}
    assert codes.FAILURES.keys() >= errors.PASSING | errors.LIMITED


def test_codes_that_processes_give_for_a_file_are_failures_of_parsing() -> None:
    """The listing tells of a file that changes, and pictures of pages have warnings of their own."""
    parsing = {code for code, (stages, *_) in codes.FAILURES.items() if "parsed_elements" in stages.split(", ")}
    assert parsing - {"changed"} | {"no_picture", "no_page"} == OF_FILES
    assert OF_TEXTS < OF_FILES


ERROR_CLASSES = {
    name: kind
    for module in (errors, run, client, service)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, errors.PinciteError)
}
CHECKS = ROOT / "resources" / "checks"
BESIDE = ("stages/indexed_documents.py", "engine/committed.py")
FINDERS = {*CHECKS.glob("*.py"), *(ROOT / "resources" / name for name in BESIDE)} - {CHECKS / "findings.py"}
"""Modules that find problems."""
PLACES: Mapping[str, tuple[int, str]] = {
    "Failure": (4, "failure"),
    "failure": (0, "failure"),
    "NoReply": (0, "failure"),
    "CallFailed": (1, "any"),
    "_NoVector": (1, "failure"),
    "Skipped": (2, "skipped"),
    "fail": (1, "failure"),
    "_sentence_problem": (0, "found"),
    "_link_problem": (0, "found"),
    "problem": (0, "explained"),
    "Unfit": (0, "error"),
    "unfit": (0, "error"),
    "refusal": (1, "error"),
    "error": (1, "error"),
}
"""Functions and classes that take a code, where it stands, and of what kind it is."""
INTERNAL = frozenset({"planned", "unusable"})
"""Codes of replies that nobody meets: of `plan`, and of those in whose place a deterministic text stands."""


def codes_of(path: Path) -> Iterator[tuple[str, str]]:
    """(kind, code) of every code that a module gives. What only passes one on, by a name or attribute, gives none."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes, finder = list(ast.walk(tree)), path in FINDERS
    nouns = [node.args[1] for node in nodes if isinstance(node, ast.Call) and called(node) == "_Table"]
    yielded = {id(node.value) for node in nodes if isinstance(node, ast.Yield)}
    told = [node for node in nodes if isinstance(node, ast.Call) and called(node) == "group_findings"]
    yielded |= {id(item) for node in told for part in node.args for item in ast.walk(part)}
    for node in nodes:
        if isinstance(node, ast.Call):
            yield from codes_of_call(node)
        elif isinstance(node, ast.Assign) and getattr(first_of(node.targets[0]), "id", "") == "code":
            chosen = [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else [node.value]
            yield from (("any", code) for value in chosen for code in literals(first_of(value)))
        elif isinstance(node, ast.Dict) and any(getattr(key, "value", "") == "error" for key in node.keys):
            inner = [dict(zip(map(name_of, each.keys), each.values, strict=True)) for each in node.values
                     if isinstance(each, ast.Dict)]  # fmt: skip
            yield from (("error", code) for each in inner for code in literals(each.get("code", ast.Constant(None))))
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and (finder or path in MESSAGES):
            yield from codes_of_pair(node.elts, MESSAGES.get(path, "found"), nouns, id(node) in yielded)
    if path.stem == "audit":
        yield from (("found", code) for code in audit_statements(tree))


MESSAGES = {ROOT / "resources" / "sources" / "files.py": "any"}
"""Modules beside the finders that hand on (code, message)."""


def first_of(node: ast.expr) -> ast.expr:
    return node.elts[0] if isinstance(node, ast.Tuple) else node


def called(node: ast.Call) -> str:
    return getattr(node.func, "id", "") or getattr(node.func, "attr", "")


def name_of(node: ast.expr | None) -> Any:
    return getattr(node, "value", None)


def literals(node: ast.expr) -> Iterator[str]:
    parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]
    yield from (part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))


def codes_of_call(node: ast.Call) -> Iterator[tuple[str, str]]:
    name = called(node)
    if name in ERROR_CLASSES:
        kind = "document" if name == "DocumentError" else "error"
        given = [*node.args[1:2], *(keyword.value for keyword in node.keywords if keyword.arg == "code")]
        found = [code for part in given for code in literals(part)]
        yield from ((kind, code) for code in found or ([] if given else [ERROR_CLASSES[name].default_code]))
    elif name == "refuse" and len(node.args) == 3:
        yield from (("failure", code) for code in literals(node.args[1]))
    elif name in PLACES and len(node.args) > PLACES[name][0]:
        position, kind = PLACES[name]
        yield from ((kind, code) for code in literals(node.args[position]))


def codes_of_pair(pair: list[ast.expr], kind: str, nouns: list[ast.expr], yielded: bool) -> Iterator[tuple[str, str]]:
    """Of (code, message), or (file, code); a code may be put together with the noun of a table."""
    first, second = pair
    if isinstance(first, ast.JoinedStr) and isinstance(first.values[0], ast.Constant):
        prefix = str(first.values[0].value)
        yield from ((kind, prefix + noun) for each in nouns for noun in literals(each) if prefix.endswith("_"))
    elif isinstance(first, ast.Constant):
        handed = yielded or getattr(second, "id", "") == "message"
        message = handed or isinstance(second, ast.JoinedStr) or " " in str(name_of(second))
        yield from ((kind, code) for code in literals(first) if message and re.fullmatch("[a-z_]+", code))
    elif isinstance(second, ast.Constant) and re.fullmatch("[a-z]+_[a-z]+", str(second.value)):
        yield kind, str(second.value)


def audit_statements(tree: ast.AST) -> Iterator[str]:
    """The audit's statements have the names of their codes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_PROBLEMS":
            assert isinstance(node.value, ast.Dict)
            yield from (name_of(key) for key in node.value.keys)


def test_every_code_stands_in_its_table_and_every_row_has_a_use() -> None:
    used: dict[str, set[str]] = defaultdict(set)
    for layer in ("pincite", "assets", "resources", "pipelines"):
        for path in (ROOT / layer).rglob("*.py"):
            for kind, code in codes_of(path):
                used[kind].add(code)
    used["found"] |= set(re.findall("^SELECT '([a-z_]+)',", statements("audit")["unsecured"], re.MULTILINE))
    tables = {
        "error": set(codes.ERRORS),
        "failure": set(codes.FAILURES) | INTERNAL,
        "skipped": set(codes.SKIPPED),
        "found": set(AUDITED) | set(PROBLEMS),
        "explained": set(codes.EXPLAINED),
    }
    tables["document"] = tables["error"] | tables["failure"]
    tables["any"] = set().union(*tables.values())
    for kind, table in tables.items():
        assert used[kind] <= table, (kind, used[kind] - table)
    loose = used["any"] | used["document"]
    forwarded = used["failure"]  # an endpoint that answers nobody ends a run with the code of a failure
    assert tables["error"] <= used["error"] | loose | forwarded, tables["error"] - used["error"] - loose - forwarded
    assert tables["failure"] <= used["failure"] | loose, tables["failure"] - used["failure"] - loose
    for kind in ("skipped", "found", "explained"):
        assert tables[kind] <= used[kind] | used["any"], (kind, tables[kind] - used[kind] - used["any"])


def unasserted(wanted: set[str]) -> set[str]:
    """Those that are no string of the tests, but for what documents them and for this module."""
    left = set(wanted)
    for path in sorted({*(ROOT / "tests").rglob("*.py")} - {Path(__file__)}):
        text = path.read_text(encoding="utf-8")
        if not any(f'"{code}"' in text for code in left):
            continue  # it cannot have one of them as a string, so it is not worth parsing
        nodes = list(ast.walk(ast.parse(text)))
        told = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        left -= {
            node.value for node in nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told
        }  # fmt: skip
    return left


def test_every_code_is_asserted_by_a_test() -> None:
    tables = (codes.ERRORS, codes.FAILURES, codes.SKIPPED, AUDITED, codes.EXPLAINED, PROBLEMS)
    assert unasserted({code for table in tables for code in table}) == set()


def test_codes_of_calls_are_codes_of_commands_too() -> None:
    """A question that asks a language model, or a first run whose model answers nobody, ends with the call's code."""
    calls = {code for _, code in codes_of(ROOT / "resources" / "llm" / "endpoint.py")}
    assert {"rejected", "unreachable"} <= calls <= codes.ERRORS.keys()
