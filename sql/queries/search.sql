-- Reading one generation. {filter} stands for the fragment of that name.

-- name: begin
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: tune
-- Strict order drops what a filtered walk finds late (recall 0.77 where relaxed order has 1.0), so
-- the walk is relaxed, takes more than k, and the best k are sorted out of them. Plans are made for the values at hand: a filter that is not given must cost nothing. One process
-- adds in one order, so that equal passages score equally.
SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true),
       set_config('hnsw.ef_search', %(ef_search)s::text, true),
       set_config('plan_cache_mode', 'force_custom_plan', true),
       set_config('max_parallel_workers_per_gather', '0', true),
       set_config('jit', 'off', true);

-- name: compare_exactly
SELECT set_config('enable_indexscan', 'off', true),
       set_config('enable_seqscan', 'on', true),
       set_config('enable_sort', 'on', true);

-- name: walk_index
SELECT set_config('enable_seqscan', 'off', true),
       set_config('enable_sort', 'off', true);

-- name: generation_of
SELECT generation, dimension, embedder, statistics
FROM {catalog}.generations
WHERE generation = coalesce(%(generation)s::integer, (SELECT generation FROM {catalog}.live));

-- name: filter
(d.groups = ARRAY[]::text[] OR d.groups && %(groups)s::text[])
AND (%(sources)s::text[] IS NULL OR d.source = ANY (%(sources)s::text[]))
AND (%(uris)s::text[] IS NULL OR d.uri = ANY (%(uris)s::text[]))
AND (%(titles)s::text[] IS NULL OR d.title = ANY (%(titles)s::text[]))
AND (%(versions)s::text[] IS NULL OR d.version = ANY (%(versions)s::text[]))
AND (%(languages)s::text[] IS NULL OR d.language = ANY (%(languages)s::text[]))
AND (%(dated_from)s::date IS NULL OR d.effective_date >= %(dated_from)s::date)
AND (%(dated_to)s::date IS NULL OR d.effective_date <= %(dated_to)s::date)
AND (%(block_types)s::text[] IS NULL OR c.block_types && %(block_types)s::text[])
AND (%(sections)s::text[] IS NULL OR c.section_id = ANY (%(sections)s::text[]) OR c.header_chain && %(sections)s::text[])
AND (%(document_keys)s::jsonb IS NULL OR NOT EXISTS (
    SELECT FROM jsonb_each(%(document_keys)s::jsonb) AS wanted (key, accepted)
    WHERE NOT coalesce(wanted.accepted ? (d.metadata ->> wanted.key), false)))
AND (%(chunk_keys)s::jsonb IS NULL OR NOT EXISTS (
    SELECT FROM jsonb_each(%(chunk_keys)s::jsonb) AS wanted (key, accepted)
    WHERE NOT coalesce(wanted.accepted ?| string_to_array(
        coalesce(c.metadata ->> ('kv.' || wanted.key), c.metadata ->> wanted.key), E'\n'), false)));

-- name: count_matching
SELECT count(*) FROM (
    SELECT FROM {schema}.chunks AS c JOIN {schema}.documents AS d USING (doc_id)
    WHERE {filter}
    LIMIT %(most)s
) AS matching;

-- name: nearest
WITH found AS MATERIALIZED (
    SELECT c.chunk_id, c.embedding <=> %(vector)s::vector AS distance
    FROM {schema}.chunks AS c JOIN {schema}.documents AS d USING (doc_id)
    WHERE {filter}
    ORDER BY c.embedding <=> %(vector)s::vector, c.chunk_id
    LIMIT %(wide)s
)
SELECT chunk_id, 1 - distance AS score FROM found ORDER BY distance, chunk_id LIMIT %(k)s;

-- name: nearest_half
-- The index is on the expression; the query must repeat the cast.
WITH found AS MATERIALIZED (
    SELECT c.chunk_id, c.embedding::halfvec({dimension}) <=> %(vector)s::halfvec({dimension}) AS distance
    FROM {schema}.chunks AS c JOIN {schema}.documents AS d USING (doc_id)
    WHERE {filter}
    ORDER BY c.embedding::halfvec({dimension}) <=> %(vector)s::halfvec({dimension}), c.chunk_id
    LIMIT %(wide)s
)
SELECT chunk_id, 1 - distance AS score FROM found ORDER BY distance, chunk_id LIMIT %(k)s;

-- name: best_by_terms
-- BM25: the postings bring tf and length, the question brings idf = ln(1 + (N - df + 0.5) / (df + 0.5)).
WITH asked AS MATERIALIZED (
    SELECT question.term,
           question.times * ln(1 + (%(chunks)s - known.df + 0.5) / (known.df + 0.5))::double precision AS idf
    FROM unnest(%(terms)s::text[], %(times)s::integer[]) AS question (term, times)
    LEFT JOIN {schema}.terms AS stored USING (term)
    CROSS JOIN LATERAL (SELECT coalesce(stored.documents, 0)::double precision AS df) AS known
), scored AS (
    SELECT posting.number, sum(asked.idf * posting.weight) AS score
    FROM asked
    JOIN {schema}.postings AS stored USING (term)
    CROSS JOIN LATERAL unnest(stored.chunks, stored.weights) AS posting (number, weight)
    GROUP BY posting.number
), ranked AS MATERIALIZED (
    SELECT number, score FROM scored ORDER BY score DESC
)
SELECT c.chunk_id, scored.score
FROM ranked AS scored
JOIN {schema}.chunks AS c USING (number)
JOIN {schema}.documents AS d USING (doc_id)
WHERE {filter}
ORDER BY scored.score DESC, c.chunk_id
LIMIT %(k)s;

-- name: passages
SELECT c.chunk_id, c.doc_id, c.ordinal, d.source, d.uri, d.title, d.effective_date::text, d.family, c.section_id,
       c.header_chain, c.block_types, c.text, c.overlap, c.context, c.page_start, c.page_end, c.boxes,
       ARRAY(SELECT lower(span) FROM unnest(c.spans) WITH ORDINALITY AS own (span, place) ORDER BY place) AS starts,
       ARRAY(SELECT upper(span) FROM unnest(c.spans) WITH ORDINALITY AS own (span, place) ORDER BY place) AS ends,
       c.previous_id, c.next_id
FROM {schema}.chunks AS c JOIN {schema}.documents AS d USING (doc_id)
WHERE c.chunk_id = ANY (%(chunk_ids)s::text[])
  AND (d.groups = ARRAY[]::text[] OR d.groups && %(groups)s::text[]);

-- name: chunks_starting
-- Chunks by the beginning of their id, by the same rule of groups as all passages; with what tells
-- whether the document's file is still the one that was indexed.
SELECT c.chunk_id, d.content_hash, d.stale
FROM {schema}.chunks AS c JOIN {schema}.documents AS d USING (doc_id)
WHERE starts_with(c.chunk_id, %(prefix)s)
  AND (d.groups = ARRAY[]::text[] OR d.groups && %(groups)s::text[])
ORDER BY c.chunk_id
LIMIT %(most)s;

-- name: newest_date
SELECT max(effective_date)::text FROM {schema}.documents;
