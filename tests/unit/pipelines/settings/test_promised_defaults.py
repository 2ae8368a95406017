"""The defaults that the methods promise: each by its number and the document that it comes from."""

from __future__ import annotations

from operator import attrgetter

import pytest

from pipelines.errors import SettingsError
from pipelines.query.rerankers import STEP, WINDOW
from pipelines.query.routes import RANK_CONSTANT
from pipelines.settings.base import Settings, settings_from

NOTES, PROPOSAL, PAPER, SKELETON = (
    "Chunking and reranking notes", "Proposal chunking", "UNLP 2026 paper", "Sentence skeleton",
)  # fmt: skip
PROMISED = [
    ("chunking.target_tokens", 320, PROPOSAL),
    ("chunking.max_tokens", 512, PROPOSAL),
    ("chunking.overlap_tokens", 64, PROPOSAL),
    ("chunking.clause_tokens", 25, PROPOSAL),
    ("enrichment.summary_characters", 250, PAPER),
    ("enrichment.summary_window", 10, PAPER),
    ("enrichment.context_characters", 250, PAPER),
    ("enrichment.context_window", 4, PAPER),
    ("sentences.min_characters", 3, SKELETON),
    ("sentences.min_words", 1, SKELETON),
    ("sentences.related_floor", 0.90, SKELETON),
    ("sentences.related_most", 2, SKELETON),
    ("query.candidates", 20, PAPER),
    ("query.context_passages", 3, PAPER),
    ("query.weighted.similarity", 0.50, NOTES),
    ("query.weighted.recency", 0.20, NOTES),
    ("query.weighted.hierarchy", 0.20, NOTES),
    ("query.weighted.adjacency", 0.10, NOTES),
    ("query.sentence.anchors", 5, SKELETON),
    ("query.sentence.steps", 2, SKELETON),
    ("query.sentence.least_confidence", 0.5, SKELETON),
    ("schedule.cron", "0 2 * * *", "Project brief"),
]


@pytest.mark.parametrize(("setting", "value", "source"), PROMISED)
def test_a_default_is_the_one_that_its_source_promises(setting: str, value: object, source: str) -> None:
    assert attrgetter(setting)(Settings()) == value, f"{source} promises {setting}: {value}"


def test_constants_are_those_that_their_source_promises() -> None:
    assert RANK_CONSTANT == 60, f"{PAPER} adds 60 to a rank"
    assert (WINDOW, STEP) == (20, 10), f"{PAPER} orders 20 passages at once, half of them again"


def test_a_sentence_may_have_fewer_links_than_two_but_no_more() -> None:
    assert settings_from({"sentences": {"related_most": 1}}).sentences.related_most == 1
    with pytest.raises(SettingsError, match="related_most"):
        settings_from({"sentences": {"related_most": 3}})
