"""The assets that make the tables of documents, from the listing of sources to vectors and links.

Each runs its stage over the buckets of the step and attaches what the stage reports. What a stage does is no business
of an asset.
"""

import dagster as dg

from assets.declare import asset, buckets_of, patient
from assets.metadata import attach, histogram, table
from resources.generations.upkeep import restrict, restricted_whatever
from resources.reports.status import document_warnings, overlap_rows, sentence_counts
from resources.stages.make import link_sentences, list_documents, make
from resources.state.launched import asked_of
from resources.state.state import State

# ---------------------------------------------------------------- documents
#
# The listing of every source.


_SHOWN = 50


class ListingConfig(dg.Config):
    """Which known sources to list, by name (all when empty), and whether mass deletions are meant."""

    sources: list[str] = []  # noqa: RUF012
    allow_deletions: bool = False


@asset("parquet", group="documents", at_once=True)
def raw_documents(context: dg.AssetExecutionContext, config: ListingConfig, state: dg.ResourceParam[State]) -> None:
    """Every file of the sources with its content hash, media type and side-car metadata."""
    asked = asked_of(context.run.tags)
    sources, allow_deletions = config.sources or asked.sources, config.allow_deletions or asked.allow_deletions
    with restricted_whatever(state):
        report = list_documents(state, buckets_of(context), sources, allow_deletions)
    restrict(state)
    skipped = [{"source": item.source, "file": item.uri, "why": item.code} for item in state.listing.skipped]
    for told in state.listing.failing.values():
        context.log.warning(told)
    failing = [{"source": name, "why": told} for name, told in state.listing.failing.items()]
    attach(context, report, skipped=table(skipped[:_SHOWN]), sources_not_listed=table(failing))


# ---------------------------------------------------------------- structure
#
# Documents to elements, figures with words, and the smallest units never split.


@asset("parquet", "python", group="structure")
def parsed_elements(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Blocks in reading order (headings, paragraphs, lists, tables, ...), parsed in worker processes
    under time and memory limits. A document that fails is named; the others go on."""
    with restricted_whatever(state):
        report = make(state, "parsed_elements", buckets_of(context))
    restrict(state)
    said = [warning for warnings in document_warnings(state).values() for warning in warnings]
    attach(context, report, warnings=table(said[:_SHOWN]))


@asset("parquet", "python", group="structure", pool="llm")
def figure_descriptions(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """What a model that sees says of each distinct picture; empty where the role `figure` is not given."""
    attach(context, make(state, "figure_descriptions", buckets_of(context)))


@asset("parquet", "python", group="structure")
def structural_chunks(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """The smallest units never split: paragraphs, list items, table rows, headings, clauses."""
    attach(context, make(state, "structural_chunks", buckets_of(context)))


# ---------------------------------------------------------------- chunks
#
# What is embedded and retrieved: units packed together, then with overlap where it helps.


@asset("parquet", "python", group="chunks")
@patient
def packed_chunks(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Own text of the chunks, as the splitter of `chunking.strategy` puts it together. The default packs
    neighbours of one section up to the token budget, never across a heading."""
    report = make(state, "packed_chunks", buckets_of(context))
    attach(context, report, tokens=histogram(state.table("packed_chunks").column("tokens"), 32))


@asset("postgres", "python", group="chunks", reads=["parsed_documents", "packed_chunks"], whole=True)
@patient
def corpus_statistics(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """What belongs to the whole corpus, frozen in the generation before its chunks are made: the embedder where it is
    chosen by the documents' languages, and by language the likeness from which neighbours overlap. Made anew, in a new
    generation, when the corpus has grown or shrunk past `publish.drift`."""
    generation = state.ensure_generation()
    frozen = generation.statistics
    context.set_data_version(context.asset_key, dg.DataVersion(generation.schema))
    context.add_output_metadata(
        {
            "generation": generation.generation,
            "embedder": generation.embedder["name"],
            "packed chunks": frozen["packed_chunks"],
            "documents by language": table(
                [{"language": name, "documents": n} for name, n in frozen["languages"].items()]
            ),
            "calibration": table(overlap_rows(frozen)),
        }
    )


@asset("parquet", "python", group="chunks", after=["corpus_statistics"])
@patient
def chunks(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """What is embedded and retrieved: the end of the chunk before goes in front where neighbours are
    alike enough."""
    generation = state.ensure_generation()
    report = make(state, "chunks", buckets_of(context))
    overlapped = _share(state.table("chunks").column("has_overlap"))
    attach(context, report, generation=generation.generation, overlapped=overlapped)


def _share(flags: list[bool]) -> float:
    return round(sum(flags) / len(flags), 4) if flags else 0.0


# ---------------------------------------------------------------- sentences
#
# Chunks to the sentence skeleton.


@asset("parquet", "spacy", group="sentences")
def sentences(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Sentences with NEXT and PREVIOUS, and PART_OF (paragraph, section, chunk, document) as columns; what the
    noise rules left out is a table of its own."""
    buckets = buckets_of(context)
    attach(context, make(state, "sentences", buckets), **sentence_counts(state, buckets))


# ---------------------------------------------------------------- enrichment
#
# What is added to a chunk for its vector: one summary for each document, one context for each chunk.


@asset("parquet", "python", group="enrichment", pool="llm")
def document_summaries(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """At most 250 characters that name what a document is about; put before each of its chunks."""
    attach(context, make(state, "document_summaries", buckets_of(context)))


@asset("parquet", "python", group="enrichment", pool="llm")
def chunk_contexts(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """A sentence or two that place a chunk in its document; appended when it is embedded."""
    attach(context, make(state, "chunk_contexts", buckets_of(context)))


# ---------------------------------------------------------------- embeddings
#
# Vectors under the generation's embedder, and which sentences lie near each other by them.


@asset("parquet", "pytorch", group="embeddings", pool="embedding")
@patient
def chunk_embeddings(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """One unit vector a chunk, of its header chain, summary, overlap, own text and context. A text
    embedded before by the same model is not embedded again."""
    generation = state.ensure_generation()
    report = make(state, "chunk_embeddings", buckets_of(context))
    attach(context, report, embedder=generation.embedder["name"], dimension=generation.dimension)


@asset("parquet", "pytorch", group="embeddings", pool="embedding")
@patient
def sentence_embeddings(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Two unit vectors a sentence: of its bare text, which links are made from, and of what is searched for it.
    A text repeated anywhere is embedded once."""
    generation = state.ensure_generation()
    report = make(state, "sentence_embeddings", buckets_of(context))
    attach(context, report, embedder=generation.embedder["name"], dimension=generation.dimension)


@asset("parquet", "python", group="embeddings", whole=True)
def sentence_links(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """RELATED_TO between sentences of different chunks. Sparse nearest neighbours: exact, directed, at most two from a
    sentence, over a floor of cosine."""
    state.ensure_generation()
    attach(context, link_sentences(state))
