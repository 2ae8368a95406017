-- A row covers a range of document ids, and no number of files is part of a key: resources/postgres/document_ranges.py reads
-- the rows before this, and writes them again after it, in the same transaction.
DROP TABLE manifest;
CREATE TABLE manifest (
    table_name text NOT NULL,
    key text NOT NULL,
    first text COLLATE "C" NOT NULL,
    after text COLLATE "C" NOT NULL,
    file text NOT NULL,
    whole boolean NOT NULL DEFAULT true,
    input text NOT NULL,
    output text NOT NULL,
    rows bigint NOT NULL,
    documents integer NOT NULL,
    run_id text,
    committed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (table_name, key, first),
    CHECK (first < after)
);
ALTER TABLE failures DROP COLUMN bucket;
DROP TABLE layouts;
