"""`pincite golden`: the review of feedback on passages, which an operator accepts as golden questions or rejects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pincite.commands.options import GlobalOptions, global_options
from pincite.console import block, emit, say, tell, wrap
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from resources.evaluation.golden import Feedback


@click.group()
def golden() -> None:
    """Review people's feedback on passages.

    Feedback is given on the web page if serve.feedback is on. Accepted feedback becomes golden questions, which test a
    new index before it is published.
    """


@golden.command("list")
@global_options
def list_(place: GlobalOptions) -> int:
    """List the feedback to review, with questions and passages."""
    from resources.evaluation.golden import FeedbackFile

    waiting = FeedbackFile(place.project().state).waiting()
    if place.as_json:
        emit({"waiting": [_json(each) for each in waiting]})
    elif waiting:
        tell(block(line for each in waiting for line in _feedback_text(each)))
    else:
        say("nothing waits for review")
    return 0


@golden.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="All that wait.")
@global_options
def accept(place: GlobalOptions, ids: tuple[str, ...], everything: bool) -> int:
    """Add feedback to the golden questions of publish.golden."""
    from resources.evaluation.golden import accept as add

    project = place.project()
    result = add(project, _feedback_of(place, ids, everything))
    known = f"; {result['known']} were there already" if result["known"] else ""
    place.give(result, lambda made: f"{made['added']} added to {made['file']}{known}")
    return 0


@golden.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="All that wait.")
@global_options
def reject(place: GlobalOptions, ids: tuple[str, ...], everything: bool) -> int:
    """Reject feedback.

    The same feedback of the same person is not listed again.
    """
    from resources.evaluation.golden import REJECTED, FeedbackFile

    chosen = _feedback_of(place, ids, everything)
    FeedbackFile(place.project().state).decide([each.id for each in chosen], REJECTED)
    place.give({"rejected": [each.id for each in chosen]}, lambda made: f"{len(made['rejected'])} rejected")
    return 0


def _feedback_of(place: GlobalOptions, ids: tuple[str, ...], everything: bool) -> list[Feedback]:
    from resources.evaluation.golden import FeedbackFile

    if bool(ids) == everything:
        raise UsageError("ids or --all must be given, but not both; `pincite golden list` shows the ids")
    file = FeedbackFile(place.project().state)
    return file.waiting() if everything else file.find(ids)


def _json(said: Feedback) -> dict[str, Any]:
    from dataclasses import asdict

    return {"id": said.id, **asdict(said)}


def _feedback_text(said: Feedback) -> list[str]:
    page = f", p. {said.page}" if said.page is not None else ""
    who = f"{said.asked_by}, " if said.asked_by else ""
    groups = f", restricted; asked for {', '.join(said.groups)}" if said.groups else ""
    return [
        f"{said.id}  {said.question}",
        *wrap(f"{'answered by' if said.answers else 'not answered by'} {said.uri}{page} (source {said.source}):"),
        *wrap(f"“{said.quote}”" if said.quote else "the whole page"),
        *wrap(f"{who}{said.at[:16].replace('T', ' ')} UTC{groups}"),
        "",
    ]
