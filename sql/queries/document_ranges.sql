-- The move of commits and failures from numbers of shards to ranges of document ids (migration 19).

-- name: hold
-- In the order in which a run writes, so that a run of an older version that is still writing is waited for.
LOCK TABLE pincite.failures, pincite.manifest, pincite.layouts, pincite.generations IN ACCESS EXCLUSIVE MODE;

-- name: sharded_commits
SELECT table_name, key, bucket, file, input, output, rows, documents, run_id, committed_at
FROM pincite.manifest ORDER BY table_name, key, bucket;

-- name: failures
SELECT doc_id, stage, key FROM pincite.failures ORDER BY doc_id, stage, key;

-- name: layouts
SELECT buckets * shards, settled_at FROM pincite.layouts ORDER BY settled_at DESC NULLS LAST;

-- name: generations
SELECT generation, key, settings, embedder, statistics, keys FROM pincite.generations ORDER BY generation;

-- name: copy_commits
COPY pincite.manifest (table_name, key, first, after, file, whole, input, output, rows, documents, run_id, committed_at)
FROM STDIN;

-- name: drop_failure
DELETE FROM pincite.failures WHERE doc_id = %(doc_id)s AND stage = %(stage)s AND key = %(key)s;

-- name: move_failures
UPDATE pincite.failures SET key = %(new)s WHERE key = %(old)s;

-- name: move_generation
UPDATE pincite.generations SET key = %(key)s, keys = %(keys)s, statistics = %(statistics)s
WHERE generation = %(generation)s;
