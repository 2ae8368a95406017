"""The model of one role: stored replies are read, missing ones are bought, several at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from pipelines.llm.prompts import cost, prompt_key, prompt_tokens
from pipelines.ports import NoReply, Prompt, Reply, ReplyCheck
from pipelines.settings.models import ENRICHING, LlmSettings, Role
from resources.llm.endpoint import MALFORMED, CallFailed, Completion, Endpoint
from resources.llm.limits import Budget, RateLimits, Retries, Sleep, Stopped
from resources.llm.replies import reply_keys
from resources.threads import Workers

if TYPE_CHECKING:
    from resources.llm.replies import KeptReply, ReplyCosts, ReplyStore

AT_ONCE = 64
"""Prompts that are looked up in one query."""
OTHER_TEMPERATURE = 0.3
"""Temperature of a later attempt if the first had zero, since the same request would get the same reply."""
PROBE = Prompt("", "Say yes.", 1)
"""Prompt that is sent after several consecutive failures, to see whether the endpoint answers at all."""
_LONGEST_FAREWELL_SECONDS = 10.0

Said = Reply | NoReply
Buy = Callable[[str, Prompt, int], Future[Said]]
"""A function that buys the reply to (key, prompt, number of earlier attempts)."""


@dataclass
class Spent:
    """The use of this model so far. `cached` prompts needed no call; `pending` ones are in a batch."""

    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    pending: int = 0


class BoughtModel:
    """A model that buys replies and keeps them; it implements ports.LanguageModel. `retry_rejected` repeats prompts
    that got no usable reply before. If there is no run (`account.run_id`), as for queries, each call of `replies` tries
    the endpoint again even if it failed before."""

    def __init__(
        self,
        role: Role,
        settings: LlmSettings,
        store: ReplyStore,
        account: ReplyCosts,
        limits: RateLimits,
        budget: Budget | None = None,
        retry_rejected: bool = False,
        sleep: Sleep | None = None,
    ) -> None:
        self.role, self.settings, self.store, self.account = role, settings, store, account
        self.endpoint = Endpoint(role, settings)
        self.spent = Spent()
        self._limits, self._budget, self._sleep = limits, budget, sleep
        self._retry_rejected = retry_rejected
        self._tried_again: set[str] = set()
        self._counting = threading.Lock()
        self.retrying: Retries
        self.hope(anew=True)

    @property
    def name(self) -> str:
        return self.role.model

    @property
    def gave_up(self) -> str | None:
        """The reason why no more calls are made in this run, or None."""
        return self.retrying.gave_up

    def replies(self, prompts: Iterable[Prompt], unusable: ReplyCheck) -> Generator[Said, None, None]:
        """Yield one reply for each prompt, in order. Raise DatabaseError if a bought reply cannot be kept."""
        self.hope()
        stopping, workers = threading.Event(), Workers(self.settings.concurrency)
        buy = partial(self._purchase, unusable=unusable, stopping=stopping)
        with self.store.hold_connection():
            try:
                yield from self._in_order(
                    iter(prompts), unusable, lambda *bought: workers.submit(partial(buy, *bought))
                )
            finally:
                # Calls under way are paid for: they get a while to end, so that their replies are kept.
                stopping.set()
                workers.stop(min(self.settings.timeout_seconds, _LONGEST_FAREWELL_SECONDS))

    def hope(self, anew: bool = False) -> None:
        """Try a given-up endpoint again if `anew`, or if the calls belong to no run."""
        if anew or not self.account.run_id:
            wait, retries = self.settings.longest_wait_seconds, self.settings.retries
            self.retrying = Retries(self._limits, retries, wait, self._sleep, answers=self._answers)

    def _answers(self) -> bool:
        """Say whether the endpoint answers a prompt without document text."""
        try:
            self.endpoint.complete(PROBE, self.role.temperature)
        except CallFailed as failed:
            return failed.code != "unreachable"
        return True

    def close(self) -> None:
        """Close the endpoint's connections."""
        self.endpoint.close()

    # ------------------------------------------------------------ kept replies

    def key_of(self, prompt: Prompt) -> str:
        return prompt_key(self.role.model, self.role.temperature, prompt)

    def keys_of(self, prompts: Sequence[Prompt], unusable: ReplyCheck) -> list[str]:
        """Return the keys of the replies to these prompts; a former model may have written some of the replies."""
        return reply_keys(self.role, prompts, self.known_replies, unusable)

    def known_replies(self, keys: Collection[str]) -> dict[str, KeptReply]:
        """Return the stored replies to these prompts. Only replies of ENRICHING are searched for in the files of an
        index."""
        return self.store.get(keys, seek=self.role.name in ENRICHING) if keys else {}

    def settled_reply(self, key: str, kept: KeptReply | None, unusable: ReplyCheck) -> Said | int:
        """Return the stored reply if it is usable, or else the number of attempts in this round."""
        if kept is None:
            return 0
        rejected, asked = kept.rejected, kept.attempts
        if kept.reply is not None:
            reason = unusable(kept.reply)
            if reason is None:
                return kept.reply
            rejected = reason if asked >= self.settings.attempts else None
            self.store.refuse(key, rejected)
        if rejected is None:
            return min(asked, self.settings.attempts - 1)
        if self._retry_rejected and key not in self._tried_again:
            self._tried_again.add(key)
            return 0
        return NoReply("unusable", rejected, key)

    def count(self, **more: float) -> None:
        with self._counting:
            for name, number in more.items():
                setattr(self.spent, name, getattr(self.spent, name) + number)

    # ------------------------------------------------------------ buying

    def _in_order(self, prompts: Iterator[Prompt], unusable: ReplyCheck, buy: Buy) -> Iterator[Said]:
        waiting: deque[Said | Future[Said]] = deque()
        flying: dict[str, Future[Said]] = {}
        more = True
        while more or waiting:
            while more and len(waiting) <= 2 * self.settings.concurrency:
                taken = list(islice(prompts, AT_ONCE))
                more = len(taken) == AT_ONCE
                waiting.extend(self._begin(taken, unusable, buy, flying))
            if waiting:
                said = waiting.popleft()
                yield said.result() if isinstance(said, Future) else said

    def _begin(
        self, prompts: Sequence[Prompt], unusable: ReplyCheck, buy: Buy, flying: dict[str, Future[Said]]
    ) -> Iterator[Said | Future[Said]]:
        """Yield the stored reply to each prompt, or the future of a bought one. A prompt whose reply is already being
        bought waits for it."""
        for key in [key for key, future in flying.items() if future.done()]:
            del flying[key]
        keys = self.keys_of(prompts, unusable)
        known = self.known_replies(set(keys) - flying.keys())
        for key, prompt in zip(keys, prompts, strict=True):
            found = flying[key] if key in flying else self.settled_reply(key, known.get(key), unusable)
            if isinstance(found, int):
                found = flying[key] = buy(key, prompt, found)
            else:
                self.count(cached=1)
            yield found

    def _purchase(self, key: str, prompt: Prompt, asked: int, unusable: ReplyCheck, stopping: threading.Event) -> Said:
        try:
            return self._buy(key, prompt, asked, unusable, stopping)
        except CallFailed as failed:
            return NoReply(failed.code, failed.message, key)
        except Stopped:
            return NoReply("unreachable", "the run was stopped before the model was asked", key)
        except BaseException:
            stopping.set()  # a reply that cannot be kept is not bought
            raise

    def _buy(self, key: str, prompt: Prompt, asked: int, unusable: ReplyCheck, stopping: threading.Event) -> Said:
        reason = ""
        for attempt in range(asked, self.settings.attempts):
            completion = self._ask(prompt, attempt, stopping)
            self.keep(key, completion)
            reply = replace(completion.reply, key=key)
            found = "the endpoint's answer is no chat completion" if reply.finish == MALFORMED else unusable(reply)
            if found is None:
                return reply
            reason = found
            self.store.refuse(key, reason if attempt + 1 == self.settings.attempts else None)
        return NoReply("unusable", reason, key)

    def _ask(self, prompt: Prompt, attempt: int, stopping: threading.Event) -> Completion:
        reserved, actual = self.reserve(prompt), 0.0
        try:
            completion = self.retrying.call(
                lambda: self.endpoint.complete(prompt, self.temperature(attempt)),
                stopping,
                prompt_tokens(prompt) + prompt.most_tokens,
            )
            actual = self.price(completion)
            return completion
        finally:
            if self._budget:
                self._budget.settle(reserved, actual)

    def keep(self, key: str, completion: Completion) -> None:
        """Store a reply before it is checked, since it is paid for."""
        self.store.add(key, completion, self.price(completion), self.account)
        self.count_completions([completion])

    def count_completions(self, completions: Sequence[Completion]) -> None:
        self.count(
            calls=len(completions),
            prompt_tokens=sum(item.prompt_tokens for item in completions),
            completion_tokens=sum(item.completion_tokens for item in completions),
            cost=sum(map(self.price, completions)),
        )

    def price(self, completion: Completion) -> float:
        return cost(self.role.price, completion.prompt_tokens, completion.completion_tokens)

    def temperature(self, attempt: int) -> float | None:
        """Return the temperature of the settings for the first attempt (0), and a higher one for later attempts if that
        is zero."""
        return OTHER_TEMPERATURE if attempt and self.role.temperature == 0 else self.role.temperature

    def reserve(self, prompt: Prompt) -> float:
        """Reserve the estimated cost of a call. Raise CallFailed (`budget`)."""
        estimate = cost(self.role.price, prompt_tokens(prompt), prompt.most_tokens)
        if self._budget and not self._budget.reserve(estimate):
            most, currency = self.settings.max_cost, self.settings.currency
            raise CallFailed(
                f"llm.max_cost ({most:g} {currency}) leaves no room for another call of model {self.name!r}; raise it, "
                "or run again: what was bought is kept",
                "budget",
                passing=False,
            )
        return estimate
