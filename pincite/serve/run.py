"""The life of a server: `pincite serve` in one process or several, and `pincite mcp` on standard input.

Processes of `pincite serve` share the sockets. Each answers until a signal ends it.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from pincite import __version__
from pincite.console import say
from pincite.guard import Asker, access_of
from pincite.listening import ANY_ADDRESS, address_of, interruptible, listener, private_folder
from pincite.serve.client import FILE, identity, running_server
from pipelines.errors import PinciteError, UsageError
from resources.child_process import tied_command
from resources.private_files import private
from resources.settings_file import Project, locate

if TYPE_CHECKING:
    from pincite.serve.mcp import OverHttp
    from pincite.serve.service import Service


INSTALL = "pip install 'pincite[mcp]'"


def sdk_is_installed() -> bool:
    """Say whether the SDK of the agents' protocol is installed, in the major version that pincite/serve/mcp.py
    needs."""
    return find_spec("mcp_types") is not None


# ---------------------------------------------------------------- pincite mcp


def answer_on_stdio(project: Project, groups: Sequence[str]) -> int:
    """Answer for these groups until standard input ends, then return 0.

    Raises UsageError if the SDK is not installed, IndexStateError if there is no index."""
    if not sdk_is_installed():
        raise UsageError(f"the SDK of the agents' protocol is not installed: {INSTALL}")
    import anyio

    from pincite.serve.mcp import Tools, serve_stdio, server_of
    from pincite.serve.service import Service

    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    asker = Asker("owner", tuple(groups))
    with closing(Service(project)) as service:

        def leave() -> NoReturn:
            service.close()
            os._exit(0)

        say(f"answers an agent on standard input and output (state {project.state}); Ctrl-C stops it")
        anyio.run(serve_stdio, server_of(Tools(service, reader_address(project)), lambda context: asker), leave)
    return 0


def reader_address(project: Project) -> str:
    """Return the address of the reader of citations: the server that runs on the state, or else the address of a future
    `pincite serve`."""
    server, settings = running_server(project), project.settings.serve
    return settings.url or (server["url"] if server else f"http://127.0.0.1:{settings.port}")


# ---------------------------------------------------------------- pincite serve


TOLD_VARIABLE = "PINCITE_SERVE_TOLD"
"""Environment variable that passes JSON from the starting process to an answering process."""
FAREWELL_SECONDS = 10
SWITCH_SECONDS = 0.0005
"""Seconds for which a computing thread may delay the event loop, each time that something is sent."""
LOOK_SECONDS = 0.2
MOST_ENDS, WITHIN_SECONDS = 5, 60.0
"""Times that processes may end unexpectedly within these seconds until the server gives up."""
_LOCK = "serve.lock"
_ANSWERED = {
    "none": "anybody on this machine, for public documents",
    "tokens": "who has a token",
    "proxy": "whom the proxy names",
}


@dataclass(frozen=True, slots=True)
class ServerSetup:
    """The setup of an answering process: its descriptors, and the address and host names of the server."""

    sockets: list[int]
    url: str
    names: list[str]
    any_address: bool
    config: str | None
    state: str


def run_serve(project: Project) -> int:
    """Serve until Ctrl-C or SIGTERM, then return 0.

    Raises UsageError if the address cannot be listened on, SettingsError if the settings do not define the access, and
    PinciteError if the answering processes keep ending.
    """
    settings = project.settings.serve
    access_of(project)
    listening = listener(settings.host, settings.port)
    shown = address_of(ANY_ADDRESS.get(settings.host, settings.host), listening)
    url = settings.url or shown
    names = [settings.host, *filter(None, [urlsplit(url).hostname])]
    with listening, private(project.state), private_folder("pincite-serve-") as folder:
        owner = _own_socket(folder)
        told = ServerSetup(
            [listening.fileno(), owner.fileno()], url, names, settings.host in ANY_ADDRESS,
            str(project.file) if project.file else None, str(project.state),
        )  # fmt: skip
        with owner, _offer_socket(project, folder, url):
            if settings.processes == 1:
                answer(project, told, lambda: _greet(project, url, shown))
                return 0
            _supervise(project, told, settings.processes, url, shown)
    return 0


def answer(project: Project, told: ServerSetup, ready: Any = lambda: None) -> None:
    """Answer on the sockets in this process until a signal ends it."""
    import uvicorn

    from pincite.connections import LARGEST_HEAD, Connections, limits_for
    from pincite.serve.application import application
    from pincite.serve.service import Service

    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    service = Service(project)
    # The server takes signals while it runs, and raises them again when it has ended well.
    with closing(service), suppress(KeyboardInterrupt), interruptible():
        service.warm()
        by_model = project.settings.llm.asks("answer")
        access = access_of(project)
        app = application(service, access, told.url, told.names, told.any_address, by_model, _agents(service, told.url))
        settings = project.settings.serve
        limits, backlog = limits_for(settings.connections, one_peer=settings.auth == "proxy")
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, proxy_headers=False, server_header=False,
            timeout_graceful_shutdown=FAREWELL_SECONDS, timeout_keep_alive=round(limits.idle_seconds), backlog=backlog,
            http=Connections(limits).protocol(), h11_max_incomplete_event_size=LARGEST_HEAD, ws="none",
        )  # fmt: skip
        sys.setswitchinterval(SWITCH_SECONDS)
        sockets = [socket.socket(fileno=os.dup(number)) for number in told.sockets]
        ready()
        uvicorn.Server(config).run(sockets=sockets)


def _agents(service: Service, url: str) -> OverHttp | None:
    """Return the server for agents; None if the SDK is not installed."""
    if not sdk_is_installed():
        return None
    from pincite.serve.mcp import OverHttp, Tools, by_request, server_of

    return OverHttp(server_of(Tools(service, url), by_request))


def main() -> None:
    """Run one of several processes, `python -m pincite.serve.run`."""
    told = ServerSetup(**json.loads(os.environ.pop(TOLD_VARIABLE)))
    try:
        answer(locate(told.config, told.state), told)
    except PinciteError as error:
        say(f"pincite: {error}")
        sys.exit(error.exit_code)


# ---------------------------------------------------------------- several processes


def _supervise(project: Project, told: ServerSetup, count: int, url: str, shown: str) -> None:
    """Keep `count` processes running; replace one that ends unexpectedly."""
    running: list[subprocess.Popen[Any]] = []
    ends: list[float] = []

    def start() -> None:
        environment = {**os.environ, "PYTHONSAFEPATH": "1", TOLD_VARIABLE: json.dumps(asdict(told))}
        command = tied_command("pincite.serve.run", ends=signal.SIGTERM)
        running.append(
            subprocess.Popen(
                command, env=environment, start_new_session=True, pass_fds=told.sockets, cwd=project.folder
            )
        )

    with interruptible():
        try:
            for _ in range(count):
                start()
            _greet(project, url, shown)
            while True:
                time.sleep(LOOK_SECONDS)
                for process in [process for process in running if process.poll() is not None]:
                    running.remove(process)
                    ends = [at for at in ends if time.monotonic() - at < WITHIN_SECONDS] + [time.monotonic()]
                    if len(ends) > MOST_ENDS:
                        raise PinciteError("the server's processes keep ending; the lines above say why", "serve_ended")
                    say(f"a process that answers ended ({process.returncode}); another one is started")
                    start()
        except KeyboardInterrupt:
            say("stopping")
        finally:
            _stop(running)


def _stop(running: list[subprocess.Popen[Any]]) -> None:
    for process in running:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
    until = time.monotonic() + 2 * FAREWELL_SECONDS
    for process in running:
        try:
            process.wait(max(until - time.monotonic(), 0.1))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
            process.wait()


# ---------------------------------------------------------------- greeting and the owner's socket


def _greet(project: Project, url: str, shown: str) -> None:
    settings = project.settings.serve
    listens = f", listening on {shown}" if url != shown else ""
    say(f"Ask at {url}{listens} (state {project.state}; answers {_ANSWERED[settings.auth]}); Ctrl-C stops it")
    if sdk_is_installed():
        say(f"Agents connect to {url}/mcp, chat programs to {url}/v1")
    else:
        say(f"Chat programs connect to {url}/v1; agents need the extra mcp: {INSTALL}")
    if not settings.host.startswith("127.") and settings.host not in ("localhost", "::1"):
        say("warning: this is plain HTTP: keep it behind a proxy with TLS, which tokens and answers pass through")


def _own_socket(folder: Path) -> socket.socket:
    """Return a socket that only the state's owner can reach, because only the owner can open its folder."""
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(folder / "ask"))
    made.listen(64)
    return made


@contextmanager
def _offer_socket(project: Project, folder: Path, url: str) -> Iterator[None]:
    """Make the socket known to commands on the state while this context lasts; of several servers they find the
    first."""
    file, partial = project.state / FILE, project.state / f"{FILE}.{os.getpid()}.partial"
    with (project.state / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield
            return
        told = {"socket": str(folder / "ask"), "url": url, "version": __version__, "settings": identity(project)}
        partial.write_text(json.dumps(told), encoding="utf-8")
        os.replace(partial, file)
        try:
            yield
        finally:
            file.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
