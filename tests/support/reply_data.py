"""What the tests of language models share: settings, prompts, what a model said, and its fixtures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pipelines.ports import NoReply, Prompt, Reply
from pipelines.settings.base import Settings
from resources.llm.model import BoughtModel
from resources.llm.replies import ReplyCosts
from resources.postgres.database import Database
from tests.support.llm_server import (
    MODEL,
    LlmServer,
)

PRICES = {MODEL: {"prompt": 1_000_000.0, "completion": 2_000_000.0}}
"""One for a prompt token, two for a token of the reply."""
ACCOUNT = ReplyCosts("stage", MODEL, "run", 1, "USD")


def settings(server: LlmServer, **values: Any) -> Settings:
    return Settings(llm={"base_url": server.url, "model": MODEL, "prices": PRICES, **values})


def prompts(*texts: str) -> list[Prompt]:
    return [Prompt("Be short.", text, 40) for text in texts]


def usable(reply: Reply) -> str | None:
    if reply.finish == "length":
        return "cut short"
    return "refused" if "sorry" in reply.text else None if reply.text else "empty"


def said(model: BoughtModel, *texts: str, check: Callable[[Reply], str | None] = usable) -> list[Reply | NoReply]:
    return list(model.replies(prompts(*texts), check))


def texts_of(replies: Sequence[Reply | NoReply]) -> list[str]:
    return [reply.text if isinstance(reply, Reply) else reply.code for reply in replies]


def rows(database: Database, columns: str) -> list[tuple[Any, ...]]:
    with database.connect() as connection:
        return connection.execute(f"SELECT {columns} FROM pincite.llm_replies ORDER BY at, key").fetchall()  # type: ignore[arg-type]
