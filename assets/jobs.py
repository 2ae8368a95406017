"""Jobs."""

import dagster as dg

from assets.metadata import table
from resources.settings_file import locate
from resources.state.access import sync_state

index_job = dg.define_asset_job(
    "index",
    selection=dg.AssetSelection.all(),
    description="Everything from the listing to the published index, for all buckets.",
)

GPU = {
    "dagster-celery/queue": "gpu",
    "dagster-k8s/config": {"container_config": {"resources": {"limits": {"nvidia.com/gpu": "1"}}}},
}
"""Tags that send a run to workers with a GPU. Assets cannot carry such tags (dagster#33430), so a job does."""

embed_job = dg.define_asset_job(
    "embed",
    selection=dg.AssetSelection.assets("chunk_embeddings", "sentence_embeddings"),
    tags=GPU,
    description="Vectors alone, by workers with a GPU: of Celery's queue `gpu`, or by pods that ask for one.",
)


@dg.op(description="Reads who is behind the principals of all sources that tell it, waiting for no other run.")
def read_memberships(context: dg.OpExecutionContext) -> None:
    """Fails where a source's cannot be read, after those of the others are."""
    found = sync_state(locate())
    context.add_output_metadata({"sources": table(found)})
    if problems := [f"{item['source']}: {item['problem']}" for item in found if item["problem"]]:
        raise dg.Failure("; ".join(problems))


@dg.job(
    name="sync_access",
    description="Who is behind the principals of sources, read anew; nothing is indexed.",
    executor_def=dg.in_process_executor,
)
def access_job() -> None:
    read_memberships()
