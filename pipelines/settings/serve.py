"""Settings of `pincite serve`, and of who asks it."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from pipelines.settings.section import Section

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,99}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


class ProxySettings(Section):
    """A proxy that signs people in and says who they are; used where `serve.auth` is `proxy`."""

    secret_env: str = Field(
        "PINCITE_PROXY_SECRET",
        description="Environment variable of the secret that the proxy sends with each request (16 characters).",
    )
    secret_header: str = Field("X-Pincite-Secret", description="Header that the proxy sends the secret in.")
    user_header: str = Field("X-Forwarded-User", description="Header of the asker's name.")
    groups_header: str = Field("X-Forwarded-Groups", description="Header of the asker's groups, joined by commas.")

    @field_validator("secret_header", "user_header", "groups_header")
    @classmethod
    def _header(cls, name: str) -> str:
        if not _HEADER.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a header; write one such as X-Forwarded-User")
        return name

    @field_validator("secret_env")
    @classmethod
    def _variable(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of an environment variable; the secret itself is never a setting")
        return name


class ServeSettings(Section):
    """`pincite serve`: the page, HTTP and MCP."""

    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on; plain HTTP.")
    port: int = Field(8750, ge=0, le=65_535, description="Port to listen on; 0 is any free one.")
    url: str | None = Field(
        None,
        description="Address that people reach it by, where a proxy stands before it, such as https://ask.example.",
    )
    auth: Literal["none", "tokens", "proxy"] = Field(
        "none",
        description="Who asks: nobody in particular, on loopback alone, who finds public documents; who has a token "
        "(`pincite tokens add`); or whom a proxy names.",
    )
    proxy: ProxySettings = ProxySettings.model_construct()
    operators: str | None = Field(
        None, description="A group whose members see the names of all failed documents on the page of the state."
    )
    questions: int = Field(
        0, ge=0, le=256, description="Questions answered at once by a process; 0 is two for each processor."
    )
    answers: int = Field(
        16, ge=1, le=256, description="Questions that a language model works on at once for a process."
    )
    waiting: int = Field(
        256,
        ge=0,
        le=10_000,
        description="Requests of a kind that may wait for their turn; more are told to come back.",
    )
    seconds: float = Field(
        20.0,
        gt=0,
        le=600,
        description="Longest time of a request, half of which it may wait for its turn. Where a language model works, "
        "it bounds waiting and each statement.",
    )
    connections: int = Field(
        4096,
        ge=16,
        le=100_000,
        description="Connections that a process keeps open, a quarter of them from one address, or all where auth is "
        "proxy.",
    )
    cache_mb: int = Field(64, ge=0, description="Pictures of pages that each process keeps in memory.")
    processes: int = Field(1, ge=1, le=64, description="Processes that serve; all share one database.")
    feedback: bool = Field(
        False,
        description="Whether askers may say on the page that a passage answers their question, or does not. What they "
        "say waits in the state folder for `pincite golden`, with the passage's text, and who asked where auth names "
        "them.",
    )
    dagster: str | None = Field(None, description="Address of Dagster's UI, which the page of the state links to.")

    @field_validator("url", "dagster")
    @classmethod
    def _address(cls, address: str | None) -> str | None:
        if address is None:
            return None
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
            raise ValueError(f"{address!r} is no address of a site; write one such as https://ask.example")
        return address.rstrip("/")

    @model_validator(mode="after")
    def _require_closed(self) -> ServeSettings:
        if self.auth == "none" and self.host not in LOOPBACK:
            raise ValueError(
                f"serve.auth is none, which is for loopback alone, and serve.host is {self.host!r}: set serve.auth to "
                "tokens or proxy, or serve.host to 127.0.0.1"
            )
        return self
