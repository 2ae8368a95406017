"""What ends a run that buys texts for a generation which nobody is served from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.errors import ModelError
from pipelines.ports import NoReply, Reply
from resources.stages.enrichment import require_answers

UNUSABLE, DEAD = NoReply("unusable", "the reply is empty", "a"), NoReply("rejected", "the endpoint answered 401", "b")


def ends(said: list[Reply | NoReply], gave_up: bool = True, serving: bool = False) -> None:
    state: Any = SimpleNamespace(serving=serving)
    require_answers(state, said, SimpleNamespace(gave_up="the endpoint answered 401" if gave_up else None))


def test_it_ends_with_what_the_endpoint_said_and_not_with_an_unusable_reply_before_it() -> None:
    with pytest.raises(ModelError, match="answered 401") as raised:
        ends([Reply("text"), UNUSABLE, DEAD])
    assert raised.value.code == "rejected"


def test_it_goes_on_while_others_are_answered_or_readers_are_served() -> None:
    ends([Reply("text"), UNUSABLE])
    ends([UNUSABLE, DEAD], gave_up=False)
    ends([UNUSABLE, DEAD], serving=True)
