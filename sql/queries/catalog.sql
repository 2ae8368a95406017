-- The catalog: sources, manifest, failures, generations, costs, scores.

-- name: remember_source
INSERT INTO pincite.sources (name, root, settings) VALUES (%(name)s, %(root)s, %(settings)s)
ON CONFLICT (name) DO UPDATE SET settings = excluded.settings
WHERE sources.root = excluded.root AND sources.settings IS DISTINCT FROM excluded.settings;

-- name: source_root
SELECT root FROM pincite.sources WHERE name = %(name)s;

-- name: sources
SELECT name, root, settings, added_at, indexed_at FROM pincite.sources ORDER BY name;

-- name: lost_files
SELECT name, lost FROM pincite.sources;

-- name: remember_lost
UPDATE pincite.sources SET lost = %(lost)s WHERE name = %(name)s AND lost <> %(lost)s;

-- name: remove_source
DELETE FROM pincite.sources WHERE name = %(name)s;

-- name: touch_sources
UPDATE pincite.sources SET indexed_at = now() WHERE name = ANY (%(names)s::text[]);

-- name: manifest_of
SELECT table_name, key, first, after, file, whole, input, output, rows, documents, run_id, committed_at
FROM pincite.manifest WHERE table_name = %(table)s AND key = %(key)s ORDER BY first;

-- name: manifests_of
SELECT table_name, key, first, after, file, whole, input, output, rows, documents, run_id, committed_at
FROM pincite.manifest JOIN unnest(%(tables)s::text[], %(keys)s::text[]) AS wanted (table_name, key)
    USING (table_name, key)
ORDER BY table_name, first;

-- name: files_under
SELECT DISTINCT file FROM pincite.manifest WHERE file <> '' AND key = ANY (%(keys)s::text[]);

-- name: forget_commits
DELETE FROM pincite.manifest WHERE key <> ALL (%(keys)s::text[]);

-- name: forget_failures_of_keys
DELETE FROM pincite.failures WHERE key <> ALL (%(keys)s::text[]);

-- name: lock_commits
-- Commits of one key come one after the other. It ends with the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('pincite manifest ' || %(key)s, 0));

-- name: forget_overlapping
DELETE FROM pincite.manifest
WHERE table_name = ANY (%(tables)s::text[]) AND key = %(key)s AND first < %(after)s AND after > %(first)s
RETURNING table_name, key, first, after, file, whole, input, output, rows, documents, run_id, committed_at;

-- name: commit_row
INSERT INTO pincite.manifest (table_name, key, first, after, file, whole, input, output, rows, documents, run_id,
    committed_at)
VALUES (%(table)s, %(key)s, %(first)s, %(after)s, %(file)s, %(whole)s, %(input)s, %(output)s, %(rows)s, %(documents)s,
    %(run_id)s, coalesce(%(committed_at)s, now()));

-- name: forget_failures
DELETE FROM pincite.failures
WHERE stage = %(stage)s AND key = %(key)s AND doc_id COLLATE "C" >= %(first)s AND doc_id COLLATE "C" < %(after)s
    AND doc_id <> ALL (%(keep)s::text[]);

-- name: record_failure
INSERT INTO pincite.failures (doc_id, stage, key, source, uri, code, message)
VALUES (%(doc_id)s, %(stage)s, %(key)s, %(source)s, %(uri)s, %(code)s, %(message)s)
ON CONFLICT (doc_id, stage, key) DO UPDATE SET
    source = excluded.source, uri = excluded.uri, code = excluded.code, message = excluded.message, failed_at = now()
WHERE (failures.source, failures.uri, failures.code, failures.message)
    IS DISTINCT FROM (excluded.source, excluded.uri, excluded.code, excluded.message);

-- name: failures
SELECT doc_id, source, uri, stage, code, message FROM pincite.failures
WHERE key = ANY (%(keys)s::text[]) ORDER BY source, uri, stage;

-- name: generations
SELECT generation, key, settings, embedder, dimension, statistics, built_from, created_at, built_at, published_at,
    keys, verdict
FROM pincite.generations ORDER BY generation;

-- name: generation
SELECT generation, key, settings, embedder, dimension, statistics, built_from, created_at, built_at, published_at,
    keys, verdict
FROM pincite.generations WHERE generation = %(generation)s;

-- name: generation_by_key
SELECT generation, key, settings, embedder, dimension, statistics, built_from, created_at, built_at, published_at,
    keys, verdict
FROM pincite.generations WHERE key = %(key)s ORDER BY generation DESC LIMIT 1;

-- name: live_generation
SELECT generation, key, settings, embedder, dimension, statistics, built_from, created_at, built_at, published_at,
    keys, verdict
FROM pincite.generations JOIN pincite.live USING (generation);

-- name: generation_of
SELECT generation, dimension, embedder, statistics
FROM pincite.generations
WHERE generation = coalesce(%(generation)s::numeric, (SELECT generation FROM pincite.live));

-- name: create_generation
INSERT INTO pincite.generations (key, settings, embedder, dimension, statistics, keys)
VALUES (%(key)s, %(settings)s, %(embedder)s, %(dimension)s, %(statistics)s, %(keys)s)
RETURNING generation, key, settings, embedder, dimension, statistics, built_from, created_at, built_at, published_at,
    keys, verdict;

-- name: add_statistics
UPDATE pincite.generations SET statistics = statistics || %(statistics)s WHERE generation = %(generation)s
RETURNING generation, key, settings, embedder, dimension, statistics, built_from, created_at, built_at, published_at,
    keys, verdict;

-- name: mark_built
UPDATE pincite.generations SET built_from = %(built_from)s, built_at = now()
WHERE generation = %(generation)s AND built_from IS DISTINCT FROM %(built_from)s;

-- name: live
SELECT generation, previous, held FROM pincite.live;

-- name: publish
INSERT INTO pincite.live (generation, held) VALUES (%(generation)s, %(held)s)
ON CONFLICT (only_row) DO UPDATE SET
    generation = excluded.generation,
    previous = CASE WHEN live.generation = excluded.generation THEN live.previous ELSE live.generation END,
    held = excluded.held
WHERE (live.generation, live.held) IS DISTINCT FROM (excluded.generation, excluded.held);

-- name: set_verdict
UPDATE pincite.generations SET verdict = %(verdict)s
WHERE generation = %(generation)s AND verdict IS DISTINCT FROM %(verdict)s;

-- name: forget_previous
UPDATE pincite.live SET previous = NULL WHERE previous = %(generation)s;

-- name: delete_generation
DELETE FROM pincite.generations WHERE generation = %(generation)s;

-- name: mark_published
UPDATE pincite.generations SET published_at = now() WHERE generation = %(generation)s;

-- name: add_cost
INSERT INTO pincite.costs (run_id, generation, stage, items, tokens, seconds)
VALUES (%(run_id)s, %(generation)s, %(stage)s, %(items)s, %(tokens)s, %(seconds)s);

-- name: costs
SELECT stage, generation, sum(items)::bigint AS items, sum(tokens)::bigint AS tokens, sum(seconds) AS seconds
FROM pincite.costs GROUP BY stage, generation ORDER BY stage, generation;

-- name: every_cost
-- What each run spent on embedding, and each reply of a language model, with all attempts at it.
SELECT at, run_id, generation, stage, '' AS model, items, tokens, seconds, 0::double precision AS cost, '' AS currency
FROM pincite.costs
UNION ALL
SELECT at, run_id, generation, stage, model, 1, prompt_tokens + completion_tokens, NULL, cost, currency
FROM pincite.llm_replies
ORDER BY at;

-- name: costs_of_run
-- What a run spent on a stage under one key, whichever generation of that key it was for.
SELECT sum(items)::bigint AS items, sum(tokens)::bigint AS tokens, sum(seconds) AS seconds
FROM pincite.costs LEFT JOIN pincite.generations USING (generation)
WHERE run_id = %(run_id)s AND stage = %(stage)s
    AND (costs.generation = %(generation)s OR generations.keys ->> %(stage)s = %(key)s)
HAVING count(*) > 0;

-- name: add_scores
INSERT INTO pincite.scores (generation, name, metrics) VALUES (%(generation)s, %(name)s, %(metrics)s);

-- name: scores
SELECT generation, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS at, name, metrics
FROM pincite.scores ORDER BY scores.at, generation, name;
