-- Reading one generation: chunks, by vectors and by terms. {filter}, {matching}, {distance} and the like stand for the
-- fragments of those names.

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

-- name: newest_date
SELECT max(effective_date)::text FROM {schema}.documents;

-- name: documents_of
-- In how many chunks each term stood when the generation froze its statistics.
SELECT term, sum(documents)::integer FROM {schema}.terms WHERE term = ANY (%(terms)s::text[]) GROUP BY term;
