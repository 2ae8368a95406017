"""Asset checks: what must hold before the next stage may build on it."""

import dagster as dg

from assets.metadata import table
from resources.checks.findings import remedy_of
from resources.checks.stages import CHECKS as CHECKED
from resources.checks.stages import DESCRIPTIONS, unlisted
from resources.checks.stages import check as find
from resources.state.state import State

_SHOWN = 20


def _check(name: str, asset: str) -> dg.AssetChecksDefinition:
    """A blocking check: what comes after the asset is not made where it fails."""

    @dg.asset_check(name=name, asset=asset, description=DESCRIPTIONS[name], blocking=True)
    def check(state: dg.ResourceParam[State]) -> dg.AssetCheckResult:
        problems = find(state, name)
        schema = state.ensure_generation().schema if problems else ""
        shown = [(code, message, remedy_of(code, schema)) for code, message in problems[:_SHOWN]]
        examples = table([dict(zip(("code", "message", "remedy"), each, strict=True)) for each in shown])
        metadata = {"problems": len(problems), "examples": examples}
        return dg.AssetCheckResult(passed=not problems, metadata=metadata)

    return check


@dg.asset_check(
    asset="raw_documents",
    description="Every source that the run was to list could be listed. Of one that could not be nothing was changed.",
)
def sources_listed(state: dg.ResourceParam[State]) -> dg.AssetCheckResult:
    """Warns: the other sources are indexed all the same."""
    failing = unlisted(state)
    told = table([{"source": name, "why": why} for name, why in failing.items()])
    return dg.AssetCheckResult(
        passed=not failing, severity=dg.AssetCheckSeverity.WARN, metadata={"sources_not_listed": told}
    )


CHECKS = [*(_check(name, asset) for name, (asset, _) in CHECKED.items()), sources_listed]
