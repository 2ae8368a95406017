"""Follows a Dockerfile without a container engine: each stage is a root of its own over this machine's, by overlayfs.

What is not tried is the base image: FROM stands for this machine's own files.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

_PASSED = ("PIP_", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "SSL_CERT_FILE")


def instructions(text: str) -> list[tuple[str, str]]:
    """(INSTRUCTION, the rest) of each, with continued lines joined."""
    joined = re.sub(r"\\\n", " ", "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#")))
    found = []
    for line in joined.splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            found.append((name.upper(), rest.strip()))
    return found


@dataclass
class Stage:
    """A root and what holds in it."""

    folder: Path
    name: str
    environment: dict[str, str] = field(default_factory=dict)
    at: str = "/"
    user: str = "0"

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def mount(self) -> None:
        self.folder.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12g,mode=755", "none", str(self.folder)], check=True)
        for name in ("upper", "work", "root"):
            (self.folder / name).mkdir()
        options = f"lowerdir=/,upperdir={self.folder}/upper,workdir={self.folder}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(self.root)], check=True)
        self._put_python()
        for name in ("proc", "dev", "sys"):
            subprocess.run(["mount", "--rbind", f"/{name}", str(self.root / name)], check=True)
            subprocess.run(["mount", "--make-rslave", str(self.root / name)], check=True)

    def _put_python(self) -> None:
        """To where the base image has it; Debian's own, since another may be where none but root comes."""
        python = self.root / "usr" / "local" / "bin" / "python"
        python.unlink(missing_ok=True)
        python.symlink_to("/usr/bin/python3")

    def unmount(self) -> None:
        for name in ("sys", "dev", "proc"):
            subprocess.run(["umount", "--recursive", "--lazy", str(self.root / name)], capture_output=True)
        for place in (self.root, self.folder):
            subprocess.run(["umount", "--lazy", str(place)], capture_output=True)

    def run(self, command: str | list[str]) -> subprocess.CompletedProcess[str]:
        """A command of RUN, or of whoever starts a container: as the stage's user, with its environment alone."""
        words = command if isinstance(command, list) else ["/bin/sh", "-c", command]
        passed = {name: value for name, value in os.environ.items() if name.startswith(_PASSED)}
        home = "/root" if self.user == "0" else "/var/lib/pincite"
        told = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": home,
            **passed,
            **self.environment,
        }
        entered = ["chroot", f"--userspec={self.user}:{self.user}", str(self.root), "/usr/bin/env", "-i"]
        entered += [f"{name}={value}" for name, value in told.items()]
        entered += ["/bin/sh", "-c", 'cd "$0" && exec "$@"', self.at, *words]
        return subprocess.run(entered, capture_output=True, text=True)


def follow(file: Path, context: Path, folder: Path, stages: list[Stage]) -> Stage:
    """Builds all stages, which are added to `stages` as they are mounted; returns the last.

    Raises AssertionError naming the instruction that failed."""
    for name, rest in instructions(file.read_text(encoding="utf-8")):
        if name == "FROM":
            words = rest.split()
            stages.append(Stage(folder / f"stage{len(stages)}", words[2] if len(words) > 2 else ""))
            stages[-1].mount()
            continue
        stage = stages[-1]
        if name == "RUN":
            ran = stage.run(rest)
            assert ran.returncode == 0, f"RUN {rest}\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
        elif name == "COPY":
            _copy(stage, stages, context, shlex.split(rest))
        elif name == "ENV":
            stage.environment.update(dict(word.split("=", 1) for word in shlex.split(rest)))
        elif name == "WORKDIR":
            stage.at = rest
            (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif name == "USER":
            stage.user = rest
        else:
            assert name == "CMD", f"{name} is not followed here"
    return stages[-1]


def _copy(stage: Stage, stages: list[Stage], context: Path, words: list[str]) -> None:
    origin = context
    if words[0].startswith("--from="):
        name = words.pop(0).removeprefix("--from=")
        (other,) = [each for each in stages if each.name == name]
        origin = other.root
    *sources, target = words
    assert sources, words
    into = stage.root / target.lstrip("/")
    for source in sources:
        path = origin / source.lstrip("/")
        place = into / path.name if target.endswith("/") else into
        place.parent.mkdir(parents=True, exist_ok=True)
        names = [f"{path}/.", str(place)] if path.is_dir() else [str(path), str(place)]
        if path.is_dir():
            place.mkdir(exist_ok=True)
        subprocess.run(["cp", "--archive", "--no-preserve=ownership", *names], check=True)
