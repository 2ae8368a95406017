"""Every regular expression of the code, with the ways in which the code applies it.

Calls of `re` are found in the syntax trees; their pattern is evaluated in the module that holds the call, so that
what is put together from other names of the module is what runs. A pattern made of what a function is given has no
value there: `BUILT` says what it may become.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path

from tests.support.places import ROOT

LAYERS = ("pipelines", "resources", "assets", "pincite")
SCANS = frozenset({"search", "finditer"})
"""Methods that try every place; `match` from a given place on is called at many, so it counts as one of them."""
_SAME = {"sub": "finditer", "subn": "finditer", "findall": "finditer", "split": "finditer"}
_METHODS = frozenset({"match", "fullmatch", *SCANS, *_SAME})
_CALLS = _METHODS | {"compile"}
_OF_RE = re.compile(rf"\b(?:re|regex)\.(?:{'|'.join(sorted(_CALLS))})\b")


@dataclass(frozen=True)
class Found:
    """A pattern, where it stands, and the methods that apply it: all of them where none is seen."""

    where: str
    pattern: str | bytes
    flags: int
    methods: tuple[str, ...]


class Unknown(Exception):
    """A pattern that has no value before the program runs."""


def patterns(built: Mapping[str, Sequence[str]], root: Path = ROOT) -> list[Found]:
    """The patterns of all layers. `built` has what the calls at `path:function` may be given."""
    texts = {path: path.read_text() for layer in LAYERS for path in sorted((root / layer).rglob("*.py"))}
    calls: dict[Path, list[tuple[str, str, ast.Call]]] = {}
    used: dict[Path, dict[str, set[str]]] = {}
    for path, text in texts.items():
        if _OF_RE.search(text):
            tree = ast.parse(text)
            calls[path], used[path] = list(_calls(tree)), _uses(tree)
    shared = {
        owner
        for each in calls.values()
        for _, owner, call in each
        if owner and not owner.startswith("_") and call.func.attr == "compile"  # type: ignore[attr-defined]
    }
    names = re.compile(rf"\b(?:{'|'.join(sorted(shared))})\.")
    used |= {path: _uses(ast.parse(text)) for path, text in texts.items() if path not in used and names.search(text)}
    public: defaultdict[str, set[str]] = defaultdict(set)
    for own in used.values():
        for pattern, methods in own.items():
            public[pattern] |= methods
    found: list[Found] = []
    unknown: list[str] = []
    for path, own_calls in calls.items():
        name = path.relative_to(root).as_posix()
        for function, owner, call in own_calls:
            where = f"{name}:{owner or function}"
            values: Sequence[str | bytes]
            try:
                space = vars(
                    importlib.import_module(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
                )
                values = [_value(call.args[0], space)]
            except Unknown:
                held = [] if function else [item.pattern for item in _held(space.values())]
                values = built.get(where, held)
                if not values:
                    unknown.append(where)
            method = call.func.attr  # type: ignore[attr-defined]
            known: Mapping[str, set[str]] = used[path] if owner.startswith("_") else public
            applied = known.get(owner, ()) if method == "compile" else (_SAME.get(method, method),)
            for value in values:
                flags = _flags(call, method, space)
                found.append(Found(where, value, flags, tuple(sorted(applied or {"fullmatch", "finditer"}))))
    if unknown:
        raise AssertionError(f"say what these patterns may be, in BUILT: {unknown}")
    return found


def _held(values: Iterable[object]) -> Iterator[re.Pattern[str]]:
    """Compiled patterns among the values, and within their tuples, lists, mappings and data classes."""
    for value in values:
        if isinstance(value, re.Pattern):
            yield value
        elif isinstance(value, (tuple, list, frozenset)):
            yield from _held(value)
        elif isinstance(value, dict):
            yield from _held(value.values()) if "__builtins__" not in value else ()
        elif is_dataclass(value) and not isinstance(value, type):
            yield from _held(vars(value).values() if hasattr(value, "__dict__") else ())


def _calls(tree: ast.Module) -> Iterator[tuple[str, str, ast.Call]]:
    """Calls of `re`, with the function that each stands in and the name that it is assigned to."""

    left: list[tuple[ast.AST, str, str]] = [(tree, "", "")]
    while left:
        node, function, owner = left.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function, owner = node.name, ""
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            owner = target.id if isinstance(target, ast.Name) else ""
        if _is_re(node):
            yield function, owner, node  # type: ignore[misc]
        left += [(child, function, owner) for child in reversed(list(ast.iter_child_nodes(node)))]


def _is_re(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in ("re", "regex")
        and node.func.attr in _CALLS
    )


def _uses(tree: ast.Module) -> dict[str, set[str]]:
    """Return the methods by the name of the pattern that they are called of."""
    uses: defaultdict[str, set[str]] = defaultdict(set)
    called: dict[int, ast.Call] = {}
    for node in ast.walk(tree):  # which gives a call before what is called
        if isinstance(node, ast.Call):
            called[id(node.func)] = node
        elif isinstance(node, ast.Attribute) and node.attr in _METHODS and isinstance(node.value, ast.Name):
            call = called.get(id(node))
            scans = call is not None and node.attr == "match" and len(call.args) > 1
            uses[node.value.id].add("finditer" if scans else _SAME.get(node.attr, node.attr))
    return dict(uses)


def _value(node: ast.expr, space: Mapping[str, object]) -> str | bytes:
    names = {item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Load)}
    try:
        value = eval(compile(ast.Expression(node), "pattern", "eval"), {**space})
    except NameError as error:
        raise Unknown(str(error)) from error
    if names and not isinstance(value, (str, bytes)):
        raise Unknown(ast.unparse(node))
    return value


def _flags(call: ast.Call, method: str, space: Mapping[str, object]) -> int:
    place = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(method, 2)
    given = [item.value for item in call.keywords if item.arg == "flags"] + call.args[place : place + 1]
    return int(eval(compile(ast.Expression(given[0]), "flags", "eval"), {**space})) if given else 0
