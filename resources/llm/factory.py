"""The construction of language models by role, from the settings."""

from __future__ import annotations

from functools import cache

from pipelines.errors import SettingsError
from pipelines.settings.base import Settings
from pipelines.settings.models import ENRICHING
from resources.llm.batches import BatchModel
from resources.llm.limits import RateLimits, Sleep
from resources.llm.model import BoughtModel
from resources.llm.replies import ReplyCosts, ReplyStore


@cache
def shared_limits(base_url: str, calls: int, tokens: int) -> RateLimits:
    """Return the limits of an endpoint, shared by every model at it in this process."""
    return RateLimits(calls, tokens)


def language_model(
    settings: Settings,
    role: str,
    store: ReplyStore,
    *,
    run_id: str = "",
    generation: int | None = None,
    stage: str = "",
    retry_rejected: bool = False,
    sleep: Sleep | None = None,
) -> BoughtModel:
    """Return the model of a role. Its replies are kept under a run, generation and stage (the role if no stage is
    given). The cost of one run is limited (llm.max_cost); calls without a run, such as those of queries, are not.

    Raise SettingsError if no model is set, or if it has no price although llm.max_cost is set."""
    llm = settings.llm
    chosen = llm.role(role)
    budget = None
    if run_id and llm.max_cost is not None:
        if chosen.price is None:
            raise SettingsError(
                f"llm.max_cost bounds what a run may spend, but llm.prices has no price for the model "
                f"{chosen.model!r}; add it in pincite.yaml (0 for a model that costs nothing)"
            )
        budget = store.budget(run_id, llm.max_cost)
    # For the other roles, a person waits.
    kind = BatchModel if llm.batch and role in ENRICHING else BoughtModel
    account = ReplyCosts(stage or role, chosen.model, run_id, generation, llm.currency)
    limits = shared_limits(chosen.base_url, llm.requests_per_minute, llm.tokens_per_minute)
    return kind(chosen, llm, store, account, limits, budget, retry_rejected, sleep)
