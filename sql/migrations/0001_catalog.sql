-- The catalog: what is known across generations.
CREATE TABLE sources (
    name text PRIMARY KEY,
    root text NOT NULL,
    settings jsonb NOT NULL DEFAULT '{}',
    added_at timestamptz NOT NULL DEFAULT now(),
    indexed_at timestamptz
);

-- One row is the commit of one Parquet file; a file without a row does not count.
CREATE TABLE manifest (
    table_name text NOT NULL,
    key text NOT NULL,
    bucket smallint NOT NULL,
    file text NOT NULL,
    input text NOT NULL,
    output text NOT NULL,
    rows bigint NOT NULL,
    documents integer NOT NULL,
    run_id text,
    committed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (table_name, key, bucket)
);

CREATE TABLE failures (
    doc_id text NOT NULL,
    stage text NOT NULL,
    bucket smallint NOT NULL,
    source text NOT NULL,
    uri text NOT NULL,
    code text NOT NULL,
    message text NOT NULL,
    failed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (doc_id, stage)
);

CREATE TABLE generations (
    generation integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text NOT NULL,
    settings jsonb NOT NULL,
    embedder jsonb NOT NULL,
    dimension integer NOT NULL,
    statistics jsonb NOT NULL,
    built_from text,
    created_at timestamptz NOT NULL DEFAULT now(),
    built_at timestamptz,
    published_at timestamptz
);

-- The one pointer to the live generation.
CREATE TABLE live (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    generation integer NOT NULL REFERENCES generations,
    previous integer REFERENCES generations
);

CREATE TABLE costs (
    run_id text NOT NULL,
    generation integer,
    stage text NOT NULL,
    items bigint NOT NULL,
    tokens bigint NOT NULL,
    seconds double precision NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);

-- Scores of the golden questions, one row a run of them.
CREATE TABLE scores (
    generation integer NOT NULL REFERENCES generations ON DELETE CASCADE,
    at timestamptz NOT NULL DEFAULT now(),
    name text NOT NULL,
    metrics jsonb NOT NULL,
    PRIMARY KEY (generation, at, name)
);
