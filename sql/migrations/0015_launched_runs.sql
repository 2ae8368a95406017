-- What runs that Dagster launched, on whatever machine, are at and what they did: `pincite index --distributed` follows
-- them by it, and `pincite status` tells it. A record is JSON, as text, since jsonb takes not all that names of files hold.
CREATE TABLE IF NOT EXISTS launched_runs (
    run_id text PRIMARY KEY,
    backfill text NOT NULL,
    host text NOT NULL,
    process integer NOT NULL,
    buckets integer[],
    began timestamptz NOT NULL DEFAULT now(),
    stage text NOT NULL DEFAULT '',
    done bigint NOT NULL DEFAULT 0,
    total bigint NOT NULL DEFAULT 0,
    ended_at timestamptz,
    record text NOT NULL DEFAULT '{}'
);
CREATE INDEX IF NOT EXISTS launched_runs_backfill_idx ON launched_runs (backfill);
