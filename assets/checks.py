"""Asset checks: what must hold before the next stage may build on it."""

import dagster as dg

from assets.metadata import table
from resources.checks.stages import CHECKS as CHECKED
from resources.checks.stages import DESCRIPTIONS
from resources.checks.stages import check as find
from resources.state.state import State

_SHOWN = 20


def _check(name: str, asset: str) -> dg.AssetChecksDefinition:
    """A blocking check: what comes after the asset is not made where it fails."""

    @dg.asset_check(name=name, asset=asset, description=DESCRIPTIONS[name], blocking=True)
    def check(state: dg.ResourceParam[State]) -> dg.AssetCheckResult:
        problems = find(state, name)
        examples = table([{"code": code, "message": message} for code, message in problems[:_SHOWN]])
        metadata = {"problems": len(problems), "examples": examples}
        return dg.AssetCheckResult(passed=not problems, metadata=metadata)

    return check


CHECKS = [_check(name, asset) for name, (asset, _) in CHECKED.items()]
