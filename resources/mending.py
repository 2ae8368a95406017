"""Damaged files, made again from what came before them.

A file is known to be damaged when it is read. All that is committed is looked through then, what is damaged counts as
never made, and the stages before the one at hand make it again: from the sources, from paid replies that are
kept, from vectors that other files hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pipelines.errors import IndexStateError
from pipelines.stages import MAKER, STAGES, WHOLE

if TYPE_CHECKING:
    from resources.workspace import Workspace

T = TypeVar("T")

_GONE = frozenset({"damaged_file", "missing_file"})


def mended(workspace: Workspace, do: Callable[[], T], before: str | None = None) -> T:
    """What `do` gives. Where it meets a damaged file, all such are found, those of the stages before `before` are made
    again (none where it is None: the run that follows makes them), and it is done once more."""
    told = set[str]()
    while True:
        try:
            return do()
        except IndexStateError as error:
            if error.code not in _GONE or str(error) in told:
                raise
            told.add(str(error))
        workspace.tables.sought(sorted(_committed(workspace)))
        if before is not None:
            _remake(workspace, before)


def after(asset: str) -> str:
    """The stage that follows, for what comes after one; after what is no stage, all are before it."""
    names = [*STAGES, "indexed_documents"]
    return names[names.index(asset) + 1] if asset in STAGES else asset


def _committed(workspace: Workspace) -> set[str]:
    """The files that the present settings, and the generations that are kept, were made with."""
    keys = {workspace.runner.key(stage) for stage in STAGES}
    keys.update(key for row in workspace.catalog.generations() for key in row.keys.values())
    return workspace.catalog.files_under(keys) - {""}


def lost_buckets(workspace: Workspace, stage: str) -> list[int]:
    """Buckets of which a committed file of the stage is damaged or gone."""
    found = set[int]()
    for table in STAGES[stage].tables:
        rows = workspace.catalog.manifest_of(table, workspace.runner.key(stage))
        found.update(bucket for bucket, row in rows.items() if not workspace.tables.exists(row.file))
    return sorted(found)


def _remake(workspace: Workspace, before: str) -> None:
    for stage in STAGES:
        if stage == before:
            return
        buckets = lost_buckets(workspace, stage)
        if not buckets:
            continue
        earlier = workspace.reports.get(stage)
        if stage == MAKER["raw_documents"].name:
            workspace.list_documents(buckets, (), allow_deletions=True)
        elif buckets == [WHOLE]:
            workspace.link_sentences()
        else:
            workspace.make(stage, buckets)
        if earlier:
            workspace.reports[stage] = earlier.with_more(workspace.reports[stage])
        workspace.remade.update(set(buckets) - {WHOLE})
