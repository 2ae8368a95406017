"""Asset checks: what must hold of the index after every run."""

import dagster as dg

from resources.workspace import Workspace


def _result(problems: list[tuple[str, str]], **metadata: int) -> dg.AssetCheckResult:
    shown = [f"{code}: {message}" for code, message in problems[:20]]
    return dg.AssetCheckResult(passed=not problems, metadata={**metadata, "problems": dg.MetadataValue.json(shown)})


@dg.asset_check(asset="chunks", description="Every document that was parsed has at least one chunk.")
def no_empty_documents(workspace: dg.ResourceParam[Workspace]) -> dg.AssetCheckResult:
    return _result(workspace.empty_documents())


@dg.asset_check(asset="indexed_documents", description="Parquet and Postgres hold the same chunks and sentences.")
def parquet_and_postgres_agree(workspace: dg.ResourceParam[Workspace]) -> dg.AssetCheckResult:
    return _result(workspace.disagreements())


@dg.asset_check(
    asset="search_index", description="RELATED_TO at most 2n, all edges at most 5n, NEXT and PREVIOUS whole."
)
def links_in_budget(workspace: dg.ResourceParam[Workspace]) -> dg.AssetCheckResult:
    return _result(workspace.link_problems())


CHECKS = [no_empty_documents, parquet_and_postgres_agree, links_in_budget]
