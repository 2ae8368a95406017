"""Jobs."""

import dagster as dg

index_job = dg.define_asset_job(
    "index",
    selection=dg.AssetSelection.all(),
    description="Everything from the listing to the published index, for all buckets.",
)
