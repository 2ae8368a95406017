"""`pincite eval`: scores of golden questions, on the index or on each combination of settings in a matrix file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pincite.commands.options import GlobalOptions, global_options, group_option, rerank_option, strategy_option
from pincite.console import as_json, emit, say, tell
from pipelines.errors import PinciteError, UsageError
from pipelines.evaluation.imports import IMPORTS
from pipelines.plural import plural
from pipelines.settings.query import MEASURED_HITS
from resources.memory import one_heap


@click.command("eval")
@click.argument("questions", required=False, type=click.Path(path_type=Path))
@click.option(
    "-k",
    default=MEASURED_HITS,
    show_default=True,
    type=click.IntRange(min=1),
    help="Hits that the span metrics look at.",
)
@strategy_option
@rerank_option
@group_option
@click.option(
    "--with-options", is_flag=False, flag_value="lexical", default=None, type=click.Choice(["lexical", "all"]),
    help="Join a question's options to the lexical query, or with =all everywhere.",
)  # fmt: skip
@click.option("--answers", is_flag=True, help="Answer each question too, as ask does, and score the answers.")
@click.option(
    "--feedback", is_flag=True, help="Instead of QUESTIONS: what people said on the page, before anybody reviews it."
)
@click.option(
    "--matrix",
    metavar="M.yaml",
    type=click.Path(path_type=Path),
    help="Run the settings of a matrix file, each in an index beside yours; docs/guide/evaluation.md says how to "
    "write one.",
)
@click.option(
    "--experiments",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where the indexes and results of a matrix are kept (default: experiments in the state folder).",
)
@click.option(
    "--import", "imports", type=click.Choice(list(IMPORTS)),
    help="Instead: read QUESTIONS in this form, and write them as golden questions.",
)  # fmt: skip
@click.option(
    "--suggest", metavar="N", type=int, help="Instead: write N candidate questions out of the index, to be corrected."
)
@click.option(
    "--output", metavar="FILE", type=click.Path(path_type=Path), help="Where --suggest or --import writes them."
)
@global_options
def evaluate(
    place: GlobalOptions,
    questions: Path | None,
    matrix: Path | None,
    experiments: Path | None,
    imports: str | None,
    suggest: int | None,
    output: Path | None,
    feedback: bool,
    **options: Any,
) -> int:
    """Score retrieval on test questions, or suggest some.

    QUESTIONS is a file of golden questions, JSON lines."""
    if imports:
        return _import(place, imports, questions, suggest, output)
    if output and suggest is None:
        raise UsageError("--output needs --suggest N or --import; add --suggest N for N suggested questions")
    if suggest is not None:
        if questions:
            raise UsageError(
                f"--suggest takes no QUESTIONS; to write the suggestions to {questions}, use --output {questions}"
            )
        return _suggest(place, suggest, output, options["groups"])
    if feedback and (questions or matrix):
        raise UsageError("--feedback scores the feedback that waits for review; leave out QUESTIONS and --matrix")
    if questions is None and not feedback:
        raise UsageError(
            "no questions are named: give a file of golden questions, or have some suggested with --suggest N "
            "--output FILE"
        )
    if experiments and not matrix:
        raise UsageError("--experiments needs a matrix; name its file with --matrix")
    if matrix and questions:
        return _matrix(place, questions, matrix, experiments, options)
    from pincite.index import open_index
    from pincite.text.reports import scores_shown

    with place.progress("asking test questions") as progress, open_index(place.project(), progress) as opened:
        result = opened.evaluate(questions, **options)
    place.give(result, scores_shown)
    return 0


def _import(place: GlobalOptions, kind: str, questions: Path | None, suggest: int | None, output: Path | None) -> int:
    """Write the questions of another format to a file, or to standard output if `output` is None. No index is
    needed."""
    from resources.evaluation.golden import import_questions
    from resources.evaluation.suggest import write_new

    if suggest is not None:
        raise UsageError("--import and --suggest cannot be combined; give one of them")
    if questions is None:
        raise UsageError(f"--import {kind} reads a file; name it: pincite eval --import {kind} FILE --output NEW.jsonl")
    lines = import_questions(kind, questions)
    if output:
        write_new(output, lines)
    if place.as_json:
        emit({"questions": lines})
        return 0
    for line in [] if output else lines:
        tell(as_json(line))
    without = sum(not line["gold"] for line in lines)
    say(plural(len(lines), "question") + (f", {without} of them without gold" if without else ""))
    if output:
        say(f"index the documents that their gold names, then run `pincite eval {output}`")
    return 0


def _suggest(place: GlobalOptions, count: int, output: Path | None, groups: tuple[str, ...]) -> int:
    """Write suggested questions to a file, or to standard output if `output` is None."""
    from pincite.index import open_index

    with place.progress("choosing passages") as progress, open_index(place.project(), progress) as opened:
        result = opened.suggest(count, groups, output)
    if place.as_json:
        emit(result)
    else:
        for line in [] if output else result["questions"]:
            tell(as_json(line))
        for note in [
            *result["notes"],
            *([f"correct them in {output}, then run `pincite eval {output}`"] if output else []),
        ]:
            say(note)
    return 0


def _matrix(
    place: GlobalOptions, questions: Path, matrix: Path, experiments: Path | None, options: dict[str, Any]
) -> int:
    """Run a matrix file and return the exit code: 3 if some runs failed. No index is needed."""
    one_heap()
    from pincite.index import Index
    from pincite.text.reports import matrix_shown

    try:
        with place.progress("preparing the runs") as progress, Index(place.project(), progress) as index:
            result = index.evaluate(questions, matrix=matrix, experiments=experiments, **options)
    except KeyboardInterrupt:
        told = "interrupted; the same command continues after the finished runs"
        raise PinciteError(told, "interrupted") from None
    place.give(result, matrix_shown)
    return 3 if result["failed"] else 0
