"""What a person does in the UI after a run: looks at lineage, metadata and checks, and backfills."""

from __future__ import annotations

import re
from typing import Any

import dagster as dg
from playwright.sync_api import Page, expect

from tests.support.projects import Project
from tests.support.serving import Served

GROUPS = ("documents", "structure", "chunks", "sentences", "enrichment", "embeddings", "index", "quality")
BACKFILLED = ("document_summaries", "chunk_contexts", "chunk_embeddings", "sentence_embeddings")
BUCKETS = ("01", "02")


def test_the_lineage_shows_the_groups(page: Page) -> None:
    page.goto("/asset-groups")
    expect(page.get_by_text("Global asset lineage")).to_be_visible()
    for group in GROUPS:
        expect(page.locator("foreignObject").get_by_text(group, exact=True)).to_be_visible()


def test_an_asset_shows_its_metadata(page: Page, indexed: tuple[Project, dict[str, Any]]) -> None:
    chunks = indexed[1]["chunks"]["total"]
    page.goto("/assets/packed_chunks")
    expect(page.get_by_text("Pack structural chunks")).to_be_visible()
    rows = page.get_by_text("Row count", exact=True).locator("xpath=..")
    expect(rows).to_have_text(f"Row count{chunks}")
    page.locator("tr").filter(has_text="tokens").get_by_text("[Show Markdown]").click()
    expect(page.get_by_role("dialog").get_by_role("img", name="histogram")).to_be_visible()
    histogram = page.get_by_role("dialog").locator("pre")
    expect(histogram).to_be_visible()
    bars = histogram.inner_text().splitlines()
    assert sum(int(bar.split()[-1]) for bar in bars if "█" in bar) == chunks


def test_a_check_is_green(page: Page) -> None:
    page.goto("/assets/chunks")
    page.get_by_role("tab", name="Checks").click()
    expect(page.get_by_text("no_empty_documents").first).to_be_visible()
    expect(page.get_by_text("Evaluation result")).to_be_visible()
    expect(page.get_by_text("Passed", exact=True)).to_be_visible()


def test_a_backfill_of_two_buckets_succeeds(page: Page, ui: Served) -> None:
    page.goto("/asset-groups")
    page.locator(".CodeMirror").click()
    page.keyboard.type(" or ".join(f'key:"{name}"' for name in BACKFILLED))
    page.keyboard.press("Enter")
    expect(page.locator("foreignObject").get_by_text("quality", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Materialize all").click()
    expect(page.get_by_text(f"materialize {len(BACKFILLED)} assets")).to_be_visible()
    page.get_by_text("Select a partition or create one").click()
    for bucket in BUCKETS:
        page.get_by_role("menuitem", name=bucket).click()
    page.keyboard.press("Escape")
    expect(page.get_by_text(f"{len(BUCKETS)} partitions")).to_be_visible()
    page.get_by_role("button", name="Launch backfill").click()
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.goto("/runs?view=backfills")
    backfill = page.locator("a[href^='/runs/b/']").first
    name = backfill.inner_text()
    backfill.click()
    status = page.get_by_text("Status", exact=True).locator("xpath=..")
    # The daemon looks at a backfill every 30 seconds.
    expect(status).to_have_text(re.compile("Succeeded|Failed|Canceled"))
    expect(status).to_have_text("StatusSucceeded")
    expect(page.get_by_text("100% completed")).to_have_count(len(BACKFILLED))

    with dg.DagsterInstance.from_config(str(ui.project.state / "dagster")) as instance:
        runs = instance.get_runs(dg.RunsFilter(tags={"dagster/backfill": name}))
        assert [run.status for run in runs] == [dg.DagsterRunStatus.SUCCESS] * len(runs)
        made = {
            (event.asset_key.to_user_string(), event.partition)
            for run in runs
            for record in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
            if (event := record.get_dagster_event()).asset_key
        }
    assert made == {(asset, bucket) for asset in BACKFILLED for bucket in BUCKETS}
