"""What `pincite doctor` found, in lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pincite.console import Block, block


def examined_shown(result: dict[str, Any]) -> Block:
    width = max(len(check["name"]) for check in result["checks"])
    return block([*(line for check in result["checks"] for line in _lines(check, width)), _sum(result)])


def _lines(check: dict[str, str], width: int) -> Iterator[str]:
    yield f"{check['severity']:7}  {check['name']:{width}}  {check['found']}"
    if check["remedy"]:
        yield f"{'':7}  {'':{width}}  -> {check['remedy']}"


def _sum(result: dict[str, Any]) -> str:
    counts = Counter(check["severity"] for check in result["checks"])
    told = [f"{count} {kind}{'s' * (count > 1)}" for kind in ("failure", "warning") if (count := counts[kind])]
    if result["ok"]:
        return f"pincite can work here{': ' * bool(told)}{''.join(told)}"
    return f"{' and '.join(told)}: pincite cannot work here before the failures are mended"
