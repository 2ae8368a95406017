"""The releases that pincite is installed with, each known by the hashes of its files: constraints.txt.

    python constraints.py pins EXTRA...    what one install takes of it; the standard library is enough
    python constraints.py check            whether it is made of this pyproject.toml, without network
    make lock [UPGRADE=1]                  make it by uv, UPGRADE at the newest releases

An install takes what is always needed, and extras or groups of pyproject.toml; nothing else comes in (install.sh).
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
FILE = ROOT / "constraints.txt"
ALWAYS = "always"
PYTHONS = ("3.11", "3.12", "3.13")
SYSTEMS = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "x86_64"), ("darwin", "arm64"))
TORCH = "2.13.0"
"""Builds for the CPU carry +cpu under Linux, where the plain release brings gigabytes of CUDA."""
TORCH_NEEDS = (
    *("filelock", "fsspec>=0.8.5", "jinja2", "networkx>=2.5.1", "setuptools>=77.0.3", "sympy>=1.13.3"),
    "typing-extensions>=4.10.0",
)
"""Requirements of those builds. They are on an index of their own, which the machine that compiles need not reach."""
CPU_BUILDS = {
    "cp311-cp311-manylinux_2_28_x86_64": "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",
    "cp311-cp311-manylinux_2_28_aarch64": "84453b69508ec79902f899c5ed9495acb9e2bbe9fda5f1d5d6f19e3c3842e1a7",
    "cp312-cp312-manylinux_2_28_x86_64": "4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2",
    "cp312-cp312-manylinux_2_28_aarch64": "6f307c2c32d764ffc6ff6893b801fad6d4752f3e67966cb8abf1843427c02604",
    "cp313-cp313-manylinux_2_28_x86_64": "3fbf9c9d1f3c10c2d59d04aca426dee9ccc6ceb32d255c61e93acc3b4f75fae6",
    "cp313-cp313-manylinux_2_28_aarch64": "0b8f7d0423027ae8b90c7977c627f3379f325363a08224dffad9b4b2d684a83d",
}
"""Their hashes, by the tags of their files."""
STALE = "constraints.txt is not made of this pyproject.toml; `make lock` makes it again."
HEAD = """\
# All releases that pincite, its extras and its tools are installed with, and the hashes of all files of each.
# `make lock` makes this file of pyproject.toml; `python constraints.py pins EXTRA...` takes what one install needs.
# Do not edit it, and do not add unstructured[pdf]: it asks for torchvision, which brings gigabytes of CUDA.
"""


@dataclass(frozen=True, slots=True)
class Pin:
    """One release, the marker of the machines that it is for, the hashes of its files, and the sets that it is in."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()

    def required(self) -> str:
        return f"{self.name}=={self.version}" + (f" ; {self.marker}" if self.marker else "")

    def written(self) -> str:
        return " \\\n    --hash=sha256:".join([self.required(), *self.hashes]) + "\n"


_RELEASE = re.compile(r"([A-Za-z0-9._-]+)==([^ ;\\]+)(?: ; ([^\\]+?))?(?: \\)?")
_HASH = re.compile(r"    --hash=sha256:([0-9a-f]{64})(?: \\)?")


def read(text: str) -> list[Pin]:
    """Return all pins of a file. Raises ValueError naming a line that is part of none."""
    pins = list[Pin]()
    for line in text.splitlines():
        if pins and (found := _HASH.fullmatch(line)):
            pins[-1] = replace(pins[-1], hashes=(*pins[-1].hashes, found[1]))
        elif pins and line.startswith("    # "):
            pins[-1] = replace(pins[-1], sets=tuple(line.split()[1:]))
        elif found := _RELEASE.fullmatch(line):
            pins.append(Pin(found[1], found[2], found[3] or ""))
        elif line and not line.startswith("#"):
            raise ValueError(f"constraints.txt: {line!r} is no release, hash or set; `make lock` makes it again.")
    return pins


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def asked(tables: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the requirements of each set: what is always needed, what extras and what groups need."""
    return {
        ALWAYS: tables["project"]["dependencies"],
        **tables["project"]["optional-dependencies"],
        **tables["dependency-groups"],
    }


def digest(tables: Mapping[str, Any]) -> str:
    """Return the hash of all that constraints.txt is made of."""
    made_of = [asked(tables), tables["build-system"]["requires"], PYTHONS, SYSTEMS, TORCH, TORCH_NEEDS, CPU_BUILDS]
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()


def is_current(text: str, tables: Mapping[str, Any]) -> bool:
    return f"# {digest(tables)}" in text.splitlines()


def select(pins: Sequence[Pin], sets: Sequence[str]) -> list[Pin]:
    """Return the pins of these sets. Raises ValueError for a set that there is not."""
    if unknown := set(sets) - {each for pin in pins for each in pin.sets}:
        raise ValueError(f"constraints.txt: it has no extra or group {', '.join(sorted(unknown))}.")
    return [pin for pin in pins if not {*sets}.isdisjoint(pin.sets)]


def machines() -> Iterator[dict[str, str]]:
    """Yield what markers know of each machine that constraints.txt is for."""
    for python, patch, (system, processor) in itertools.product(PYTHONS, (0, 99), SYSTEMS):
        yield {
            "python_version": python,
            "python_full_version": f"{python}.{patch}",
            "sys_platform": system,
            "platform_system": system.capitalize(),
            "platform_machine": processor,
            "os_name": "posix",
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
            "extra": "",
        }


def faults(text: str, tables: Mapping[str, Any]) -> list[str]:
    """Return what keeps this text from pinning all that pyproject.toml requires, each said of the first machine."""
    from packaging.markers import Marker
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    pins = read(text)
    found = {f"{pin.name} has no hash, or is in no set": "" for pin in pins if not (pin.hashes and pin.sets)}
    wanted = [(name, Requirement(each)) for name, texts in asked(tables).items() for each in texts]
    for machine in machines():
        at = f" under Python {machine['python_full_version']}, {machine['sys_platform']}, {machine['platform_machine']}"
        versions = dict[str, Pin]()
        for pin in pins:
            if pin.marker and not Marker(pin.marker).evaluate(machine):
                continue
            if versions.setdefault(canonicalize_name(pin.name), pin) != pin:
                found.setdefault(f"{pin.name} has two versions", at)
        for name, required in wanted:
            if required.marker and not required.marker.evaluate(machine):
                continue
            met = versions.get(canonicalize_name(required.name))
            if met is None or not {name, ALWAYS} & {*met.sets} or not required.specifier.contains(met.version, True):
                found.setdefault(f"{required} of {name} is not met", at)
    return [f"{fault}{at}" for fault, at in found.items()]


def compile_pins(upgrade: bool) -> list[Pin]:
    """Ask uv for one resolution of all sets, and then which packages of it each set needs."""
    sets = asked(project())
    with tempfile.TemporaryDirectory() as name:
        folder, known = Path(name), Path(name, "known.txt")
        (folder / "pyproject.toml").write_text(_uv_settings(), "utf-8")
        known.write_text("".join(f"{pin.required()}\n" for pin in read(FILE.read_text("utf-8"))), "utf-8")
        every = [*itertools.chain(*sets.values()), *project()["build-system"]["requires"], f"torch=={TORCH}"]
        _ask_uv(folder, every, "--generate-hashes", "--output-file", known.name, *(["--upgrade"] if upgrade else []))
        whole = read(known.read_text("utf-8"))
        needed = {each: {pin.name for pin in read(_ask_uv(folder, texts, "--constraint", known.name))}
                  for each, texts in sets.items()}  # fmt: skip
    return [completed for pin in whole for completed in complete(pin, needed)]


def _uv_settings() -> str:
    common = f"python_version <= '{PYTHONS[-1]}' and implementation_name == 'cpython'"
    common += " and platform_python_implementation == 'CPython'"
    environments = [f"sys_platform == '{system}' and {common}" for system in dict(SYSTEMS)]
    return f"""\
[tool.uv]
environments = {json.dumps(environments)}
[[tool.uv.dependency-metadata]]
name = "torch"
version = "{TORCH}"
requires-dist = {json.dumps(TORCH_NEEDS)}
"""


def _ask_uv(folder: Path, requirements: Sequence[str], *options: str) -> str:
    command = [str(ROOT / "install.sh"), sys.prefix, "--uv", "--directory", str(folder)]
    command += ["pip", "compile", "-", *options, "--quiet", "--universal", "--python-version", PYTHONS[0]]
    command += ["--no-annotate", "--no-header", "--no-emit-index-url", "--no-emit-find-links"]
    ran = subprocess.run(command, cwd=ROOT, input="\n".join(requirements), stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        sys.exit("uv could not resolve what pyproject.toml requires; it says above why.")
    return ran.stdout


def complete(pin: Pin, needed: Mapping[str, set[str]]) -> Iterator[Pin]:
    """Yield it with its sets, and a marker that says no more than it must; torch by its builds."""
    within = [name for name, names in needed.items() if pin.name in names]
    # What is always installed is so with each extra: that is said once. A group may be installed by itself.
    sets = tuple(name for name in within if ALWAYS not in within or name in (ALWAYS, *project()["dependency-groups"]))
    marker = "sys_platform != 'linux'" if pin.name == "torch" else shorten(pin.marker)
    if pin.name == "torch":
        yield Pin("torch", f"{TORCH}+cpu", "sys_platform == 'linux'", tuple(sorted(CPU_BUILDS.values())), sets)
    yield replace(pin, marker=marker, hashes=tuple(sorted(pin.hashes)), sets=sets)


def shorten(marker: str) -> str:
    """Leave out of it what holds for every machine that constraints.txt is for."""
    from packaging.markers import Marker

    def holds_everywhere(part: str) -> bool:
        return all(map(Marker(part).evaluate, machines()))

    if not marker or holds_everywhere(marker):
        return ""
    parts = re.findall(r"(?:^|(?<= and ))(?:[^()]+?|\([^()]+\))(?= and |$)", marker)
    if " and ".join(parts) != marker:  # nested deeper
        return marker
    return " and ".join(part for part in parts if not holds_everywhere(part))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    pins = actions.add_parser("pins", help="Print what one install takes.")
    pins.add_argument("--only", action="store_true", help="Without what is always installed.")
    pins.add_argument("sets", nargs="*", help="Extras and groups of pyproject.toml.")
    actions.add_parser("check", help="Tell whether constraints.txt is made of this pyproject.toml.")
    actions.add_parser("lock", help="Make it.").add_argument("--upgrade", action="store_true")
    given, tables = parser.parse_args(), project()
    if given.action == "lock":
        blocks = [f"{pin.written()}    # {' '.join(pin.sets)}\n" for pin in compile_pins(given.upgrade)]
        FILE.write_text("".join([HEAD, f"# Of what it is made:\n# {digest(tables)}\n", *blocks]), "utf-8")
    text = FILE.read_text("utf-8")
    if not is_current(text, tables):
        sys.exit(STALE)
    if given.action == "pins":
        try:
            found = select(read(text), given.sets if given.only else [ALWAYS, *given.sets])
        except ValueError as error:
            sys.exit(str(error))
        print("".join(pin.written() for pin in found), end="")
    elif wrong := faults(text, tables):
        sys.exit("\n".join([STALE, *wrong]))


if __name__ == "__main__":
    main()
