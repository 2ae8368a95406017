-- The tables of one generation. {schema} and {dimension} are filled in; the search_path is not used.
CREATE SCHEMA {schema};

CREATE TABLE {schema}.documents (
    doc_id text PRIMARY KEY,
    bucket smallint NOT NULL,
    source text NOT NULL,
    uri text NOT NULL,
    title text NOT NULL,
    family text NOT NULL,
    language text NOT NULL,
    effective_date date,
    version text,
    groups text[] NOT NULL,
    metadata jsonb NOT NULL,
    pages integer,
    summary text NOT NULL,
    content_hash text NOT NULL,
    stale boolean NOT NULL,
    row_hash text NOT NULL,
    summary_method text NOT NULL DEFAULT 'extractive'
);
CREATE INDEX ON {schema}.documents (bucket);
CREATE INDEX ON {schema}.documents (title);
CREATE INDEX ON {schema}.documents (doc_id) WHERE groups <> ARRAY[]::text[];

-- What people call a document: words of its path, version, date and metadata (pipelines/names.py).
CREATE TABLE {schema}.document_names (
    name_id text PRIMARY KEY,
    doc_id text NOT NULL REFERENCES {schema}.documents ON DELETE CASCADE,
    term text NOT NULL
);
CREATE INDEX ON {schema}.document_names (term, doc_id);
CREATE INDEX ON {schema}.document_names (doc_id);

-- The abbreviations that a document defines; the keys are the terms of both forms (pipelines/terms.py).
CREATE TABLE {schema}.abbreviations (
    abbreviation_id text PRIMARY KEY,
    doc_id text NOT NULL REFERENCES {schema}.documents ON DELETE CASCADE,
    short text NOT NULL,
    long text NOT NULL,
    short_key text NOT NULL,
    long_key text NOT NULL,
    count integer NOT NULL
);
CREATE INDEX ON {schema}.abbreviations (short_key);
CREATE INDEX ON {schema}.abbreviations (long_key);
CREATE INDEX ON {schema}.abbreviations (doc_id);

CREATE SEQUENCE {schema}.chunk_number AS integer;

-- Rows stay whole in their page: to compress and part those over 2 KB would halve the speed of a load,
-- and a scan of vectors would have to put them together again.

CREATE TABLE {schema}.chunks (
    number integer PRIMARY KEY,
    chunk_id text NOT NULL UNIQUE,
    doc_id text NOT NULL REFERENCES {schema}.documents ON DELETE CASCADE,
    ordinal integer NOT NULL,
    section_id text NOT NULL,
    header_chain text[] NOT NULL,
    block_types text[] NOT NULL,
    text text NOT NULL,
    overlap text NOT NULL,
    context text NOT NULL,
    page_start integer,
    page_end integer,
    boxes jsonb NOT NULL,
    spans int4range[] NOT NULL,
    tokens integer NOT NULL,
    terms integer NOT NULL,
    metadata jsonb NOT NULL,
    previous_id text,
    next_id text,
    embedding vector({dimension}) NOT NULL,
    context_method text NOT NULL DEFAULT 'extractive'
) WITH (toast_tuple_target = 8160);
CREATE INDEX ON {schema}.chunks (doc_id, number);

CREATE TABLE {schema}.sentences (
    sentence_id text PRIMARY KEY,
    doc_id text NOT NULL REFERENCES {schema}.documents ON DELETE CASCADE,
    ordinal integer NOT NULL,
    chunk_id text NOT NULL,
    text text NOT NULL,
    source text NOT NULL,
    page integer,
    boxes jsonb NOT NULL,
    confidence real NOT NULL,
    start integer NOT NULL,
    length integer NOT NULL,
    paragraph_id text NOT NULL,
    section_id text NOT NULL,
    section_path text[] NOT NULL,
    previous_id text,
    next_id text,
    embedding vector({dimension}) NOT NULL,
    paragraph_start integer NOT NULL DEFAULT 0,
    paragraph_length integer NOT NULL DEFAULT 0,
    paragraph_span int4range NOT NULL DEFAULT 'empty',
    lead text NOT NULL DEFAULT ''
) WITH (toast_tuple_target = 8160);
CREATE INDEX ON {schema}.sentences (doc_id, ordinal);
CREATE INDEX ON {schema}.sentences (chunk_id);

CREATE INDEX ON {schema}.sentences (paragraph_id);

-- RELATED_TO. Comes from vectors alone; may be dropped and rebuilt without the rest.
CREATE TABLE {schema}.sentence_links (
    source_id text NOT NULL,
    target_id text NOT NULL,
    similarity real NOT NULL,
    PRIMARY KEY (source_id, target_id)
);

-- BM25 weights of a bucket's chunks, one row for a term and the groups of its documents; the query brings the idf.
-- Numbers of chunks, which rise, and their weights are packed, as int4send and float4send give them. They do not get
-- smaller by compression, which would only be tried. `blocks` has of each block of them how many it has, its first and its
-- last number, and its greatest weight or one above that, packed alike.
CREATE TABLE {schema}.postings (
    term text NOT NULL,
    bucket smallint NOT NULL,
    groups text[] NOT NULL DEFAULT '{}',
    chunks bytea NOT NULL,
    weights bytea NOT NULL,
    blocks bytea NOT NULL,
    PRIMARY KEY (term, bucket, groups)
);
ALTER TABLE {schema}.postings ALTER COLUMN chunks SET STORAGE EXTERNAL, ALTER COLUMN weights SET STORAGE EXTERNAL,
    ALTER COLUMN blocks SET STORAGE EXTERNAL;
CREATE INDEX ON {schema}.postings (bucket);

-- Frozen corpus statistics of the lexical index, by groups: in how many chunks a term stands. The average length
-- stands in generations.statistics.
CREATE TABLE {schema}.terms (
    term text NOT NULL,
    groups text[] NOT NULL DEFAULT '{}',
    documents integer NOT NULL,
    PRIMARY KEY (term, groups)
);
