-- Reading one generation: chunks, by vectors and by terms. {filter}, {matching}, {distance} and the like stand for the
-- fragments of those names.

-- name: is_number
-- Each use of this and the next fragments has parameters of its own in place of those named `bound`.
length(d.metadata ->> %(bound_key)s::text) <= 62 AND d.metadata ->> %(bound_key)s::text ~ '^[+-]?[0-9]+([.][0-9]+)?$'

-- name: is_day
-- A year, month, day or time in ISO form.
d.metadata ->> %(bound_key)s::text ~ '^[0-9]{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01])([T ].*)?)?)?$'

-- name: as_day
-- Its first day. It stays text, since a cast of what others wrote may fail.
left((d.metadata ->> %(bound_key)s::text) || substr('0000-01-01', length(d.metadata ->> %(bound_key)s::text) + 1), 10)
    COLLATE "C"

-- name: within
-- Most values are outside, so what is cheap is asked first.
CASE
    WHEN %(bound_numbers)s::numrange IS NOT NULL AND {is_number}
        THEN (d.metadata ->> %(bound_key)s::text)::numeric <@ %(bound_numbers)s::numrange
    WHEN %(bound_first)s::text IS NOT NULL
        THEN {as_day} BETWEEN %(bound_first)s::text AND %(bound_last)s::text AND {is_day}
END IS TRUE

-- name: document_filter
(%(sources)s::text[] IS NULL OR d.source = ANY (%(sources)s::text[]))
AND (%(uris)s::text[] IS NULL OR d.uri = ANY (%(uris)s::text[]))
AND (%(titles)s::text[] IS NULL OR d.title = ANY (%(titles)s::text[]))
AND (%(versions)s::text[] IS NULL OR d.version = ANY (%(versions)s::text[]))
AND (%(languages)s::text[] IS NULL OR d.language = ANY (%(languages)s::text[]))
AND (%(doc_ids)s::text[] IS NULL OR d.doc_id = ANY (%(doc_ids)s::text[]))
AND (%(document_keys)s::jsonb IS NULL OR NOT EXISTS (
    SELECT FROM jsonb_each(%(document_keys)s::jsonb) AS wanted (key, accepted)
    WHERE NOT coalesce(wanted.accepted ? (d.metadata ->> wanted.key), false)))

-- name: filter
{document_filter}
AND (%(dated_from)s::date IS NULL OR d.effective_date >= %(dated_from)s::date
    OR d.effective_date IS NULL AND {own_day} >= to_char(%(dated_from)s::date, 'YYYY-MM-DD') AND {has_day})
AND (%(dated_to)s::date IS NULL OR d.effective_date <= %(dated_to)s::date
    OR d.effective_date IS NULL AND {own_day} <= to_char(%(dated_to)s::date, 'YYYY-MM-DD') AND {has_day})
AND {bounds}
AND (%(block_types)s::text[] IS NULL OR c.block_types && %(block_types)s::text[])
AND (%(sections)s::text[] IS NULL OR c.section_id = ANY (%(sections)s::text[]) OR c.header_chain && %(sections)s::text[])
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

-- name: without_value
-- Of the documents that pass the other conditions on documents, how many have no value for a bound, and how many were
-- looked at.
SELECT count(*) FILTER (WHERE (
    (%(bound_numbers)s::numrange IS NOT NULL AND {is_number}) OR (%(bound_first)s::text IS NOT NULL AND {is_day})
) IS NOT TRUE), count(*)
FROM (SELECT d.metadata FROM {schema}.documents AS d WHERE {document_filter} LIMIT %(most)s) AS d;

-- name: undated
-- The same for dates.
SELECT count(*) FILTER (WHERE d.effective_date IS NULL AND ({has_day}) IS NOT TRUE), count(*)
FROM (SELECT d.effective_date, d.metadata FROM {schema}.documents AS d WHERE {document_filter} LIMIT %(most)s) AS d;

-- name: values_of
-- How many documents were looked at, and some of their values of a key.
WITH looked_at AS (
    SELECT CASE %(named)s::text WHEN 'source' THEN d.source WHEN 'language' THEN d.language
        ELSE left(d.metadata ->> %(named)s::text, 200) END AS value
    FROM {schema}.documents AS d WHERE {document_filter} LIMIT %(most)s
)
SELECT (SELECT count(*) FROM looked_at),
    ARRAY(SELECT DISTINCT value FROM looked_at WHERE value IS NOT NULL ORDER BY value LIMIT %(most_values)s);

-- name: block_types
-- The same for the kinds of blocks in chunks.
WITH looked_at AS (
    SELECT c.block_types
    FROM {schema}.documents AS d JOIN {schema}.chunks AS c ON c.doc_id = d.doc_id
    WHERE {document_filter} LIMIT %(most)s
)
SELECT (SELECT count(*) FROM looked_at),
    ARRAY(SELECT DISTINCT kind FROM looked_at, unnest(block_types) AS kind ORDER BY kind LIMIT %(most_values)s);

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

-- name: posting_rows
-- The rows of the terms that the asker may find: what is known of their blocks, and numbers and weights of short rows, or
-- of all where there are not many in all. Columns of another type are an error.
SELECT term, bucket, groups, place, size, blocks, CASE WHEN wanted THEN chunks END, CASE WHEN wanted THEN weights END
FROM (
    SELECT term, bucket, groups, ctid::text AS place, octet_length(chunks) / 4 AS size, blocks, chunks, weights,
        octet_length(chunks) <= 4 * %(short)s OR sum(octet_length(chunks)) OVER () <= 4 * %(together)s AS wanted
    FROM {schema}.postings
    WHERE term = ANY (%(terms)s::text[]) AND (chunks = ''::bytea, weights = ''::bytea, blocks = ''::bytea) IS NOT NULL
) AS posted;

-- name: posting_slices
-- Parts of such rows, of which the server fetches no more from where long values stand. Each row is found by its place,
-- which is the same as long as the transaction lasts.
SELECT asked.turn, substr(p.chunks, 4 * asked.start + 1, 4 * asked.size),
    substr(p.weights, 4 * asked.start + 1, 4 * asked.size)
FROM unnest(%(rows)s::text[]::tid[], %(starts)s::integer[], %(sizes)s::integer[])
    WITH ORDINALITY AS asked (row, start, size, turn)
JOIN {schema}.postings AS p ON p.ctid = asked.row;

-- name: chunks_numbered
SELECT number, chunk_id FROM {schema}.chunks WHERE number = ANY (%(numbers)s::integer[]);

-- name: matching_numbered
SELECT c.number, c.chunk_id FROM {schema}.chunks AS c JOIN {schema}.documents AS d USING (doc_id)
WHERE c.number = ANY (%(numbers)s::integer[]) AND {filter};

-- name: matching_numbers
SELECT c.number, c.chunk_id FROM {matching};

-- name: similarities
SELECT chunk_id, 1 - (embedding <=> %(vector)s::vector) FROM {schema}.chunks WHERE chunk_id = ANY (%(chunk_ids)s::text[]);

-- name: numbers_of
SELECT number, chunk_id FROM {schema}.chunks WHERE chunk_id = ANY (%(chunk_ids)s::text[]);

-- name: surroundings
-- Numbers and sizes of chunks, and of those before and after them in their document.
SELECT c.chunk_id, array_agg(own.number ORDER BY own.number), array_agg(own.terms ORDER BY own.number)
FROM {schema}.chunks AS c
JOIN {schema}.chunks AS own ON own.doc_id = c.doc_id AND own.number BETWEEN c.number - 1 AND c.number + 1
WHERE c.chunk_id = ANY (%(chunk_ids)s::text[])
GROUP BY c.chunk_id ORDER BY c.chunk_id;

-- name: documents_of_chunks
-- Chunks of a document are written together, so that their numbers follow each other.
SELECT d.doc_id, d.uri, found.chunk_ids, least.number, greatest.number
FROM (
    SELECT doc_id, array_agg(chunk_id) AS chunk_ids
    FROM {schema}.chunks WHERE chunk_id = ANY (%(chunk_ids)s::text[]) GROUP BY doc_id
) AS found
JOIN {schema}.documents AS d USING (doc_id)
CROSS JOIN LATERAL (
    SELECT number FROM {schema}.chunks AS own WHERE own.doc_id = d.doc_id ORDER BY number LIMIT 1
) AS least
CROSS JOIN LATERAL (
    SELECT number FROM {schema}.chunks AS own WHERE own.doc_id = d.doc_id ORDER BY number DESC LIMIT 1
) AS greatest
ORDER BY d.doc_id;

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

-- name: documents_by_chunk
SELECT chunk_id, doc_id FROM {schema}.chunks WHERE chunk_id = ANY (%(chunk_ids)s::text[]);

-- name: bearers
-- How many documents that the asker may see bear each of these names, `most` at the most.
SELECT asked.term, borne.number
FROM unnest(%(terms)s::text[]) AS asked (term)
CROSS JOIN LATERAL (
    SELECT count(*) AS number FROM (
        SELECT FROM {schema}.document_names AS n WHERE n.term = asked.term LIMIT %(most)s
    ) AS found
) AS borne
WHERE borne.number > 0;

-- name: count_documents
SELECT count(*) FROM (SELECT FROM {schema}.documents LIMIT %(most)s) AS found;

-- name: named_documents
-- The documents whose names weigh most, of those that pass the conditions on documents.
SELECT d.doc_id, sum(asked.weight)::float8 AS weight
FROM unnest(%(terms)s::text[], %(weights)s::float8[]) AS asked (term, weight)
JOIN {schema}.document_names AS n USING (term)
JOIN {schema}.documents AS d USING (doc_id)
WHERE {document_filter}
GROUP BY d.doc_id
ORDER BY weight DESC, d.doc_id
LIMIT %(k)s;

-- name: abbreviations
-- The abbreviations with one of these keys as either form, and in how many documents that the asker may see each is
-- defined.
SELECT short, long, short_key, long_key, count(*) AS documents
FROM {schema}.abbreviations
WHERE short_key = ANY (%(keys)s::text[]) OR long_key = ANY (%(keys)s::text[])
GROUP BY short, long, short_key, long_key
ORDER BY documents DESC, short, long
LIMIT %(most)s;

-- name: newest_date
SELECT max(effective_date)::text FROM {schema}.documents;

-- name: shared_titles
SELECT title FROM {schema}.documents WHERE title = ANY (%(titles)s::text[]) GROUP BY title HAVING count(*) > 1;

-- name: documents_of
-- In how many chunks each term stood when the generation froze its statistics.
SELECT term, sum(documents)::integer FROM {schema}.terms WHERE term = ANY (%(terms)s::text[]) GROUP BY term;
