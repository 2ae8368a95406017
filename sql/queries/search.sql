-- Reading one generation. {filter}, {matching}, {distance} and the like stand for the fragments of those names.

-- name: begin
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: ask_in_time
SET LOCAL statement_timeout TO DEFAULT;

-- name: become_asker
-- What follows in the transaction is read as the query role, which row-level security holds to the public documents
-- and those of the asker's groups.
SET LOCAL ROLE pincite_query;

-- name: ask_for
SELECT set_config('pincite.groups', %(groups)s::text[]::text, true);

-- name: tune
-- Strict order drops what a filtered walk finds late (recall 0.77 where relaxed order has 1.0), so
-- the walk is relaxed, takes more than k, and the best k are sorted out of them. Plans are made for the
-- values at hand: a filter that is not given must cost nothing. One process adds in one order, so that
-- equal passages score equally. A language model may be waited for in the middle of the transaction: by a limit of
-- ours, since that of a server may be shorter, and without one a process that stands still would hold back vacuum.
SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true),
       set_config('hnsw.ef_search', %(ef_search)s::text, true),
       set_config('plan_cache_mode', 'force_custom_plan', true),
       set_config('max_parallel_workers_per_gather', '0', true),
       set_config('idle_in_transaction_session_timeout', '1h', true),
       set_config('jit', 'off', true);

-- name: sort
-- Where rows are secured the planner knows nothing of them, takes every array to be short, and would sort what a hash
-- adds up in less time.
SELECT set_config('enable_sort', %(sort)s, true);

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
(%(sources)s::text[] IS NULL OR d.source = ANY (%(sources)s::text[]))
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

-- name: matching
-- The chunks that match, document by document: a filter on documents then reads no chunk of the others,
-- LIMIT stops the reading, and the vector index cannot be used.
{schema}.documents AS d
CROSS JOIN LATERAL (SELECT * FROM {schema}.chunks AS own WHERE own.doc_id = d.doc_id OFFSET 0) AS c
WHERE {filter}

-- name: count_matching
SELECT count(*) FROM (SELECT FROM {matching} LIMIT %(most)s) AS found;

-- name: has_restricted
SELECT EXISTS (SELECT FROM {schema}.documents WHERE groups <> ARRAY[]::text[]);

-- name: distance
c.embedding <=> %(vector)s::vector

-- name: distance_half
-- The index is on the expression; the query must repeat the cast.
c.embedding::halfvec({dimension}) <=> %(vector)s::halfvec({dimension})

-- name: nearest
-- A relaxed walk is not sorted. The planner believes it is, so the last sort must be of another expression.
WITH found AS MATERIALIZED (
    SELECT c.chunk_id, {distance} AS distance
    FROM {schema}.chunks AS c JOIN {schema}.documents AS d USING (doc_id)
    WHERE {filter}
    ORDER BY {distance}
    LIMIT %(wide)s
)
SELECT chunk_id, 1 - distance AS score FROM found ORDER BY distance + 0, chunk_id LIMIT %(k)s;

-- name: nearest_exactly
SELECT c.chunk_id, 1 - ({distance}) AS score FROM {matching} ORDER BY {distance}, c.chunk_id LIMIT %(k)s;

-- name: sentence_distance
s.embedding <=> %(vector)s::vector

-- name: sentence_distance_half
s.embedding::halfvec({dimension}) <=> %(vector)s::halfvec({dimension})

-- name: sentence_columns
-- Without a paragraph's length, in older generations, the sentence shows its whole chunk.
s.sentence_id, s.doc_id, s.ordinal, s.chunk_id, CASE WHEN s.paragraph_length > 0 THEN s.paragraph_id ELSE '' END,
       s.text, s.source, s.page, d.pages IS NOT NULL

-- name: sentence_matching
-- As `matching`. The chunk is joined from the left, so that it is not read where no filter asks for it.
{schema}.documents AS d
CROSS JOIN LATERAL (SELECT * FROM {schema}.sentences AS own WHERE own.doc_id = d.doc_id OFFSET 0) AS s
LEFT JOIN {schema}.chunks AS c ON c.chunk_id = s.chunk_id
WHERE s.confidence >= %(least_confidence)s AND {filter}

-- name: count_sentences
SELECT count(*) FROM (SELECT FROM {sentence_matching} LIMIT %(most)s) AS found;

-- name: nearest_sentences
WITH found AS MATERIALIZED (
    SELECT s.sentence_id, {sentence_distance} AS distance
    FROM {schema}.sentences AS s
    JOIN {schema}.documents AS d ON d.doc_id = s.doc_id
    LEFT JOIN {schema}.chunks AS c ON c.chunk_id = s.chunk_id
    WHERE s.confidence >= %(least_confidence)s AND {filter}
    ORDER BY {sentence_distance}
    LIMIT %(wide)s
)
SELECT {sentence_columns}, 1 - found.distance
FROM found JOIN {schema}.sentences AS s USING (sentence_id) JOIN {schema}.documents AS d USING (doc_id)
ORDER BY found.distance + 0, s.sentence_id
LIMIT %(k)s;

-- name: nearest_sentences_exactly
SELECT {sentence_columns}, 1 - ({sentence_distance})
FROM {sentence_matching}
ORDER BY {sentence_distance}, s.sentence_id
LIMIT %(k)s;

-- name: sentences_of_chunks
SELECT {sentence_columns}, 1 - ({sentence_distance})
FROM {schema}.sentences AS s JOIN {schema}.documents AS d USING (doc_id)
LEFT JOIN {schema}.chunks AS c ON c.chunk_id = s.chunk_id
WHERE s.chunk_id = ANY (%(chunk_ids)s::text[]) AND s.confidence >= %(least_confidence)s AND {filter}
ORDER BY s.sentence_id;

-- name: expanded_sentences
-- What the edges of anchors lead to. Steps are those of reading; the other edges have none. Each sentence is
-- looked up: the planner believes that the edges are many, and would read the whole table.
WITH anchor AS MATERIALIZED (
    SELECT sentence_id, doc_id, ordinal, chunk_id, paragraph_id
    FROM {schema}.sentences WHERE sentence_id = ANY (%(anchors)s::text[])
), edge AS (
    SELECT own.sentence_id, 'anchor' AS name, anchor.sentence_id AS via, 0 AS steps, NULL::real AS similarity
    FROM anchor CROSS JOIN LATERAL (
        SELECT sentence_id FROM {schema}.sentences AS mate
        WHERE mate.paragraph_id = anchor.paragraph_id AND mate.chunk_id = anchor.chunk_id OFFSET 0
    ) AS own
    UNION ALL
    SELECT near.sentence_id, CASE WHEN near.ordinal > anchor.ordinal THEN 'next' ELSE 'previous' END,
           anchor.sentence_id, abs(near.ordinal - anchor.ordinal), NULL
    FROM anchor CROSS JOIN LATERAL (
        SELECT sentence_id, ordinal FROM {schema}.sentences AS other
        WHERE other.doc_id = anchor.doc_id AND other.ordinal <> anchor.ordinal
            AND other.ordinal BETWEEN anchor.ordinal - %(steps)s AND anchor.ordinal + %(steps)s OFFSET 0
    ) AS near
    UNION ALL
    SELECT link.target_id, 'related', anchor.sentence_id, 0, link.similarity
    FROM anchor CROSS JOIN LATERAL (
        SELECT target_id, similarity FROM {schema}.sentence_links AS own
        WHERE own.source_id = anchor.sentence_id OFFSET 0
    ) AS link
)
SELECT {sentence_columns}, 1 - ({sentence_distance}), edge.name, edge.via, edge.steps, edge.similarity
FROM edge
CROSS JOIN LATERAL (SELECT * FROM {schema}.sentences AS own WHERE own.sentence_id = edge.sentence_id OFFSET 0) AS s
JOIN {schema}.documents AS d ON d.doc_id = s.doc_id
LEFT JOIN {schema}.chunks AS c ON c.chunk_id = s.chunk_id
WHERE s.confidence >= %(least_confidence)s AND {filter}
ORDER BY s.sentence_id, edge.via, edge.name;

-- name: sentences_of_paragraphs
-- All sentences of paragraphs, or of whole chunks where the paragraph is ''.
SELECT wanted.chunk_id, wanted.paragraph_id, s.sentence_id, s.source, s.page, s.boxes, s.paragraph_start,
       s.paragraph_length, lower(s.paragraph_span), upper(s.paragraph_span)
FROM unnest(%(chunk_ids)s::text[], %(paragraph_ids)s::text[]) AS wanted (chunk_id, paragraph_id)
JOIN {schema}.sentences AS s ON s.chunk_id = wanted.chunk_id AND wanted.paragraph_id IN ('', s.paragraph_id)
ORDER BY s.doc_id, s.ordinal;

-- name: scored
-- BM25: the postings bring tf and length, the question brings idf = ln(1 + (N - df + 0.5) / (df + 0.5)).
-- Sums are made bucket by bucket, which keeps their table in the processor's cache: twice as fast.
asked AS MATERIALIZED (
    SELECT question.term,
           question.times * ln(1 + (%(chunks)s - known.df + 0.5) / (known.df + 0.5))::double precision AS idf
    FROM unnest(%(terms)s::text[], %(times)s::integer[]) AS question (term, times)
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(stored.documents), 0)::double precision AS df
        FROM {schema}.terms AS stored WHERE stored.term = question.term
    ) AS known
), held AS MATERIALIZED (
    SELECT DISTINCT stored.bucket FROM asked JOIN {schema}.postings AS stored USING (term)
)

-- name: ranked
-- The best `depth` of every bucket, each with its place there. Rounded to single precision, since the order in
-- which a plan adds up is told by the last digits: chunks that score alike would stand now so, now so.
ranked AS MATERIALIZED (
    SELECT best.number, best.score, best.place
    FROM held
    CROSS JOIN LATERAL (
        SELECT number, score, row_number() OVER () AS place FROM (
            SELECT number, sum(idf * weight)::real AS score
            FROM (
                SELECT asked.idf, unnest(stored.chunks) AS number, unnest(stored.weights) AS weight
                FROM asked JOIN {schema}.postings AS stored ON stored.term = asked.term AND stored.bucket = held.bucket
            ) AS posted
            GROUP BY number
            ORDER BY score DESC
            LIMIT %(depth)s::bigint
        ) AS sorted
    ) AS best
)

-- name: best_by_terms
-- The best `depth` of every bucket, of which the best k that match; `unseen` is the most that another
-- chunk can score.
WITH {scored}, {ranked}
SELECT c.chunk_id, ranked.score,
       coalesce((SELECT max(score) FROM ranked WHERE place = %(depth)s::bigint), 0) AS unseen
FROM ranked
JOIN {schema}.chunks AS c USING (number)
JOIN {schema}.documents AS d USING (doc_id)
WHERE {filter}
ORDER BY ranked.score DESC, c.chunk_id
LIMIT %(k)s;

-- name: best_of_all_by_terms
-- The same where every chunk matches: only the best are looked up.
WITH {scored}, {ranked}, top AS MATERIALIZED (
    SELECT number, score FROM ranked ORDER BY score DESC FETCH FIRST %(k)s ROWS WITH TIES
)
SELECT c.chunk_id, top.score,
       coalesce((SELECT max(score) FROM ranked WHERE place = %(depth)s::bigint), 0) AS unseen
FROM top JOIN {schema}.chunks AS c USING (number)
ORDER BY top.score DESC, c.chunk_id
LIMIT %(k)s;

-- name: best_among_matching
-- The same where few chunks match: only those are scored.
WITH {scored}, allowed AS MATERIALIZED (
    SELECT c.number, c.chunk_id FROM {matching}
), ranked AS (
    SELECT best.number, best.score
    FROM held
    CROSS JOIN LATERAL (
        SELECT number, sum(idf * weight)::real AS score
        FROM (
            SELECT asked.idf, unnest(stored.chunks) AS number, unnest(stored.weights) AS weight
            FROM asked JOIN {schema}.postings AS stored ON stored.term = asked.term AND stored.bucket = held.bucket
        ) AS posted
        WHERE number IN (SELECT number FROM allowed)
        GROUP BY number
    ) AS best
)
SELECT allowed.chunk_id, ranked.score
FROM ranked JOIN allowed USING (number)
ORDER BY ranked.score DESC, allowed.chunk_id
LIMIT %(k)s;

-- name: passages
SELECT c.chunk_id, c.doc_id, c.ordinal, d.source, d.uri, d.title, d.effective_date::text, d.family, c.section_id,
       c.header_chain, c.block_types, c.text, c.overlap, c.context, c.page_start, c.page_end, c.boxes,
       ARRAY(SELECT lower(span) FROM unnest(c.spans) WITH ORDINALITY AS own (span, place) ORDER BY place) AS starts,
       ARRAY(SELECT upper(span) FROM unnest(c.spans) WITH ORDINALITY AS own (span, place) ORDER BY place) AS ends,
       c.previous_id, c.next_id, c.context_method
FROM {schema}.chunks AS c JOIN {schema}.documents AS d USING (doc_id)
WHERE c.chunk_id = ANY (%(chunk_ids)s::text[]);

-- name: chunks_starting
-- Chunks by the beginning of their id, with what tells
-- whether the document's file is still the one that was indexed.
SELECT c.chunk_id, d.content_hash, d.stale
FROM {schema}.chunks AS c JOIN {schema}.documents AS d USING (doc_id)
WHERE starts_with(c.chunk_id, %(prefix)s)
ORDER BY c.chunk_id
LIMIT %(most)s;

-- name: sentences_starting
-- The same for sentences; each begins at that offset of its paragraph, or of its chunk where that is not known.
SELECT s.sentence_id, s.chunk_id, CASE WHEN s.paragraph_length > 0 THEN s.paragraph_id ELSE '' END, s.text, s.source,
       s.page, s.confidence, s.start - CASE WHEN s.paragraph_length > 0 THEN s.paragraph_start ELSE 0 END,
       d.content_hash, d.stale
FROM {schema}.sentences AS s JOIN {schema}.documents AS d USING (doc_id)
WHERE starts_with(s.sentence_id, %(prefix)s)
ORDER BY s.sentence_id
LIMIT %(most)s;

-- name: newest_date
SELECT max(effective_date)::text FROM {schema}.documents;
