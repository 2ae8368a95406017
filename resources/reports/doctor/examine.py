"""The report of `pincite doctor`: this machine, then the settings and each of their sources and services.

No index is needed or made. Endpoints are asked for their list of models, which costs nothing; each model gets one word
only on request.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pipelines.errors import ModelError, PinciteError, SettingsError
from pipelines.plural import plural
from pipelines.ports import Prompt
from pipelines.settings.base import Settings
from pipelines.settings.models import RolesSettings, key_variable
from pipelines.settings.sources import SourceSettings
from resources.dagster_instance.home import home_of
from resources.llm.endpoint import NotRead, endpoint_client, fetch
from resources.object_store import open_store
from resources.postgres.database import VECTOR_VERSION, Database
from resources.postgres.statements import migrations, query
from resources.reports.doctor import machine
from resources.reports.doctor import machine as installation
from resources.reports.doctor.finding import Finding, broken_finding, doubtful, failed_finding, looked_at, ok
from resources.settings_file import Project

# ---------------------------------------------------------------- database


OLDEST = 140_000
_APART, _FAR_APART = 5.0, 600.0
"""Seconds between the clocks of this machine and of the server from which there is a warning, and from which there is a
failure."""


def database_findings(setting: str, state: Path) -> Iterator[Finding]:
    """Connect and yield the findings. An embedded server is started, in a temporary folder if the state has none."""
    from psycopg.rows import namedtuple_row

    with (
        _open_database(setting, state) as (opened, where),
        opened.connect("pincite doctor", autocommit=True) as connection,
    ):
        (encoding,) = connection.execute(query("session", "encoding")).fetchone() or ("",)
        if isinstance(encoding, bytes):  # the encoding is SQL_ASCII, and the server answers no further questions
            yield from _server(connection.info.server_version, encoding.decode(), where)
            return
        yield from _server(connection.info.server_version, encoding, where)
        with connection.cursor(row_factory=namedtuple_row) as cursor:
            user: Any = cursor.execute(query("session", "look_at_user")).fetchone()
        assert user is not None
        yield from _vector(connection, user)
        yield from _rights(connection, user)
        yield from _catalog(connection)
        yield from _clocks(user.clock)


@contextmanager
def _open_database(setting: str, state: Path) -> Iterator[tuple[Database, str]]:
    if setting != "embedded":
        with Database(setting, state) as opened:
            yield opened, "answers"
    elif (state / "postgres").exists():
        with Database(setting, state) as opened:
            yield opened, "starts and answers"
    else:
        with (
            tempfile.TemporaryDirectory(prefix="pincite-doctor-", ignore_cleanup_errors=True) as folder,
            Database(setting, Path(folder) / "state") as opened,
        ):
            yield opened, "can be made and started here"


def _server(version: int, encoding: str, where: str) -> Iterator[Finding]:
    told = f"PostgreSQL {version // 10_000}.{version % 10_000} {where}"
    if version < OLDEST:
        yield broken_finding("database", told, "use PostgreSQL 14 or newer")
    elif encoding != "UTF8":
        yield broken_finding("database", f"{told}, in {encoding}: it cannot hold every text",
                      "make a database in UTF8: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0")  # fmt: skip
    else:
        yield ok("database", told)


def _vector(connection: Any, user: Any) -> Iterator[Finding]:
    found = connection.execute(query("session", "vector_versions")).fetchone()
    wanted = ".".join(map(str, VECTOR_VERSION))
    if found is None:
        yield broken_finding("pgvector", "the server has none", f"install pgvector {wanted} or newer on it")
        return
    version = str(found[0] or found[1])
    (trusted,) = connection.execute(query("session", "vector_is_trusted")).fetchone()
    if tuple(int(part) for part in version.split(".")[:2]) < VECTOR_VERSION:
        yield broken_finding(
            "pgvector", version, f"upgrade it to {wanted} or newer, then run ALTER EXTENSION vector UPDATE"
        )
    elif found[0] is None and not (user.superuser or (trusted and user.may_create)):
        yield broken_finding("pgvector", f"{version} is there, but this user may not create it in the database",
                      "have an administrator run CREATE EXTENSION vector in that database")  # fmt: skip
    else:
        yield ok("pgvector", version)


def _rights(connection: Any, user: Any) -> Iterator[Finding]:
    (may_query,) = connection.execute(query("session", "may_query")).fetchone()
    if not user.may_create:
        yield broken_finding("rights", "this user may not create schemas in the database",
                      "have an administrator run GRANT CREATE ON DATABASE ... TO that user")  # fmt: skip
    elif not may_query and not user.superuser and (user.has_query_role or not user.may_create_roles):
        yield broken_finding("rights",
                      "queries run as the role pincite_query, which this user may neither create nor become",
                      "have an administrator run CREATE ROLE pincite_query NOLOGIN; and GRANT pincite_query TO that "
                      "user")  # fmt: skip
    else:
        yield ok("rights", "schemas can be created, and queries run as a role of few rights")


def _catalog(connection: Any) -> Iterator[Finding]:
    known, applied = len(migrations()), 0
    if connection.execute(query("session", "has_migrations")).fetchone()[0]:
        applied = max((number for number, _ in connection.execute(query("session", "applied_migrations"))), default=0)
    if applied > known:
        yield broken_finding("index", f"it was made by a newer pincite (schema {applied}; this one knows {known})",
                      "upgrade pincite, or index into another state and database")  # fmt: skip
    elif not applied:
        yield ok("index", "none yet; `pincite index FOLDER` makes it")
    else:
        more = "" if applied == known else f"; the next run brings it from schema {applied} to {known}"
        yield ok("index", f"there is one{more}")


def _clocks(theirs: float) -> Iterator[Finding]:
    apart = abs(time.time() - theirs)
    if apart >= _APART:
        severity = broken_finding if apart >= _FAR_APART else doubtful
        yield severity("clock", f"that of the database is {apart:.0f} s apart from this machine's", "set both by NTP")


# ---------------------------------------------------------------- store


PATIENCE = 3.0
"""Seconds of pauses between tries: few, since a person is waiting for the report."""


def store_findings(settings: Settings) -> Iterator[Finding]:
    if settings.tables is None:
        return
    key, told = f"doctor/{secrets.token_hex(8)}", secrets.token_bytes(64)
    with closing(open_store(settings.tables, PATIENCE)) as opened:
        opened.put(key, told)
        try:
            listed, given = opened.size(key), opened.read(key, 0, len(told))
        finally:
            opened.delete([key])
        left = opened.size(key)
    if listed != len(told) or given != told:
        yield broken_finding("store", f"{settings.tables} gives other bytes than were written",
                     "see what stands between: a cache, a proxy, or another server behind the endpoint")  # fmt: skip
    elif left is not None:
        yield broken_finding(
            "store", f"{settings.tables} keeps what was deleted", "give the right to delete below that prefix"
        )
    else:
        yield ok("store", f"{settings.tables} takes, lists, gives and deletes an object")


# ---------------------------------------------------------------- endpoints


SECONDS = 10.0
WORD = "ready"
_NO_LIST = frozenset({400, 404, 405, 501})
"""HTTP statuses of endpoints that serve one model, and no list of models."""


@dataclass(frozen=True, slots=True)
class Named:
    """An endpoint in the settings. `try_out` sends it one word, and raises PinciteError or CallFailed."""

    setting: str
    address: str
    model: str
    variable: str
    try_out: Callable[[], object]


def endpoint_findings(settings: Settings, ask_models: bool) -> Iterator[Finding]:
    for named in _named_services(settings):
        yield from _looked_at(named, ask_models) if isinstance(named, Named) else [named]


def _named_services(settings: Settings) -> Iterator[Named | Finding]:
    embedder, reranker = settings.embedder, settings.query.cross_encoder
    if embedder.endpoint and embedder.model:
        key = key_variable(embedder.endpoint, embedder.api_key_env)
        yield Named("embedder", embedder.endpoint, embedder.model, key, partial(_try_embedder, settings))
    if reranker.endpoint and reranker.model:
        key = key_variable(reranker.endpoint, reranker.api_key_env)
        yield Named("query.cross_encoder", reranker.endpoint, reranker.model, key, partial(_try_reranker, settings))
    found: dict[tuple[str, str, str], list[str]] = {}
    for name in RolesSettings.model_fields:
        if settings.llm.asks(name):
            try:
                role = settings.llm.role(name)
            except SettingsError as error:
                yield failed_finding(f"llm role {name}", error)
                continue
            found.setdefault((role.base_url, role.model, role.api_key_env), []).append(name)
    for (address, model, variable), names in found.items():
        yield Named(f"llm ({', '.join(names)})", address, model, variable, partial(_try_completion, settings, names[0]))


def _looked_at(named: Named, ask_models: bool) -> Iterator[Finding]:
    name = f"endpoint {named.setting}"
    if named.variable and not os.environ.get(named.variable, "").strip():
        yield broken_finding(name, f"the environment variable {named.variable} of its key is not set",
                      f"set {named.variable} where pincite runs")  # fmt: skip
        return
    answered = _answer_finding(name, named)
    if answered.severity != "failure" and ask_models:
        answered = _try_service(name, named)
    yield answered


def _answer_finding(name: str, named: Named) -> Finding:
    import openai

    where = f"{named.address}, model {named.model!r}"
    check = "see that it runs, and that its address is right"
    try:
        key = os.environ.get(named.variable, "").strip() if named.variable else ""
        client = endpoint_client(named.address, lambda: key, timeout=SECONDS, retries=0, setting=named.setting)
        models = _models(fetch(client, "/models"))
    except PinciteError as error:
        return failed_finding(name, error)
    except openai.APIStatusError as error:
        return _refusal_finding(name, where, error.status_code, named.variable)
    except NotRead as error:
        return broken_finding(name, f"{where}: {error}", check)
    except Exception as error:  # the transport's error may show the key
        return broken_finding(name, f"{where} did not answer: {type(error.__cause__ or error).__name__}", check)
    if models and named.model not in models:
        shown = ", ".join(sorted(models)[:5])
        return doubtful(name, f"{where}: it answers, and does not list that model", f"it lists {shown}; check the name")
    return ok(name, f"{where}: it answers" + (" and knows the model" if models else ""))


def _refusal_finding(name: str, where: str, status: int, variable: str) -> Finding:
    if status in (401, 403):
        remedy = f"check the key in {variable}" if variable else "name the variable of its key as api_key_env"
        return broken_finding(name, f"{where} refused the key: {status}", remedy)
    if status in _NO_LIST:
        return ok(name, f"{where}: it answers, without a list of models; --ask-models asks the model itself")
    return broken_finding(name, f"{where} answered {status}", "see its log, or its provider's page of state")


def _models(reply: bytes) -> set[str]:
    try:
        return {str(item["id"])[:200] for item in json.loads(reply)["data"]}
    except (ValueError, TypeError, LookupError, RecursionError):
        return set()


# ---------------------------------------------------------------- one word to each model


def _try_service(name: str, named: Named) -> Finding:
    from resources.llm.endpoint import CallFailed

    try:
        named.try_out()
    except CallFailed as error:
        return failed_finding(name, ModelError(error.message, error.code))
    except PinciteError as error:
        return failed_finding(name, error)
    return ok(name, f"{named.address}, model {named.model!r}: asked one word, it answered")


def _try_embedder(settings: Settings) -> object:
    from resources.models.embedders.endpoint import EndpointEmbedder
    from resources.models.embedders.specs import named_spec

    return EndpointEmbedder(named_spec(settings.embedder), settings.embedder).queries([WORD])


def _try_reranker(settings: Settings) -> object:
    from resources.models.rerankers import EndpointCrossEncoder

    return EndpointCrossEncoder(settings.query.cross_encoder).scores(WORD, [WORD])


def _try_completion(settings: Settings, role: str) -> Any:
    from resources.llm.endpoint import Endpoint

    endpoint = Endpoint(settings.llm.role(role), settings.llm)
    try:
        return endpoint.complete(Prompt("", f"Answer with the word {WORD}.", 16), settings.llm.role(role).temperature)
    finally:
        endpoint.close()


# ---------------------------------------------------------------- settings, sources and Dagster


def settings_findings(project: Project) -> Iterator[Finding]:
    yield ok("settings", str(project.file) if project.file else "no pincite.yaml here: defaults")
    if golden := project.settings.publish.golden:
        yield from looked_at("golden questions", lambda: _golden(project.resolve(golden)))
    if project.settings.enrichment.prompts:
        yield from looked_at("prompts", lambda: _prompts(project.settings))


def _golden(file: Path) -> Iterator[Finding]:
    from resources.evaluation.golden import read_questions

    yield ok("golden questions", f"{len(read_questions(file))} in {file}")


def _prompts(given: Settings) -> Iterator[Finding]:
    from resources.prompts import read_prompts

    assert given.enrichment.prompts
    read_prompts(Path(given.enrichment.prompts))
    yield ok("prompts", given.enrichment.prompts)


def source_findings(project: Project) -> Iterator[Finding]:
    """Yield the findings for the sources of the settings, which are reached like in `pincite sources check`; only names
    are fetched."""
    if not project.settings.sources:
        yield ok("sources", "the settings name none; `pincite index FOLDER` does")
    for source in project.settings.sources:
        root = source.path if source.scheme else str(project.resolve(source.path))
        yield from looked_at(f"source {source.name}", partial(_source, source.model_copy(update={"path": root})))


def _source(source: SourceSettings) -> Iterator[Finding]:
    from resources.sources.check import check_source

    found = check_source(source)
    count = len(found["entries"])
    if count:
        yield ok(f"source {source.name}", f"{found['root']}: {count}{' files and more' if found['more'] else ' files'}")
    else:
        yield doubtful(f"source {source.name}", f"{found['root']} has no file that its filters take",
                      "see its path, include and exclude")  # fmt: skip


def dagster_findings(state: Path) -> Iterator[Finding]:
    home, own = home_of(state), state / "dagster"
    if home.resolve() != own.resolve() and not home.is_dir():
        yield broken_finding("dagster", f"DAGSTER_HOME is {home}, which is no folder",
                     "make it with a dagster.yaml, or unset it")  # fmt: skip
    elif not (home / "dagster.yaml").exists() and home.resolve() == own.resolve():
        yield ok("dagster", f"{home} is not there yet; `pincite index` makes it")
    else:
        yield from _instance(home)


def _instance(home: Path) -> Iterator[Finding]:
    from dagster import DagsterInstance

    try:
        with DagsterInstance.from_config(str(home)) as instance:
            runs = instance.get_runs_count()
    except Exception as error:  # its text may hold an address with its password
        told = f"correct {home / 'dagster.yaml'}, or move {home} away: it holds the history of runs alone"
        yield broken_finding("dagster", f"{home} cannot be opened: {type(error).__name__}", told)
        return
    yield ok("dagster", f"{version('dagster')}, {plural(runs, 'run')} in {home}")


# ---------------------------------------------------------------- report


def examine(located: Callable[[], Project], ask_models: bool = False) -> dict[str, Any]:
    """Return {"ok": no failure, "checks": [{"name", "severity", "found", "remedy"}]}; `located` may raise
    SettingsError.

    With `ask_models` each model behind an endpoint is sent one word, which may cost. No text of documents is sent."""
    found = [*_everywhere(), *_here(located, ask_models)]
    return {"ok": all(each.severity != "failure" for each in found), "checks": [asdict(each) for each in found]}


def _everywhere() -> Iterator[Finding]:
    """Yield the findings that do not depend on settings."""
    yield from looked_at("python", installation.python)
    yield from looked_at("packages", installation.packages)
    yield from looked_at("files", installation.own_files)
    yield from looked_at("torch", installation.torch)
    yield from looked_at("memory", machine.memory)
    yield from looked_at("clock", machine.clock)
    yield from looked_at("confinement", machine.confinement)


def _here(located: Callable[[], Project], ask_models: bool) -> Iterator[Finding]:
    try:
        found = located()
    except SettingsError as error:
        yield failed_finding("settings", error)
        return
    settings, state = found.settings, found.state
    yield from looked_at("settings", lambda: settings_findings(found))
    yield from looked_at("sources", lambda: source_findings(found))
    yield from looked_at("state", lambda: machine.state_rights(state))
    yield from looked_at("disk", lambda: machine.disk(state))
    yield from looked_at("database", lambda: database_findings(settings.database, state))
    yield from looked_at("store", lambda: store_findings(settings))
    yield from looked_at("dagster", lambda: dagster_findings(state))
    yield from looked_at("models", lambda: installation.models(settings))
    yield from looked_at("reading", lambda: machine.reading(settings))
    yield from looked_at("endpoints", lambda: endpoint_findings(settings, ask_models))
