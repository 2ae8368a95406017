"""`pincite links`: the links RELATED_TO of an index, and the number of links at other minimum cosines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pincite.commands.options import GlobalOptions, generation_option, global_options, group_option
from pincite.console import say
from pipelines.errors import UsageError

if TYPE_CHECKING:
    from pipelines.evaluation.judging import OptionsUse


@click.command()
@click.option("--sweep", "sweeping", is_flag=True, help="Say for several floors what links there would be.")
@click.option("--thresholds", metavar="COSINES", help="With --sweep: the floors, such as 0.85,0.9,0.95.")
@click.option(
    "--golden", metavar="QUESTIONS.jsonl", type=click.Path(path_type=Path),
    help="With --sweep: score the sentence route at each floor (default: publish.golden).",
)  # fmt: skip
@click.option(
    "--with-options", is_flag=False, flag_value="lexical", default=None, type=click.Choice(["lexical", "all"]),
    help="With --sweep: join a question's options to the lexical query, or with =all everywhere.",
)  # fmt: skip
@click.option("--plot", metavar="FILE.svg", type=click.Path(path_type=Path), help="With --sweep: draw it.")
@click.option("--strongest", default=5, show_default=True, type=click.IntRange(0, 10_000), help="Links to show.")
@group_option
@generation_option("Look at")
@global_options
def links(place: GlobalOptions, sweeping: bool, strongest: int, **options: Any) -> int:
    """Show the links between related sentences.

    The report has their number, their minimum cosine, and the strongest links. With --sweep it has the numbers for
    other minimum cosines, and the scores of golden questions answered by the sentence route with those links. Nothing
    is written.
    """
    if sweeping:
        return _sweep(place, **options)
    for name in ("thresholds", "golden", "with_options", "plot"):
        if options[name] is not None:
            raise UsageError(f"--{name.replace('_', '-')} has an effect only with --sweep; add --sweep")
    from pincite.index import open_index
    from pincite.text.reports import links_shown

    with place.progress("counting links"), open_index(place.project()) as opened:
        result = opened.links(options["generation"], options["groups"], strongest)
    place.give(result, links_shown)
    return 0


def _sweep(
    place: GlobalOptions, thresholds: str | None, plot: Path | None, with_options: OptionsUse | None, **options: Any
) -> int:
    from pincite.index import open_index
    from pincite.text.reports import sweep_shown

    project, floors = place.project(), _cosines(thresholds)
    with place.progress("comparing sentences") as progress, open_index(project, progress) as opened:
        result = opened.sweep_links(floors, with_options=with_options or "none", **options)
    if plot:
        _draw(result, plot)
    place.give(result, sweep_shown)
    return 0


def _cosines(written: str | None) -> list[float]:
    try:
        return [float(part) for part in written.split(",")] if written is not None else []
    except ValueError:
        raise UsageError(
            f"--thresholds {written!r}: write cosines separated by commas, such as 0.85,0.9,0.95"
        ) from None


def _draw(result: dict[str, Any], file: Path) -> None:
    from pincite.text.reports import sweep_panels
    from pipelines.plots import figure
    from resources.private_files import for_the_user

    title = f"RELATED_TO by floor: generation {result['generation']}, {result['embedder']}"
    try:
        with for_the_user():
            file.write_text(figure(sweep_panels(result), title), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--plot {file} cannot be written; choose another file: {error.strerror or error}") from None
    say(f"drawn: {file}")
