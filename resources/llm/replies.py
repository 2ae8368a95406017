"""The replies of language models, stored in Postgres by model, parameters and prompt, so none is bought twice.

The thread that gets a reply stores it before it is used. The Parquet rows that are made from replies contain them too,
so a lost database is filled from those rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import DamagedFile, DatabaseError
from pipelines.llm.prompts import prompt_key
from pipelines.ports import Prompt, Reply, ReplyCheck
from pipelines.records import FALLBACK, LLM
from pipelines.settings.models import Role
from resources.llm.endpoint import Completion, storable
from resources.llm.limits import Budget
from resources.postgres.database import Database
from resources.postgres.statements import query

if TYPE_CHECKING:
    from psycopg import Connection

    from resources.engine.tables import ParquetTables

BOUGHT_TABLES = ("document_summaries", "chunk_contexts", "figure_descriptions")
"""Tables whose rows contain the replies from which they were made."""
_ROWS_AT_ONCE = 1000
"""Rows that are restored in one transaction."""


@dataclass(frozen=True, slots=True)
class ReplyCosts:
    """The purpose of a reply, and how it is paid."""

    stage: str
    model: str
    run_id: str
    generation: int | None
    currency: str


@dataclass(frozen=True, slots=True)
class KeptReply:
    """The state of one prompt: a reply, or the reason why no more is bought (`rejected`). Neither is set if there were
    `attempts` attempts and another one is allowed."""

    reply: Reply | None
    rejected: str | None
    attempts: int


def reply_keys(
    role: Role,
    prompts: Sequence[Prompt],
    known: Callable[[Collection[str]], Mapping[str, KeptReply]],
    unusable: ReplyCheck,
) -> list[str]:
    """Return the key of the reply to each prompt, with the last former model that has a usable stored reply, or else
    with the role's own model."""
    keys = [prompt_key(role.model, role.temperature, prompt) for prompt in prompts]
    for model, temperature in reversed(role.former):
        before = [prompt_key(model, temperature, prompt) for prompt in prompts]
        kept = known(set(before))
        usable = {key for key, each in kept.items() if each.reply is not None and unusable(each.reply) is None}
        keys = [key if key in usable else own for key, own in zip(before, keys, strict=True)]
    return keys


class ReplyStore:
    """The replies of a database.

    Threads share the store, which opens its own connection. `tables` are the tables of the state, from which missing
    replies are restored once.
    """

    def __init__(self, database: Database, tables: ParquetTables | None = None) -> None:
        self._database, self._tables = database, tables
        self._lock = threading.RLock()
        self._own: Database | None = None
        self._holders = 0
        self._refilled = tables is None
        self._budgets: dict[str, Budget] = {}

    def get(self, keys: Collection[str], seek: bool = True) -> dict[str, KeptReply]:
        """Return the state of these prompts by key. If some are missing and `seek` is set, restore from files once."""
        found = self._kept_replies(keys)
        if seek and len(found) < len(set(keys)) and not self._refilled:
            self._refilled = True
            if self._refill():
                found = self._kept_replies(keys)
        return found

    def add(self, key: str, completion: Completion, cost: float, account: ReplyCosts) -> None:
        """Store an attempt: its reply, and its tokens and cost added to those of earlier attempts."""
        row = reply_row(key, completion, cost, account)
        try:
            self._execute("keep_reply", row)
        except DatabaseError:
            self._execute("keep_reply", row)  # it is paid for: a server that was restarted may take it

    def refuse(self, key: str, reason: str | None) -> None:
        """Mark the reply as unusable. If a reason is given, no other reply is bought until that is requested."""
        self._execute("refuse_reply", refusal_row(key, reason))

    def costs(self) -> list[dict[str, Any]]:
        """Return costs by stage, generation, model and currency: prompts, calls, prompt_tokens, completion_tokens,
        estimated_tokens, cost. A prompt of two runs counts only for the later one."""
        return self._records("llm_costs")

    def costs_of_run(self, run_id: str) -> list[dict[str, Any]]:
        """Return the costs of one run, in the form of `costs`."""
        return self._records("llm_costs_of_run", run_id=run_id)

    def budget(self, run_id: str, most: float) -> Budget:
        """Return the budget that a run has left. All models of the run share it."""
        with self._lock:
            if run_id not in self._budgets:
                spent = sum(row["cost"] for row in self.costs_of_run(run_id))
                self._budgets[run_id] = Budget(most, spent)
            return self._budgets[run_id]

    @contextmanager
    def hold_connection(self) -> Iterator[None]:
        """Let transactions share one connection in this context. Otherwise each opens its own."""
        with self._lock:
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if not self._holders and self._own is not None:
                    self._own.close()

    @contextmanager
    def transaction(self) -> Iterator[Connection[Any]]:
        """Yield a connection in a transaction; threads take turns."""
        with self.hold_connection(), self._lock:
            self._own = self._own or _another(self._database)
            with self._own.connect() as connection:
                yield connection

    # ------------------------------------------------------------ within

    def _kept_replies(self, keys: Collection[str]) -> dict[str, KeptReply]:
        with self.transaction() as connection:
            rows = connection.execute(query("llm", "replies"), {"keys": list(keys)}).fetchall()
        return {
            key: KeptReply(
                None
                if text is None
                else Reply(text, finish, tuple((token, value) for token, value in logprobs), key, model),
                rejected,
                attempts,
            )
            for key, text, finish, logprobs, model, rejected, attempts in rows
        }

    def _execute(self, name: str, values: dict[str, Any]) -> None:
        with self.transaction() as connection:
            connection.execute(query("llm", name), values)

    def _records(self, name: str, **values: Any) -> list[dict[str, Any]]:
        from psycopg.rows import dict_row

        with self.transaction() as connection, connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query("llm", name), values).fetchall()

    def _refill(self) -> int:
        """Restore the replies in all files under the state, committed or not, whatever their key. Return their
        number."""
        import pyarrow as pa

        restored = 0
        assert self._tables is not None
        for table in BOUGHT_TABLES:
            for file in self._tables.files(table):
                try:
                    rows = self._bought_rows(table, file)
                except (DamagedFile, pa.ArrowInvalid):
                    continue  # no whole file; if it was committed, reading it as a table says so
                for start in range(0, len(rows), _ROWS_AT_ONCE):
                    with self.transaction() as connection, connection.cursor() as cursor:
                        cursor.executemany(query("llm", "restore_reply"), rows[start : start + _ROWS_AT_ONCE])
                restored += len(rows)
        return restored

    def _bought_rows(self, table: str, file: str) -> list[dict[str, Any]]:
        """Return rows for the replies of a file that Postgres lacks. Files written before rows carried replies give
        no rows."""
        assert self._tables is not None
        try:
            keys = set(self._tables.read(file, ["reply"])["reply"].to_pylist()) - {""}
        except KeyError:
            return []
        unknown = self._unknown(sorted(keys))
        if not unknown:
            return []
        read = self._tables.read(file, ["reply", "text", "model", "method", "note"]).to_pylist()
        return [
            {
                "key": row["reply"],
                "stage": table,
                "model": row["model"],
                "text": storable(row["text"]) if row["method"] == LLM else None,
                "finish": "stop" if row["method"] == LLM else "",
                "rejected": storable(row["note"]) if row["method"] == FALLBACK else None,
            }
            for row in read
            if row["reply"] in unknown and row["method"] in (LLM, FALLBACK)
        ]

    def _unknown(self, keys: Sequence[str]) -> set[str]:
        with self.transaction() as connection:
            return {key for (key,) in connection.execute(query("llm", "unknown_keys"), {"keys": list(keys)})}


def _another(database: Database) -> Database:
    """Return the same database for other threads, since a connection belongs to one thread."""
    return Database("embedded", database.server.state) if database.server else Database(database.url, Path())


def reply_row(key: str, completion: Completion, cost: float, account: ReplyCosts) -> dict[str, Any]:
    """Return the parameters of `keep_reply`."""
    from psycopg.types.json import Jsonb

    reply = completion.reply
    return {
        "key": key,
        "stage": account.stage,
        "model": account.model,
        "text": reply.text,
        "finish": reply.finish,
        "logprobs": Jsonb(reply.logprobs),
        "prompt_tokens": completion.prompt_tokens,
        "completion_tokens": completion.completion_tokens,
        "estimated_tokens": completion.estimated_tokens,
        "cost": cost,
        "currency": account.currency,
        "run_id": account.run_id,
        "generation": account.generation,
    }


def refusal_row(key: str, reason: str | None) -> dict[str, Any]:
    """Return the parameters of `refuse_reply`."""
    return {"key": key, "rejected": None if reason is None else storable(reason)}
