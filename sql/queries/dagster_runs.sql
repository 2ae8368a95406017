-- Statements to SQLite, in which Dagster keeps the runs of a state.

-- name: last_runs
SELECT pipeline_name, status, coalesce(start_time, unixepoch(create_timestamp)), end_time
FROM runs ORDER BY id DESC LIMIT :most;
