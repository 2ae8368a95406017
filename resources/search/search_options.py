"""The options of a search, and the forms in which commands and callers may write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipelines.errors import UsageError
from pipelines.groups import group_names
from pipelines.ports import Filters
from pipelines.settings.query import HITS


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Options for the best `k` hits that pass `filters`. None means the strategy and the rerankers of the settings, and
    the live generation."""

    k: int = HITS
    strategy: str | None = None
    rerank: tuple[str, ...] | None = None
    filters: Filters = field(default_factory=Filters)
    generation: int | None = None

    @classmethod
    def of(
        cls,
        k: int = HITS,
        strategy: str | None = None,
        rerank: str | Sequence[str] | None = None,
        filters: Sequence[str] = (),
        groups: Sequence[str] = (),
        generation: int | None = None,
    ) -> SearchOptions:
        """Return options from the forms that commands and `Index` take: rerankers also as one string with commas,
        filters as KEY=VALUE, and the asker's groups.

        Raise UsageError for a wrong form."""
        return cls(k, strategy, rerankers_from(rerank), filters_from(filters, groups), generation)


def filters_from(filters: Sequence[str], groups: Sequence[str]) -> Filters:
    """Return `KEY=VALUE` arguments as filters; several values of one key are alternatives.

    `from=DATE` and `to=DATE` bound the effective date. Raise UsageError for a wrong form."""
    equal: dict[str, tuple[str, ...]] = {}
    dates: dict[str, str | None] = {"from": None, "to": None}
    for argument in filters:
        key, sign, value = argument.partition("=")
        if not sign or not key:
            raise UsageError(f"--filter {argument!r}: write KEY=VALUE")
        if key in dates:
            dates[key] = value
        else:
            equal[key] = (*equal.get(key, ()), value)
    return Filters(equal, dates["from"], dates["to"], asked_groups(groups))


def asked_groups(groups: Sequence[str]) -> tuple[str, ...]:
    """Return an asker's groups. Raise UsageError if an item is not one group name, for example several in one
    string."""
    try:
        return group_names(list(groups)) if groups else ()
    except ValueError as error:
        raise UsageError(f"--group: {error}; give the option once for each group") from None


def rerankers_from(names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the names of rerankers from a string with commas or a sequence; None keeps the choice of the settings."""
    if names is None:
        return None
    listed = names.split(",") if isinstance(names, str) else list(names)
    return tuple(name.strip() for name in listed if name.strip())
