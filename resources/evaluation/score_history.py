"""What the golden questions scored so far, and what had changed each time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resources.postgres.catalog import Catalog

HEADLINE = ("recall@5", "accuracy_page")
_SHAPING = ("buckets", "shards", "parsing", "chunking", "sentences", "enrichment", "embedder")


def headline(run: Mapping[str, Any]) -> str:
    """The main scores of a run in a sentence, with their 95 % intervals where it has any."""
    parts = []
    for name in HEADLINE:
        value, interval = run["metrics"].get(name), (run.get("ci95") or {}).get(name)
        if value is not None:
            within = f" ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})" if interval else ""
            parts.append(f"{name} {100 * value:.1f} %{within}")
    count = f" on {run['n']} questions" if "n" in run else ""
    return (", ".join(parts) or "no question has gold in this index") + count


def last_scores(catalog: Catalog, most: int) -> list[dict[str, Any]]:
    """The last rows of scores, the newest first: generation, at, questions, the headline's metrics, and the settings
    and models in which the generation differs from the one that was scored before."""
    generations = {row.generation: row for row in catalog.generations()}
    rows = catalog.scores()
    shown = []
    for before, row in zip([None, *rows], rows, strict=False):
        now, then = generations.get(row["generation"]), generations.get(before["generation"]) if before else None
        changes = _changes(_shape(then), _shape(now)) if now and then else ()
        shown.append(
            {
                "generation": row["generation"],
                "at": row["at"][:16].replace("T", " "),
                "questions": row["name"],
                **{name: _percent(row["metrics"].get(name)) for name in HEADLINE},
                "changed": "; ".join(changes),
            }
        )
    return shown[::-1][:most]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _shape(row: Any) -> dict[str, Any]:
    """What shaped a generation, by dotted keys."""
    shaping = {name: row.settings[name] for name in _SHAPING if name in row.settings}
    return {**dict(_flat(shaping)), "model": row.embedder["name"]}


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*before, *now]):
        if before.get(name) != now.get(name):
            yield f"{name} {before.get(name)} → {now.get(name)}"
