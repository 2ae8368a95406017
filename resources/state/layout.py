"""How many shards a state has: chosen before anything is made of what is listed, and kept for all runs and machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipelines.fingerprint import shards_wanted

if TYPE_CHECKING:
    from resources.state.state import State


def settle(state: State, sources: Sequence[str] = ()) -> None:
    """Settles on the number of shards of the settings, and where they leave it open raises it to what the files of
    these sources, of all known ones where none is named, and the documents of others ask for. The listing is regrouped
    by it; other tables are by the stages that make them.

    Only for a run that is alone, before it makes anything. Raises SourceError."""
    state.listing.regroup()
    if state.project.settings.shards == "auto":
        wanted = shards_wanted(state.listing.count(sources), state.settings.buckets)
        if wanted > state.settings.shards_per_bucket:
            state.parts.catalog.keep_layout(state.settings.buckets, wanted)
            state.relaid()
            state.listing.regroup()
