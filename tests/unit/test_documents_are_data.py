"""Nothing that is read is ever run: no format that holds code, no name of a module from data, no shell, and no process
that is told more than it needs. Read from the code itself, all of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support.places import ROOT

CODE = [
    path for layer in ("pipelines", "resources", "assets", "pincite") for path in sorted((ROOT / layer).rglob("*.py"))
]
PICKLING = frozenset(
    {
        *("pickle", "_pickle", "marshal", "shelve", "dbm", "copyreg", "dill", "cloudpickle", "joblib", "jsonpickle"),
        *("imp", "code", "codeop", "runpy"),
        *("multiprocessing", "concurrent.futures.process", "concurrent.futures.ProcessPoolExecutor"),
    }
)
RUN = frozenset({"eval", "exec", "compile", "__import__"})
SAFE_LOADERS = frozenset({"BaseLoader", "SafeLoader", "CSafeLoader", "Loader"})
"""`Loader` is a SafeLoader of our own: `test_our_own_loader_is_safe`."""
REFUSED = {
    "yaml": {"unsafe_load", "full_load", "unsafe_load_all", "full_load_all"},
    "os": {"system", "popen", "fork", "forkpty"} | {f"{verb}{kind}" for verb in ("exec", "spawn") for kind in
           ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")} | {"posix_spawn", "posix_spawnp"},
    "torch": {"load"},
    "pandas": {"read_pickle", "eval"},
    "pd": {"read_pickle", "eval"},
    "subprocess": {"getoutput", "getstatusoutput"},
}  # fmt: skip
UNSAFE = {"allow_pickle": True, "trust_remote_code": True, "weights_only": False, "shell": True}
STARTS = frozenset({"run", "Popen", "call", "check_call", "check_output"})
REASONED = {
    (
        "resources/parsers/unstructured.py",
        "imports a module by a name",
    ): "the name is an ending of the table of formats",
    (
        "pincite/run.py",
        "imports a module by a name",
    ): "gives it to a thread, with a name of ours",
    ("resources/connectors/source.py", "imports a module by a name"): "the name is a value of its own table",
    ("resources/llm/endpoint.py", "imports a module by a name"): "the name is that of a class that is loaded",
    ("resources/parsers/registry.py", "imports a module by a name"): "the name is a value of its own table",
    ("resources/workers/template.py", "calls os.fork"): "of itself, before it has read anything",
    ("resources/workers/template.py", "imports a module by a name"): "the name is a value of its own table",
    ("resources/workers/helpers.py", "calls os.fork"): "of itself, to become a program that is named in a table",
    ("resources/workers/sandbox.py", "calls os.fork"): "of itself, to try what the kernel knows",
    ("resources/workers/sandbox.py", "calls os.execve"): "a program that is named in a table, after it is confined",
    ("resources/child_process.py", "imports runpy"): "the module is named by a command of ours",
}


def offences(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        names = [item.name for item in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{item.name}" for item in node.names)]
        yield from (f"imports {name}" for name in names if name in PICKLING or name.split(".")[0] in PICKLING)
        if isinstance(node, (ast.Name, ast.Attribute)) and _last(node) == "import_module":
            yield "imports a module by a name"
        if isinstance(node, ast.Call):
            yield from _of_call(node)


def _last(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _of_call(node: ast.Call) -> Iterator[str]:
    called = _last(node.func)
    owner = _last(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    if isinstance(node.func, ast.Name) and called in RUN:
        yield f"calls {called}"
    if called in REFUSED.get(owner, ()):
        yield f"calls {owner}.{called}"
    if owner == "yaml" and called in ("load", "load_all"):
        loader = given.get("Loader") or (node.args[1] if len(node.args) > 1 else ast.Name(""))
        if _last(loader) not in SAFE_LOADERS:
            yield "reads YAML that may hold objects"
    for name, bad in UNSAFE.items():
        value = given.get(name)
        if value is not None and not (isinstance(value, ast.Constant) and value.value is not bad):
            yield f"says {name}"
    if owner == "subprocess" and called in STARTS:
        if "env" not in given:
            yield "starts a process that is told all variables"
        command = node.args[0] if node.args else given.get("args")
        if isinstance(command, ast.List) and command.elts and _last(_bare(command.elts[0])) == "executable":
            yield "starts Python other than by child_command"
        if isinstance(command, (ast.Constant, ast.JoinedStr)):
            yield "starts a process by a string"


def _bare(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Starred) else node


@pytest.mark.defends("2b")
def test_nothing_that_is_read_is_run_and_every_exception_is_still_one() -> None:
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in CODE}
    assert len(texts) > 300
    assert {(place, offence) for place, text in texts.items() for offence in offences(text)} == REASONED.keys()


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "from concurrent.futures import process",
        "import multiprocessing.pool",
        "eval('1')",
        "exec(text)",
        "__import__(name)",
        "importlib.import_module(name)",
        "load = importlib.import_module",
        "yaml.load(text)",
        "yaml.load(text, yaml.Loader if x else y)",
        "yaml.load(text, Loader=yaml.UnsafeLoader)",
        "yaml.full_load(text)",
        "torch.load(file)",
        "np.load(file, allow_pickle=True)",
        "np.load(file, allow_pickle=flag)",
        "Model(name, trust_remote_code=True)",
        "os.system('ls')",
        "os.execv('/bin/sh', [])",
        "subprocess.run(command)",
        "subprocess.run(command, env=env, shell=True)",
        "subprocess.run('ls', env=env)",
        "subprocess.Popen([sys.executable, '-m', 'x'], env=env)",
    ],
)
def test_each_is_found(source: str) -> None:
    assert list(offences(source))


@pytest.mark.parametrize(
    "source",
    [
        "import json\nre.compile('x')\nmodel.eval()\ncursor.execute(text)",
        "yaml.load(text, Loader=yaml.BaseLoader)",
        "np.load(file, allow_pickle=False)",
        "Model(name, trust_remote_code=False)",
        "subprocess.run(child_command('x'), env=child_environment())",
    ],
)
def test_harmless_code_is_not_found(source: str) -> None:
    assert list(offences(source)) == []


def test_our_own_loader_is_safe() -> None:
    import yaml

    from resources import yaml_text

    for tag in ("!!python/object/apply:os.system [true]", "!!python/name:os.system ''", "!!python/module:os ''"):
        with pytest.raises(yaml.YAMLError):
            yaml_text.load(f"x: {tag}")
