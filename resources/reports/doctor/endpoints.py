"""What pincite finds of the endpoints that the settings name: keys, whether they answer, whether they know the model.

They are asked for their list of models, which costs nothing. Only where it is asked for, each model is sent one word.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from pipelines.errors import ModelError, PinciteError, SettingsError
from pipelines.ports import Prompt
from pipelines.settings.base import Settings
from pipelines.settings.models import RolesSettings, key_variable
from resources.llm.endpoint import NotRead, endpoint_client, fetched
from resources.reports.doctor.finding import Finding, broken, doubtful, failed, ok

SECONDS = 10.0
WORD = "ready"
_NO_LIST = frozenset({400, 404, 405, 501})
"""Statuses of endpoints that serve one model, and no list."""


@dataclass(frozen=True, slots=True)
class Named:
    """An endpoint of the settings. `try_out` sends it one word, and raises PinciteError or CallFailed."""

    setting: str
    address: str
    model: str
    variable: str
    try_out: Callable[[], object]


def endpoints(settings: Settings, ask_models: bool) -> Iterator[Finding]:
    for named in _named(settings):
        yield from _looked_at(named, ask_models) if isinstance(named, Named) else [named]


def _named(settings: Settings) -> Iterator[Named | Finding]:
    embedder, reranker = settings.embedder, settings.query.cross_encoder
    if embedder.endpoint and embedder.model:
        key = key_variable(embedder.endpoint, embedder.api_key_env)
        yield Named("embedder", embedder.endpoint, embedder.model, key, partial(_embedded, settings))
    if reranker.endpoint and reranker.model:
        key = key_variable(reranker.endpoint, reranker.api_key_env)
        yield Named("query.cross_encoder", reranker.endpoint, reranker.model, key, partial(_scored, settings))
    found: dict[tuple[str, str, str], list[str]] = {}
    for name in RolesSettings.model_fields:
        if settings.llm.asks(name):
            try:
                role = settings.llm.role(name)
            except SettingsError as error:
                yield failed(f"llm role {name}", error)
                continue
            found.setdefault((role.base_url, role.model, role.api_key_env), []).append(name)
    for (address, model, variable), names in found.items():
        yield Named(f"llm ({', '.join(names)})", address, model, variable, partial(_completed, settings, names[0]))


def _looked_at(named: Named, ask_models: bool) -> Iterator[Finding]:
    name = f"endpoint {named.setting}"
    if named.variable and not os.environ.get(named.variable, "").strip():
        yield broken(name, f"the environment variable {named.variable} of its key is not set",
                      f"set {named.variable} where pincite runs")  # fmt: skip
        return
    answered = _answered(name, named)
    if answered.severity != "failure" and ask_models:
        answered = _tried(name, named)
    yield answered


def _answered(name: str, named: Named) -> Finding:
    import openai

    where = f"{named.address}, model {named.model!r}"
    check = "see that it runs, and that its address is right"
    try:
        key = os.environ.get(named.variable, "").strip() if named.variable else ""
        client = endpoint_client(named.address, lambda: key, timeout=SECONDS, retries=0, setting=named.setting)
        models = _models(fetched(client, "/models"))
    except PinciteError as error:
        return failed(name, error)
    except openai.APIStatusError as error:
        return _refused(name, where, error.status_code, named.variable)
    except NotRead as error:
        return broken(name, f"{where}: {error}", check)
    except Exception as error:  # of the client's transport, whose request holds the key
        return broken(name, f"{where} did not answer: {type(error.__cause__ or error).__name__}", check)
    if models and named.model not in models:
        shown = ", ".join(sorted(models)[:5])
        return doubtful(name, f"{where}: it answers, and does not list that model", f"it lists {shown}; check the name")
    return ok(name, f"{where}: it answers" + (" and knows the model" if models else ""))


def _refused(name: str, where: str, status: int, variable: str) -> Finding:
    if status in (401, 403):
        remedy = f"check the key in {variable}" if variable else "name the variable of its key as api_key_env"
        return broken(name, f"{where} refused the key: {status}", remedy)
    if status in _NO_LIST:
        return ok(name, f"{where}: it answers, without a list of models; --ask-models asks the model itself")
    return broken(name, f"{where} answered {status}", "see its log, or its provider's page of state")


def _models(reply: bytes) -> set[str]:
    try:
        return {str(item["id"])[:200] for item in json.loads(reply)["data"]}
    except (ValueError, TypeError, LookupError, RecursionError):
        return set()


# ---------------------------------------------------------------- one word to each model


def _tried(name: str, named: Named) -> Finding:
    from resources.llm.endpoint import CallFailed

    try:
        named.try_out()
    except CallFailed as error:
        return failed(name, ModelError(error.message, error.code))
    except PinciteError as error:
        return failed(name, error)
    return ok(name, f"{named.address}, model {named.model!r}: asked one word, it answered")


def _embedded(settings: Settings) -> object:
    from resources.models.embedders.endpoint import EndpointEmbedder
    from resources.models.embedders.registry import named_spec

    return EndpointEmbedder(named_spec(settings.embedder), settings.embedder).queries([WORD])


def _scored(settings: Settings) -> object:
    from resources.models.rerankers import EndpointCrossEncoder

    return EndpointCrossEncoder(settings.query.cross_encoder).scores(WORD, [WORD])


def _completed(settings: Settings, role: str) -> Any:
    from resources.llm.endpoint import Endpoint

    endpoint = Endpoint(settings.llm.role(role), settings.llm)
    try:
        return endpoint.complete(Prompt("", f"Answer with the word {WORD}.", 16), settings.llm.role(role).temperature)
    finally:
        endpoint.close()
