"""What publishing did with a generation, and what readers would lose by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

Problems = list[tuple[str, str]]
"""As (code, message)."""

_NAMED = 10


@dataclass(frozen=True, slots=True)
class Missing:
    """Documents of `served` that a new generation does not hold, each as "uri (stage: code)"; `most` where they are
    too many to publish it."""

    names: Sequence[str] = ()
    served: int = 0
    most: bool = False

    def record(self) -> dict[str, Any]:
        return asdict(self)

    def note(self, generation: int) -> str:
        told = ", ".join(self.names[:_NAMED])
        if len(self.names) > _NAMED:
            told += f" and {len(self.names) - _NAMED} more, all in `pincite status --json`"
        lacks = f"{len(self.names)} of {self.served} documents that should be found in it failed: {told}"
        remedy = "raise the limit that they met or mend them, and run `pincite index --retry-failed`"
        if not self.most:
            return f"generation {generation} is published, and {lacks}. To have them again, {remedy}"
        return (
            f"generation {generation} is built but not published: {lacks}. {remedy[0].upper()}{remedy[1:]}; to publish "
            f"it all the same: `pincite generations publish {generation}`"
        )


@dataclass
class Built:
    """What publishing did; `short` is what walks of the vector indexes do not find, `unfitting` those that were larger
    than the memory that they were built in.

    Problems of the audit, `refused` by the golden questions, or `missing` most of what is served keep a generation
    from being published; so does a rollback that `held`."""

    generation: int
    published: bool
    problems: Problems
    counts: dict[str, int]
    seconds: float = 0.0
    audited: bool = False
    held: bool = False
    refused: bool = False
    missing: Missing = field(default_factory=Missing)
    comparison: list[dict[str, Any]] = field(default_factory=list)
    scored: dict[int, dict[str, Any]] = field(default_factory=dict)
    short: Sequence[str] = ()
    unfitting: Sequence[str] = ()

    @property
    def notes(self) -> list[str]:
        """Why it is not published, or what it lacks, for people."""
        notes = [f"audit: {code}: {message}" for code, message in self.problems]
        notes += self.unfitting
        if self.short:
            notes.append(
                f"searches of generation {self.generation} find what there is, but compare more of it than they should "
                f"have to, since walks of its vector indexes fall short: {'; '.join(self.short)}. Equal texts do so"
            )
        if self.held:
            notes.append(
                f"generation {self.generation} is built but not published, since a rollback holds until somebody "
                f"publishes: `pincite generations publish {self.generation}`"
            )
        if self.refused:
            notes.append(
                f"generation {self.generation} is built but not published: it answers the golden questions worse "
                f"({'; '.join(map(compared, self.comparison))}). To publish it all the same: "
                f"`pincite generations publish {self.generation} --force`"
            )
        if self.missing.most or (self.missing.names and self.published):
            notes.append(self.missing.note(self.generation))
        return notes


def compared(row: Mapping[str, Any]) -> str:
    return f"{row['metric']} {row['live']:.3f} live, {row['new']:.3f} new"
