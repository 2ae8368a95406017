"""constraints.txt pins all that is installed, by hashes, and is made of this pyproject.toml."""

from __future__ import annotations

import copy
import re
import subprocess
from importlib.metadata import distributions
from typing import Any

import pytest
from packaging.utils import canonicalize_name

import constraints
from tests.support.places import ROOT


@pytest.fixture(scope="module")
def text() -> str:
    return constraints.FILE.read_text("utf-8")


@pytest.fixture
def tables() -> dict[str, Any]:
    return copy.deepcopy(constraints.project())


def test_it_is_made_of_this_project(text: str, tables: dict[str, Any]) -> None:
    assert constraints.is_current(text, tables)
    assert constraints.faults(text, tables) == []


def test_it_pins_all_that_is_installed_here(text: str) -> None:
    """Any of it may face the network or read hostile bytes."""
    pins = {(canonicalize_name(pin.name), pin.version) for pin in constraints.read(text)}
    here = {(canonicalize_name(each.metadata["Name"]), each.version) for each in distributions()}
    own = {(name, version) for name, version in here if name in ("pincite", "pip")}  # pip comes with Python's venv
    assert len(here) > 200
    assert here - own - pins == set()


def test_it_names_no_address_and_no_path(text: str) -> None:
    assert not re.search(r"://|index-url|find-links|^-|file:|/", text, re.MULTILINE)


def test_torch_under_linux_is_the_build_for_the_processor(text: str) -> None:
    pins = constraints.read(text)
    assert [(pin.version, pin.marker) for pin in pins if pin.name == "torch"] == [
        (f"{constraints.TORCH}+cpu", "sys_platform == 'linux'"),
        (constraints.TORCH, "sys_platform != 'linux'"),
    ]
    assert [pin.name for pin in pins if pin.name.startswith(("nvidia-", "cuda-", "triton", "torchvision"))] == []


def test_another_requirement_is_noticed(text: str, tables: dict[str, Any]) -> None:
    tables["project"]["dependencies"].append("unheard-of>=1")
    tables["project"]["optional-dependencies"]["ui"].append("numpy<2")
    assert not constraints.is_current(text, tables)
    at = " under Python 3.11.0, linux, x86_64"
    told = [f"{said} is not met{at}" for said in ("unheard-of>=1 of always", "numpy<2 of ui")]
    assert constraints.faults(text, tables) == told


def test_a_release_without_hashes_is_noticed(text: str, tables: dict[str, Any]) -> None:
    changed = re.sub(r"(?m)^(anyio==\S+) \\\n(    --hash.*\n)+", r"\1\n", text)
    assert changed != text
    assert len(constraints.faults(changed, tables)) == 1


def test_a_line_that_is_no_pin_is_refused() -> None:
    with pytest.raises(ValueError, match="--extra-index-url"):
        constraints.read("numpy==2.4.6\n--extra-index-url something\n")


def test_pins_of_an_extra_are_what_is_always_needed_and_its_own() -> None:
    first, hashed = "a==1", " \\\n    --hash=sha256:" + "0" * 64 + "\n"
    others = "b==2 ; sys_platform == 'linux'\n    # dev ui\nc==3\n    # dev\n"
    pins = constraints.read(f"{first}{hashed}    # always\n{others}")
    assert [pin.name for pin in constraints.select(pins, ["always", "ui"])] == ["a", "b"]
    assert pins[0].written() == first + hashed
    with pytest.raises(ValueError, match="uii"):
        constraints.select(pins, ["uii"])


def test_pins_need_nothing_that_is_not_in_python() -> None:
    """They are asked for in an environment that has nothing yet."""
    ran = subprocess.run(
        ["python3", "-I", "-S", "constraints.py", "pins", "--only", "build"], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert {"hatchling", "uv"} < {line.partition("==")[0] for line in ran.stdout.splitlines()}


@pytest.mark.parametrize(
    ("marker", "short"),
    [
        ("", ""),
        ("python_full_version < '3.14' and (sys_platform == 'darwin' or sys_platform == 'linux')", ""),
        ("python_full_version < '3.14' and sys_platform == 'linux'", "sys_platform == 'linux'"),
        ("python_full_version < '3.11.3' and implementation_name == 'cpython'", "python_full_version < '3.11.3'"),
        ("(sys_platform == 'linux' and python_version < '3.12') or os_name == 'nt'",
         "(sys_platform == 'linux' and python_version < '3.12') or os_name == 'nt'"),
    ],
)  # fmt: skip
def test_a_marker_says_no_more_than_it_must(marker: str, short: str) -> None:
    assert constraints.shorten(marker) == short
