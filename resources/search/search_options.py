"""How a question is to be asked: what every search takes, read from what people write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipelines.errors import UsageError
from pipelines.groups import group_names
from pipelines.ports import Filters


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The best `k` hits that `filters` leave. None stands for the strategy and the rerankers of the settings, and for
    the live generation."""

    k: int = 10
    strategy: str | None = None
    rerank: tuple[str, ...] | None = None
    filters: Filters = field(default_factory=Filters)
    generation: int | None = None

    @classmethod
    def of(
        cls,
        k: int = 10,
        strategy: str | None = None,
        rerank: str | Sequence[str] | None = None,
        filters: Sequence[str] = (),
        groups: Sequence[str] = (),
        generation: int | None = None,
    ) -> SearchOptions:
        """As commands and `Index` take them: rerankers also by commas, filters as KEY=VALUE, and the asker's groups.

        Raises UsageError for a wrong form."""
        return cls(k, strategy, rerankers_from(rerank), filters_from(filters, groups), generation)


def filters_from(filters: Sequence[str], groups: Sequence[str]) -> Filters:
    """`KEY=VALUE` arguments as filters; several values of one key are alternatives.

    `from=DATE` and `to=DATE` bound the effective date. Raises UsageError for a wrong form."""
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
    """Groups of an asker. Raises UsageError for what is no name of a group, such as several in one."""
    try:
        return group_names(list(groups)) if groups else ()
    except ValueError as error:
        raise UsageError(f"--group: {error}; give the option once for each group") from None


def rerankers_from(names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Names by commas, or a sequence; None leaves the settings' choice."""
    if names is None:
        return None
    listed = names.split(",") if isinstance(names, str) else list(names)
    return tuple(name.strip() for name in listed if name.strip())
