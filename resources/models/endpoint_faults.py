"""The errors for an endpoint of models that did not answer: each says what happened and what to do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pipelines.errors import ModelError
from resources.llm.endpoint import retry_after

if TYPE_CHECKING:
    from openai import APIError, APIStatusError

    from resources.llm.endpoint import NotRead

_LONGEST_PAUSE_SECONDS = 60.0
"""Seconds: the longest pause that the client makes if an endpoint asks for one."""


class LeaveAlone(ModelError):
    """An endpoint's request for a longer pause than a run makes."""


def refused(error: APIStatusError, where: str, section: str) -> ModelError:
    """Return the error for an endpoint that refuses the sender, or everybody for now. `section` names the settings of
    its address, model and key."""
    said, wait = f"{where} answered {error.status_code}", retry_after(error.response.headers, time.time())
    if error.status_code != 429 and error.status_code < 500:
        names = ("endpoint", "model", "api_key_env")
        return ModelError(f"{said}; check the address, model and key ({', '.join(f'{section}.{n}' for n in names)})")
    busy = ", too many requests" if error.status_code == 429 else ""
    asks = f", and asks to be left alone for {wait:,.0f} s" if wait and wait >= 1 else ""
    kind = LeaveAlone if wait and wait > _LONGEST_PAUSE_SECONDS else ModelError
    return kind(f"{said}{busy}{asks}; run again later", "unreachable")


def not_read(error: NotRead, where: str) -> ModelError:
    return ModelError(f"{where} cannot be asked: {error}", "model" if error.kind == "moved" else "unreachable")


def silent(error: APIError, where: str) -> ModelError:
    return ModelError(f"{where} did not answer: {type(error).__name__}; check that it runs", "unreachable")
