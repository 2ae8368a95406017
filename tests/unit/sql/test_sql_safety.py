"""SQL by parameters only: no statement is built from strings, in the code or in sql/."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from resources import child_process as shipped

ROOT = Path(shipped.ROOT)
CODE = [
    path for layer in ("pipelines", "resources", "assets", "pincite") for path in sorted((ROOT / layer).rglob("*.py"))
]
COMPOSER = ROOT / "resources" / "postgres" / "statements.py"
"""The one place where names are put into statements, as quoted identifiers."""
RUNS = frozenset({"execute", "executemany", "copy"})
STATEMENT = re.compile(
    r"\b(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\S+\s+SET|DELETE\s+FROM|(CREATE|ALTER|DROP)\s+(TABLE|SCHEMA|INDEX|ROLE))\b",
    re.DOTALL,
)
SUSPECT = re.compile("|".join(("SQL", "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", *RUNS)))
"""A module without any of these holds no offence, and is not worth parsing."""
HELP = frozenset(
    {
        "resources/checks/findings.py",
        "resources/postgres/database.py",
        "resources/reports/doctor/examine.py",
        "pincite/codes.py",
    }
)
"""Their statements are printed for a person to run."""


def offences(source: str, path: str = "code.py") -> Iterator[str]:
    """Calls that run text which was put together, and statements that stand in the code."""
    if not SUSPECT.search(source):
        return
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    docstrings = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes:
        where = f"{path}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if node.func.attr in RUNS and _built(node.args[0]):
                yield f"{where} runs a string that is put together"
            if node.func.attr == "SQL" and not isinstance(node.args[0], ast.Constant):
                yield f"{where} makes SQL of a string"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "SQL":
            yield f"{where} makes SQL"
        text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
        if text and path not in HELP and STATEMENT.search(node.value):  # type: ignore[attr-defined]
            yield f"{where} holds a statement, which belongs in sql/"


def _built(argument: ast.expr) -> bool:
    """Whether a string is made here: formatted, added, or given as it is. A PRAGMA is a setting of SQLite, in which
    Dagster keeps its runs."""
    if isinstance(argument, (ast.JoinedStr, ast.BinOp)):
        return True
    if isinstance(argument, ast.Constant):
        text = argument.value
        return isinstance(text, bytes) or (isinstance(text, str) and not text.startswith("PRAGMA "))
    formatted = isinstance(argument, ast.Call) and isinstance(argument.func, ast.Attribute)
    return formatted and argument.func.attr in ("format", "join", "replace", "encode")  # type: ignore[attr-defined]


def test_no_statement_is_built_in_the_code() -> None:
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in CODE if path != COMPOSER}
    assert len(texts) > 300
    assert [offence for place, text in texts.items() for offence in offences(text, place)] == []


@pytest.mark.parametrize(
    "source",
    [
        "connection.execute(f'SET x = {y}')",
        "cursor.execute('SET x = ' + y)",
        "cursor.execute('SET x = %s' % y)",
        "cursor.execute('SET x = {}'.format(y))",
        "cursor.executemany(' '.join(parts), rows)",
        "cursor.copy(f'{table}')",
        "sql.SQL(text)",
        "SQL(text)",
        "x = 'SELECT a FROM b'",
        "x = f'DELETE FROM {b}'",
    ],
)
def test_built_statements_are_detected(source: str) -> None:
    assert list(offences(source))


EXECUTE = re.compile(r"\bEXECUTE\b(?!\s+ON\b)\s*(.*?);", re.DOTALL)
FORMAT = re.compile(r"format\(\s*((?:'(?:[^']|'')*'\s*)+)")


def built_in_sql(text: str) -> Iterator[str]:
    """EXECUTE of anything but format() of literals, in which names come as %I and values as %L or $1."""
    text = re.sub(r"--[^\n]*", "", text)
    for match in EXECUTE.finditer(text):
        statement = match.group(1)
        if not statement.startswith("format("):
            yield statement
        for literal in FORMAT.findall(statement):
            # %s stands for the rules of a constant table in the same function.
            if re.search(r"%(?!\d*\$?[IL]|%)", literal):
                yield statement


@pytest.mark.parametrize("path", sorted((ROOT / "sql").rglob("*.sql")), ids=lambda path: path.name)
def test_no_statement_is_built_in_sql(path: Path) -> None:
    assert list(built_in_sql(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("built", ["EXECUTE 'DROP TABLE ' || name;", "EXECUTE format('DROP TABLE %s', name);"])
def test_statements_built_in_sql_are_detected(built: str) -> None:
    assert list(built_in_sql(built))


@pytest.mark.case(26)
def test_values_go_as_parameters() -> None:
    """A placeholder of a statement is a name (of a schema, table, index or columns) or a number of dimensions."""
    names = {"schema", "table", "index", "dimension", "filter", "matching", "distance", "scored"}
    names |= {"columns", "ranked", "sentence_columns", "sentence_distance", "sentence_matching"}
    names |= {
        "chosen",
        "documents",
        "facet_values",
        "named",
        "document_filter",
        "bounds",
        "is_number",
        "is_day",
        "as_day",
        "has_day",
        "own_day",
    }
    names |= {"query", "id", "content", "column", "revision"}  # a source's own, by its settings
    for path in sorted((ROOT / "sql" / "queries").glob("*.sql")):
        text = re.sub(r"--[^\n]*", "", path.read_text(encoding="utf-8"))
        found = set(re.findall(r"\{([a-z][a-z0-9_]*)\}", text))
        assert found <= names, (path.name, found - names)
