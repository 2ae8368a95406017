"""`pincite index` killed at every named point, then run again: reliability.md 1, with the oracle after each.

A first build, an edit of the live generation, a change of embedder whose edit also goes into the generation that serves
meanwhile, and of the number of buckets, with the same. In all but the first a reader never stops asking.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.held_run import held_run
from tests.faults.running import (
    Change,
    Clean,
    Reader,
    assert_converges,
    changed,
    edit,
    regroup,
    swap,
    unchanged,
    vectors_on_disk,
)
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project

pytestmark = pytest.mark.integration

SOME, NONE, ALL = "some", "none", "all"
"""What the run after the killed one has to embed."""


def case(change: Change, point: str, number: int, embeds: str) -> object:
    names: dict[Change, str] = {unchanged: "build", edit: "edit", swap: "swap", regroup: "regroup"}
    name = names[change]
    return pytest.param(change, point, number, embeds, id=f"{name} {point} {number}".replace(" ", "-"))


CASES = [
    case(unchanged, "parsed", 3, ALL),
    case(unchanged, "file half written", 6, ALL),
    case(unchanged, "generation made", 1, ALL),
    case(unchanged, "embedded", 3, SOME),
    case(unchanged, "file written", 2, SOME),
    case(unchanged, "before a commit", 2, SOME),
    case(unchanged, "after a commit", 2, SOME),
    case(unchanged, "terms frozen", 1, NONE),
    case(unchanged, "copying sentences", 7, NONE),
    case(unchanged, "after rows commit", 2, NONE),
    case(unchanged, "links loaded", 1, NONE),
    case(unchanged, "building", 2, NONE),
    case(unchanged, "built", 1, NONE),
    case(unchanged, "published", 1, NONE),
    case(edit, "parsed", 2, ALL),
    case(edit, "embedded", 2, SOME),
    case(edit, "before rows commit", 2, NONE),
    case(edit, "after rows commit", 1, NONE),
    case(edit, "copying links", 1, NONE),
    case(edit, "links loaded", 1, NONE),
    case(edit, "built", 1, NONE),
    case(swap, "copying sentences", 2, SOME),  # of the live generation
    case(swap, "after rows commit", 1, SOME),
    case(swap, "generation made", 1, SOME),
    case(swap, "embedded", 6, SOME),
    case(swap, "index built", 2, NONE),
    case(swap, "built", 2, NONE),
    case(swap, "published", 1, NONE),
    case(swap, "verdict", 1, NONE),
    case(regroup, "listing regrouped", 3, ALL),
    case(regroup, "parse regrouped", 6, ALL),
    case(regroup, "generation made", 1, NONE),
    case(regroup, "before a commit", 6, SOME),
    case(regroup, "copying chunks", 7, NONE),
]


@pytest.mark.case(1, served=True)
@pytest.mark.parametrize(("change", "point", "number", "embeds"), CASES)
def test_a_killed_run_is_finished_by_the_next(
    change: Change,
    point: str,
    number: int,
    embeds: str,
    empty: Project,
    full: tuple[Project, Clean],
    clean_after: Callable[[Change], Clean],
    server_url: str,
    endpoint: EmbeddingServer,
    tmp_path: Path,
) -> None:
    base, clean = (empty, full[1]) if change is unchanged else (full[0], clean_after(change))
    with changed(base, server_url, tmp_path / "project", change) as project, ExitStack() as stack:
        before = vectors_on_disk(project)
        reader = None if change is unchanged else stack.enter_context(Reader(project))
        arguments = ("index", "--config", project.config)
        with held_run(tmp_path / "run", *arguments, point=point, number=number, dagster=point == "built") as run:
            if reader:
                reader.ask()
            else:
                published = project.rows("SELECT count(*) FROM pincite.live")[0][0]
                assert published == (point in ("published", "verdict"))
            run.kill()
        fresh = assert_converges(project, endpoint, clean, before)
        assert (fresh == Counter(), fresh == clean.asked) == (embeds == NONE, embeds == ALL)
        if reader:
            last = reader.ask()
            reader.assert_saw_whole_documents(last)
            assert last != reader.first
