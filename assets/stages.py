"""The assets that make the tables of documents, from the listing of sources to vectors and links.

Each runs its stage over the buckets of the step and logs the stage's report. The work itself is in resources/stages.
"""

import dagster as dg

from assets.declare import NIGHTLY, asset, buckets_of, patient
from assets.metadata import attach, histogram, log_whole, table
from resources.generations.upkeep import restrict, restricted_whatever
from resources.reports.status import document_warnings, overlap_rows, sentence_counts
from resources.stages.make import link_sentences, list_documents, make
from resources.state.launched import request_of
from resources.state.state import State

# ---------------------------------------------------------------- documents


_SHOWN = 50
"""Most rows of a list of files or warnings that the UI shows."""


class ListingConfig(dg.Config):
    """The sources to list, by name (all if empty), and whether the run may delete most of a source."""

    sources: list[str] = []  # noqa: RUF012
    allow_deletions: bool = False


@asset("parquet", group="documents", at_once=True, freshness=NIGHTLY)
def raw_documents(context: dg.AssetExecutionContext, config: ListingConfig, state: dg.ResourceParam[State]) -> None:
    """List every file of the sources with its content hash, media type and side-car metadata."""
    asked = request_of(context.run.tags)
    sources, allow_deletions = config.sources or asked.sources, config.allow_deletions or asked.allow_deletions
    with restricted_whatever(state):
        report = list_documents(state, buckets_of(context), sources, allow_deletions)
    restrict(state)
    skipped = [{"source": item.source, "file": item.uri, "why": item.code} for item in state.listing.skipped_files]
    for told in state.listing.failing.values():
        context.log.warning(told)
    failing = [{"source": name, "why": told} for name, told in state.listing.failing.items()]
    attach(context, report, skipped=table(skipped[:_SHOWN]), sources_not_listed=table(failing))


# ---------------------------------------------------------------- structure


@asset("parquet", "python", group="structure")
def parsed_elements(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Parse documents into blocks in reading order (headings, paragraphs, lists, tables, ...), in worker processes
    under time and memory limits. Failed documents are listed; the others continue."""
    with restricted_whatever(state):
        report = make(state, "parsed_elements", buckets_of(context))
    restrict(state)
    said = [warning for warnings in document_warnings(state).values() for warning in warnings]
    attach(context, report, warnings=table(said[:_SHOWN]))


@asset("parquet", "python", group="structure", pool="llm")
def figure_descriptions(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Describe each distinct picture in words, by a vision model. The table is empty if no model has the role
    `figure`."""
    attach(context, make(state, "figure_descriptions", buckets_of(context)))


@asset("parquet", "python", group="structure")
def structural_chunks(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Cut documents into the smallest units, which are never split: paragraphs, list items, table rows, headings,
    clauses."""
    attach(context, make(state, "structural_chunks", buckets_of(context)))


# ---------------------------------------------------------------- chunks


@asset("parquet", "python", group="chunks")
@patient
def packed_chunks(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Pack structural chunks into chunks with the splitter of `chunking.strategy`. The default splitter packs
    neighbours of one section up to the token budget, never across a heading."""
    report = make(state, "packed_chunks", buckets_of(context))
    attach(context, report, tokens=histogram(state.table("packed_chunks").column("tokens"), 32))


@asset("postgres", "python", group="chunks", reads=["parsed_documents", "packed_chunks"], whole=True, completes=True)
def corpus_statistics(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Compute the facts of the whole corpus, and freeze them in the generation before its chunks are made: the
    embedder, if the documents' languages decide it, and for each language the least similarity of neighbours that
    overlap. When the size of the corpus has changed by more than `publish.drift`, they are computed again, in a new
    generation."""
    generation = state.ensure_generation()
    frozen = generation.statistics
    log_whole(
        context,
        generation.schema,
        {
            "generation": generation.generation,
            "embedder": generation.embedder["name"],
            "packed chunks": frozen["packed_chunks"],
            "documents by language": table(
                [{"language": name, "documents": n} for name, n in frozen["languages"].items()]
            ),
            "calibration": table(overlap_rows(frozen)),
        },
    )


@asset("parquet", "python", group="chunks", after=["corpus_statistics"])
@patient
def chunks(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Make the chunks that are embedded and retrieved. If neighbours are similar enough, a chunk begins with the end of
    the chunk before it."""
    generation = state.ensure_generation()
    report = make(state, "chunks", buckets_of(context))
    overlapped = _share(state.table("chunks").column("has_overlap"))
    attach(context, report, generation=generation.generation, overlapped=overlapped)


def _share(flags: list[bool]) -> float:
    return round(sum(flags) / len(flags), 4) if flags else 0.0


# ---------------------------------------------------------------- sentences


@asset("parquet", "spacy", group="sentences")
def sentences(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Split chunks into sentences, with NEXT, PREVIOUS and PART_OF (paragraph, section, chunk, document) as columns.
    The sentences that the noise rules left out are in a separate table."""
    buckets = buckets_of(context)
    attach(context, make(state, "sentences", buckets), **sentence_counts(state, buckets))


@asset("parquet", "python", group="sentences")
def abbreviations(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Find the abbreviations that documents define themselves, such as `property, plant and equipment (PP&E)`. With
    `query.abbreviations`, a question with one form also searches for the other."""
    attach(context, make(state, "abbreviations", buckets_of(context)))


# ---------------------------------------------------------------- enrichment
#
# Text that is added to a chunk before it is embedded.


@asset("parquet", "python", group="enrichment", pool="llm")
def document_summaries(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Summarise what each document is about in at most 250 characters, which are put before each of its chunks."""
    attach(context, make(state, "document_summaries", buckets_of(context)))


@asset("parquet", "python", group="enrichment", pool="llm")
def chunk_contexts(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Write one or two sentences that describe a chunk's place in its document. They are appended to the chunk when it
    is embedded."""
    attach(context, make(state, "chunk_contexts", buckets_of(context)))


# ---------------------------------------------------------------- embeddings


@asset("parquet", "pytorch", group="embeddings", pool="embedding")
@patient
def chunk_embeddings(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Make one unit vector for each chunk, from its header chain, summary, overlap, own text and context. A text that
    the same model embedded before is not embedded again."""
    generation = state.ensure_generation()
    report = make(state, "chunk_embeddings", buckets_of(context))
    attach(context, report, embedder=generation.embedder["name"], dimension=generation.dimension)


@asset("parquet", "pytorch", group="embeddings", pool="embedding")
@patient
def sentence_embeddings(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Make two unit vectors for each sentence: one from its bare text, for links, and one from its text for search. A
    text that is repeated anywhere is embedded once."""
    generation = state.ensure_generation()
    report = make(state, "sentence_embeddings", buckets_of(context))
    attach(context, report, embedder=generation.embedder["name"], dimension=generation.dimension)


@asset("parquet", "python", group="embeddings", whole=True, completes=True)
def sentence_links(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Link related sentences of different chunks (RELATED_TO) by sparse nearest neighbours. The links are exact and
    directed: at most two from a sentence, above a minimum cosine."""
    state.ensure_generation()
    attach(context, link_sentences(state))
