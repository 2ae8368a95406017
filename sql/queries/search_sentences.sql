-- Reading one generation: sentences, their edges and paragraphs. {filter} and {matching} are those of search_chunks.sql.

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

-- name: sentence_similarities
SELECT c.chunk_id, 1 - coalesce(
    (SELECT min(s.embedding <=> %(vector)s::vector) FROM {schema}.sentences AS s WHERE s.chunk_id = c.chunk_id),
    c.embedding <=> %(vector)s::vector)
FROM {schema}.chunks AS c WHERE c.chunk_id = ANY (%(chunk_ids)s::text[]);

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
       s.paragraph_length, lower(s.paragraph_span), upper(s.paragraph_span), s.lead
FROM unnest(%(chunk_ids)s::text[], %(paragraph_ids)s::text[]) AS wanted (chunk_id, paragraph_id)
JOIN {schema}.sentences AS s ON s.chunk_id = wanted.chunk_id AND wanted.paragraph_id IN ('', s.paragraph_id)
ORDER BY s.doc_id, s.ordinal;

-- name: sentences_starting
-- The same for sentences; each begins at that offset of its paragraph, or of its chunk where that is not known.
SELECT s.sentence_id, s.chunk_id, CASE WHEN s.paragraph_length > 0 THEN s.paragraph_id ELSE '' END, s.text, s.source,
       s.page, s.confidence, s.start - CASE WHEN s.paragraph_length > 0 THEN s.paragraph_start ELSE 0 END,
       d.content_hash, d.stale
FROM {schema}.sentences AS s JOIN {schema}.documents AS d USING (doc_id)
WHERE starts_with(s.sentence_id, %(prefix)s)
ORDER BY s.sentence_id
LIMIT %(most)s;

-- name: sentences_of
-- With their cosine to a vector, NULL where that is and for code, of which embedders of prose tell little.
SELECT s.chunk_id, s.text, s.page, s.lead, s.sentence_id,
       CASE WHEN s.source <> 'code' THEN 1 - (s.embedding <=> %(vector)s::vector) END, s.source
FROM {schema}.sentences AS s JOIN {schema}.documents AS d USING (doc_id)
WHERE s.chunk_id = ANY (%(chunk_ids)s::text[])
ORDER BY s.doc_id, s.ordinal;
