-- Writing one generation's tables, and keeping them from those who may not read them.

-- name: content_hashes
SELECT doc_id, content_hash FROM {schema}.documents WHERE doc_id >= %(first)s AND doc_id < %(after)s;

-- name: content_hashes_after
SELECT doc_id, content_hash FROM {schema}.documents WHERE doc_id > %(last)s ORDER BY doc_id LIMIT %(most)s;

-- name: served_documents
SELECT doc_id, source, content_hash, groups, uri FROM {schema}.documents
WHERE doc_id >= %(first)s AND doc_id < %(after)s ORDER BY doc_id;

-- name: document_hashes
SELECT doc_id, row_hash FROM {schema}.documents WHERE bucket = %(bucket)s;

-- name: chunk_count
SELECT count(*) FROM {schema}.chunks JOIN {schema}.documents USING (doc_id) WHERE bucket = %(bucket)s;

-- name: bucket_states
-- What stands in the tables, bucket by bucket (of all where none is named): the hashes of its documents'
-- rows, how many chunks and sentences each has, and how many rows of postings there are.
SELECT bucket, coalesce(stored.state, '') || ' ' || coalesce(posted.rows, 0)
FROM (
    SELECT d.bucket, md5(string_agg(concat_ws(' ', d.doc_id, d.row_hash,
        (SELECT count(*) FROM {schema}.chunks AS c WHERE c.doc_id = d.doc_id),
        (SELECT count(*) FROM {schema}.sentences AS s WHERE s.doc_id = d.doc_id)), E'\n' ORDER BY d.doc_id)) AS state
    FROM {schema}.documents AS d
    WHERE %(bucket)s::smallint IS NULL OR d.bucket = %(bucket)s::smallint
    GROUP BY d.bucket
) AS stored
FULL JOIN (
    SELECT p.bucket, count(*) AS rows FROM {schema}.postings AS p
    WHERE %(bucket)s::smallint IS NULL OR p.bucket = %(bucket)s::smallint
    GROUP BY p.bucket
) AS posted USING (bucket);

-- name: schema_bytes
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema_name)s AND c.relkind = 'r';

-- name: document_groups
SELECT doc_id, bucket, groups FROM {schema}.documents WHERE doc_id >= %(first)s AND doc_id < %(after)s;

-- name: regroup_document
UPDATE {schema}.documents SET groups = %(groups)s::text[], row_hash = '' WHERE doc_id = %(doc_id)s;

-- name: hold_documents
UPDATE {schema}.documents SET stale = true, row_hash = '' WHERE doc_id = ANY (%(doc_ids)s::text[]) AND NOT stale;

-- name: clear_bucket
DELETE FROM {schema}.documents WHERE bucket = %(bucket)s AND doc_id <> ALL (%(held)s::text[]);

-- name: clear_postings
DELETE FROM {schema}.postings WHERE bucket = %(bucket)s;

-- name: counts
SELECT (SELECT count(*) FROM {schema}.documents) AS documents,
    (SELECT count(*) FROM {schema}.chunks) AS chunks,
    (SELECT count(*) FROM {schema}.sentences) AS sentences,
    (SELECT count(*) FROM {schema}.sentence_links) AS sentence_links,
    (SELECT count(*) FROM {schema}.terms) AS terms;

-- name: link_count
SELECT count(*) FROM {schema}.sentence_links;

-- name: look_at_names
-- Fails where a table is gone that nothing else of an unchanged run looks at.
SELECT FROM {schema}.document_names, {schema}.abbreviations LIMIT 0;

-- name: term_count
SELECT count(*) FROM {schema}.terms;

-- name: chunk_numbers_of
SELECT number FROM {schema}.chunks WHERE doc_id = ANY (%(doc_ids)s::text[]);

-- name: chunk_numbers_in
SELECT number FROM {schema}.chunks JOIN {schema}.documents USING (doc_id) WHERE bucket = %(bucket)s;

-- name: chunk_numbers_by_groups
SELECT number, groups FROM {schema}.chunks JOIN {schema}.documents USING (doc_id) WHERE doc_id = ANY (%(doc_ids)s::text[]);

-- name: delete_documents
DELETE FROM {schema}.documents WHERE doc_id = ANY (%(doc_ids)s::text[]);

-- name: new_chunk_numbers
SELECT nextval('{schema}.chunk_number') FROM generate_series(1, %(count)s);

-- name: row_security_holds
-- Whether this user reads and writes by policies.
SELECT row_security_active('{schema}.documents');

-- name: stage_rows
CREATE TEMPORARY TABLE {table} (LIKE {schema}.{table} INCLUDING DEFAULTS);

-- name: move_staged_rows
INSERT INTO {schema}.{table} SELECT * FROM pg_temp.{table};

-- name: drop_staged_rows
DROP TABLE pg_temp.{table};

-- name: copy_rows
COPY {schema}.{table} ({columns}) FROM STDIN (FORMAT binary);

-- name: has_postings
SELECT EXISTS (SELECT FROM {schema}.postings WHERE bucket = %(bucket)s);

-- name: postings_in
-- Columns of another type are an error here.
SELECT term, groups, chunks, weights, blocks FROM {schema}.postings
WHERE bucket = %(bucket)s AND (chunks = ''::bytea, weights = ''::bytea, blocks = ''::bytea) IS NOT NULL;

-- name: stage_postings
CREATE TEMPORARY TABLE staged_postings (
    term text NOT NULL,
    bucket smallint NOT NULL,
    groups text[] NOT NULL,
    chunks bytea NOT NULL,
    weights bytea NOT NULL,
    blocks bytea NOT NULL
) ON COMMIT DROP;

-- name: drop_staged_postings
DROP TABLE IF EXISTS staged_postings;

-- name: append_postings
-- Of chunks whose numbers are above all that stand.
INSERT INTO {schema}.postings AS stored (term, bucket, groups, chunks, weights, blocks)
SELECT term, bucket, groups, chunks, weights, blocks FROM staged_postings
ON CONFLICT (term, bucket, groups) DO UPDATE SET chunks = stored.chunks || excluded.chunks,
    weights = stored.weights || excluded.weights, blocks = stored.blocks || excluded.blocks;

-- name: set_postings
INSERT INTO {schema}.postings AS stored (term, bucket, groups, chunks, weights, blocks)
SELECT term, bucket, groups, chunks, weights, blocks FROM staged_postings WHERE chunks <> ''
ON CONFLICT (term, bucket, groups) DO UPDATE SET
    chunks = excluded.chunks, weights = excluded.weights, blocks = excluded.blocks;

-- name: delete_empty_postings
DELETE FROM {schema}.postings AS stored USING staged_postings AS staged
WHERE (stored.term, stored.bucket, stored.groups) = (staged.term, staged.bucket, staged.groups) AND staged.chunks = '';

-- name: clear_terms
DELETE FROM {schema}.terms;

-- name: stage_links
CREATE TEMPORARY TABLE staged_links (
    source_id text NOT NULL,
    target_id text NOT NULL,
    similarity real NOT NULL,
    PRIMARY KEY (source_id, target_id)
) ON COMMIT DROP;

-- name: delete_links
DELETE FROM {schema}.sentence_links AS stored
WHERE NOT EXISTS (
    SELECT FROM staged_links AS staged
    WHERE (staged.source_id, staged.target_id) = (stored.source_id, stored.target_id)
);

-- name: delete_dangling_links
DELETE FROM {schema}.sentence_links AS stored
WHERE NOT EXISTS (SELECT FROM {schema}.sentences AS s WHERE s.sentence_id = stored.source_id)
    OR NOT EXISTS (SELECT FROM {schema}.sentences AS s WHERE s.sentence_id = stored.target_id);

-- name: merge_links
INSERT INTO {schema}.sentence_links AS stored (source_id, target_id, similarity)
SELECT source_id, target_id, similarity FROM staged_links
ON CONFLICT (source_id, target_id) DO UPDATE SET similarity = excluded.similarity
WHERE stored.similarity <> excluded.similarity;

-- name: index_states
-- Whether each may be walked: finished, over the right column of the right table, whole, and of the distance that
-- searches ask for.
SELECT c.relname, x.indisvalid AND x.indisready AND m.amname = 'hnsw' AND x.indpred IS NULL
    AND t.relname || '_embedding' = c.relname AND t.relnamespace = c.relnamespace AND x.indnatts = 1
    AND CASE WHEN %(half)s THEN o.opcname = 'halfvec_cosine_ops' AND pg_get_expr(x.indexprs, x.indrelid)
            = format('(embedding)::halfvec(%%s)', %(dimension)s::integer)
        ELSE o.opcname = 'vector_cosine_ops' AND a.attname IS NOT DISTINCT FROM 'embedding' END
FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_class t ON t.oid = x.indrelid JOIN pg_am m ON m.oid = c.relam JOIN pg_opclass o ON o.oid = x.indclass[0]
LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = x.indkey[0] AND x.indkey[0] > 0
WHERE n.nspname = %(schema_name)s AND c.relname = ANY (%(names)s::text[]);

-- name: maintenance_megabytes
-- What the session began with.
SELECT reset_val::bigint / 1024 FROM pg_settings WHERE name = 'maintenance_work_mem';

-- name: take_memory
SELECT set_config('maintenance_work_mem', %(megabytes)s::text || 'MB', false);

-- name: take_workers
SELECT set_config('max_parallel_maintenance_workers', %(workers)s::text, false);

-- name: row_count
SELECT count(*) FROM {schema}.{table};

-- name: drop_vector_index
DROP INDEX {schema}.{index};

-- name: drop_vector_index_concurrently
DROP INDEX CONCURRENTLY {schema}.{index};

-- name: create_vector_index
CREATE INDEX {index} ON {schema}.{table} USING hnsw (embedding vector_cosine_ops);

-- name: create_vector_index_concurrently
CREATE INDEX CONCURRENTLY {index} ON {schema}.{table} USING hnsw (embedding vector_cosine_ops);

-- name: create_half_vector_index
CREATE INDEX {index} ON {schema}.{table} USING hnsw ((embedding::halfvec({dimension})) halfvec_cosine_ops);

-- name: create_half_vector_index_concurrently
CREATE INDEX CONCURRENTLY {index} ON {schema}.{table} USING hnsw ((embedding::halfvec({dimension})) halfvec_cosine_ops);

-- name: analyze
ANALYZE {schema}.documents, {schema}.document_names, {schema}.abbreviations, {schema}.chunks, {schema}.sentences, {schema}.sentence_links, {schema}.postings,
    {schema}.terms;

-- name: methods
SELECT 'document_summaries' AS made, summary_method AS method, count(*) FROM {schema}.documents GROUP BY method
UNION ALL
SELECT 'chunk_contexts', context_method, count(*) FROM {schema}.chunks GROUP BY context_method
ORDER BY made, method;

-- name: drop_schema
DROP SCHEMA IF EXISTS {schema} CASCADE;

-- name: protect
-- Row-level security of a generation's tables.
SELECT pincite.protect(%(schema_name)s);

-- name: unprotect
-- Policies, and rights that are not the owner's, of whatever kind.
DO $$
DECLARE
    kept record;
BEGIN
    FOR kept IN
        SELECT c.relname AS name, p.polname AS policy FROM pg_policy AS p JOIN pg_class AS c ON c.oid = p.polrelid
        WHERE c.relnamespace = '{schema}'::regnamespace
    LOOP
        EXECUTE format('DROP POLICY %I ON {schema}.%I', kept.policy, kept.name);
    END LOOP;
END $$;

-- name: revoke
REVOKE ALL ON SCHEMA pincite, {schema} FROM PUBLIC, pincite_query;

-- name: revoke_tables
REVOKE ALL ON ALL TABLES IN SCHEMA pincite, {schema} FROM PUBLIC, pincite_query;

-- name: define_asker_groups
-- As sql/catalog.sql has it.
CREATE OR REPLACE FUNCTION pincite.asker_groups() RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH asker AS MATERIALIZED (
        SELECT name FROM unnest(coalesce(nullif(current_setting('pincite.groups', true), ''), '{}')::text[]) AS given (name)
        WHERE strpos(name, ',') = 0
    )
    SELECT ARRAY(
        SELECT name FROM asker
        UNION ALL
        SELECT replace(replace(m.source, '%', '%25'), ',', '%2C') || ',' || m.principal
        FROM asker JOIN pincite.memberships AS m ON m."group" = asker.name JOIN pincite.sources AS s ON s.name = m.source
        WHERE s.memberships_at >= now()
                - make_interval(secs => 3600 * nullif(current_setting('pincite.memberships_hours', true), '')::float8)
            AND s.memberships_at <= now() + interval '1 hour'
    )
$$;

-- name: revoke_asker_groups
REVOKE ALL ON FUNCTION pincite.asker_groups() FROM PUBLIC;

-- name: grant_asker_groups
GRANT EXECUTE ON FUNCTION pincite.asker_groups() TO pincite_query;

-- name: use_catalog
GRANT USAGE ON SCHEMA pincite TO pincite_query;
