-- Failures belong to the key of their stage, as results do: two settings may stand side by side.
ALTER TABLE failures ADD COLUMN key text NOT NULL DEFAULT '';
UPDATE failures AS failed SET key = newest.key
FROM (
    SELECT DISTINCT ON (table_name, bucket) table_name, bucket, key FROM manifest
    ORDER BY table_name, bucket, committed_at DESC
) AS newest
WHERE newest.table_name = failed.stage AND newest.bucket = failed.bucket;
ALTER TABLE failures DROP CONSTRAINT failures_pkey, ADD PRIMARY KEY (doc_id, stage, key);

-- The stages' keys that a generation was made with, as code of another version cannot compute them;
-- and why a generation that is built was not published.
ALTER TABLE generations ADD COLUMN keys jsonb NOT NULL DEFAULT '{}', ADD COLUMN verdict jsonb;

-- A rollback holds: nothing is published until a person publishes.
ALTER TABLE live ADD COLUMN held boolean NOT NULL DEFAULT false;

-- The number of the run that may write. A run that lost its lock has an older one.
CREATE TABLE runs (
    name text PRIMARY KEY,
    token bigint NOT NULL
);
