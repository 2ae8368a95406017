-- Runs that Dagster launched: what they are at and what they did.

-- name: forget_old
DELETE FROM pincite.launched_runs WHERE began < now() - make_interval(days => %(days)s);

-- name: begin
INSERT INTO pincite.launched_runs (run_id, backfill, host, process, buckets)
VALUES (%(run_id)s, %(backfill)s, %(host)s, %(process)s, %(buckets)s)
ON CONFLICT (run_id) DO UPDATE
SET host = EXCLUDED.host, process = EXCLUDED.process, began = now(), ended_at = NULL;

-- name: tell
UPDATE pincite.launched_runs SET stage = %(stage)s, done = %(done)s, total = %(total)s WHERE run_id = %(run_id)s;

-- name: keep
UPDATE pincite.launched_runs SET record = %(record)s WHERE run_id = %(run_id)s;

-- name: end
UPDATE pincite.launched_runs SET ended_at = now() WHERE run_id = %(run_id)s;

-- name: of_backfill
SELECT run_id, host, process, buckets, began, stage, done, total, NULL
FROM pincite.launched_runs WHERE backfill = %(backfill)s ORDER BY began, run_id;

-- name: records
SELECT record FROM pincite.launched_runs WHERE run_id = ANY(%(run_ids)s) ORDER BY began, run_id;

-- name: at_work
-- Those whose session is there, by the name that it has; and how they hold the lock `index`, if they do: alone (-1 is
-- all that belongs to no bucket), or shared.
SELECT r.run_id, r.host, r.process, r.buckets, r.began, r.stage, r.done, r.total,
    (SELECT bool_or(held.bucket = -1) FROM pincite.runs held WHERE held.name = 'index' AND held.run_id = r.run_id)
FROM pincite.launched_runs r JOIN pg_stat_activity a ON a.application_name = %(session)s || r.run_id
WHERE a.datname = current_database() AND r.ended_at IS NULL
ORDER BY r.began, r.run_id;
