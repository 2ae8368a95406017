"""Memberships of sources brought into Postgres: as they stand in a listing, or read alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path

from pipelines.settings.sources import SourceSettings
from resources.connectors.source import connect
from resources.postgres.catalog import MembershipTable
from resources.sources.landing import Landing
from resources.sources.memberships import Told, asked, fetched, in_folder
from resources.sources.walk import opened_source


def keep(
    table: MembershipTable,
    sources: Collection[str],
    told: Mapping[str, Told],
    at: datetime | None,
    whole: bool = True,
) -> None:
    """Makes what sources said at a time hold, in questions to come: those that said nothing have no memberships any
    more. What cannot be read changes nothing; nor, where a listing is not taken `whole`, does a file that is gone."""
    table.forget([name for name in sources if name not in told])
    for name, said in told.items():
        if said.pairs is not None and (whole or not said.problem):
            assert at is not None
            table.replace(name, said.pairs, at)


def read(source: SourceSettings, landing: Landing) -> Told | None:
    """What a source says now, without a look at its documents; None where it says nothing.

    Raises SourceError, SettingsError where it cannot be reached."""
    if not source.scheme:
        if not source.memberships:
            return None
        with opened_source(source, Path(source.path)) as folder:
            return in_folder(folder)
    with landing.alone(wait=False), closing(connect(source, landing.folder)) as connected:
        said = asked(connected)
        return fetched(connected) if said is None and source.memberships else said
