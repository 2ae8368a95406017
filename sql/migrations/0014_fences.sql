-- Runs that work on other buckets may do so at once: who may write is told for each bucket (-1 is all that belongs to
-- none), by numbers that all runs share. The newest run of a bucket wins.
ALTER TABLE runs
    ADD COLUMN IF NOT EXISTS bucket integer NOT NULL DEFAULT -1,
    ADD COLUMN IF NOT EXISTS run_id text NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS began timestamptz NOT NULL DEFAULT now();
ALTER TABLE runs DROP CONSTRAINT IF EXISTS runs_pkey, ADD PRIMARY KEY (name, bucket);
CREATE SEQUENCE IF NOT EXISTS run_tokens;
SELECT setval('run_tokens', 1 + greatest((SELECT coalesce(max(token), 0) FROM runs), (SELECT last_value FROM run_tokens)));
