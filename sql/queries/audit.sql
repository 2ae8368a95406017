-- What must hold in a generation's tables. Each statement gives the number of offenders and one of them.

-- name: orphan_chunk
SELECT count(*), min(c.chunk_id)
FROM {schema}.chunks c LEFT JOIN {schema}.documents d USING (doc_id) WHERE d.doc_id IS NULL;

-- name: orphan_sentence
SELECT count(*), min(s.sentence_id)
FROM {schema}.sentences s LEFT JOIN {schema}.chunks c ON c.chunk_id = s.chunk_id AND c.doc_id = s.doc_id
WHERE c.chunk_id IS NULL;

-- name: empty_document
SELECT count(*), min(d.source || '/' || d.uri)
FROM {schema}.documents d WHERE NOT EXISTS (SELECT FROM {schema}.chunks c WHERE c.doc_id = d.doc_id);

-- name: zero_vector
SELECT count(*), min(id) FROM (
    SELECT chunk_id AS id FROM {schema}.chunks WHERE vector_norm(embedding) = 0
    UNION ALL
    SELECT sentence_id FROM {schema}.sentences WHERE vector_norm(embedding) = 0
) AS zero;

-- name: posting_without_chunk
SELECT count(*), min(posted.number)::text
FROM (SELECT DISTINCT unnest(chunks) AS number FROM {schema}.postings) AS posted
LEFT JOIN {schema}.chunks c USING (number) WHERE c.number IS NULL;

-- name: chunk_without_postings
SELECT count(*), min(c.chunk_id)
FROM {schema}.chunks c LEFT JOIN (SELECT DISTINCT unnest(chunks) AS number FROM {schema}.postings) AS posted USING (number)
WHERE c.terms > 0 AND posted.number IS NULL;

-- name: uneven_postings
SELECT count(*), min(term) FROM {schema}.postings WHERE cardinality(chunks) <> cardinality(weights);

-- name: chunk_next_not_mutual
SELECT count(*), min(id) FROM (
    SELECT a.chunk_id AS id FROM {schema}.chunks a LEFT JOIN {schema}.chunks b ON b.chunk_id = a.next_id
    WHERE a.next_id IS NOT NULL AND (b.previous_id IS DISTINCT FROM a.chunk_id OR b.doc_id <> a.doc_id)
    UNION ALL
    SELECT a.chunk_id FROM {schema}.chunks a LEFT JOIN {schema}.chunks b ON b.chunk_id = a.previous_id
    WHERE a.previous_id IS NOT NULL AND b.next_id IS DISTINCT FROM a.chunk_id
) AS broken;

-- name: sentence_next_not_mutual
SELECT count(*), min(id) FROM (
    SELECT a.sentence_id AS id FROM {schema}.sentences a LEFT JOIN {schema}.sentences b ON b.sentence_id = a.next_id
    WHERE a.next_id IS NOT NULL AND (b.previous_id IS DISTINCT FROM a.sentence_id OR b.doc_id <> a.doc_id)
    UNION ALL
    SELECT a.sentence_id FROM {schema}.sentences a LEFT JOIN {schema}.sentences b ON b.sentence_id = a.previous_id
    WHERE a.previous_id IS NOT NULL AND b.next_id IS DISTINCT FROM a.sentence_id
) AS broken;

-- name: link_without_sentence
SELECT count(*), min(l.source_id || ' -> ' || l.target_id)
FROM {schema}.sentence_links l
LEFT JOIN {schema}.sentences a ON a.sentence_id = l.source_id
LEFT JOIN {schema}.sentences b ON b.sentence_id = l.target_id
WHERE a.sentence_id IS NULL OR b.sentence_id IS NULL OR l.source_id = l.target_id;

-- name: edges
-- Sentences; RELATED_TO; all edges, which are those, NEXT, PREVIOUS, and PART_OF of every sentence.
SELECT n, related, related + following + preceding + n
FROM (SELECT count(*) AS n, count(next_id) AS following, count(previous_id) AS preceding FROM {schema}.sentences) AS s,
    (SELECT count(*) AS related FROM {schema}.sentence_links) AS l;

-- name: sample
SELECT embedding::text FROM {schema}.{table} ORDER BY md5(ctid::text) LIMIT %(most)s;

-- name: nearest
SELECT embedding <=> %(vector)s::vector AS distance FROM {schema}.{table}
ORDER BY embedding <=> %(vector)s::vector LIMIT %(most)s;

-- name: nearest_half
SELECT embedding::halfvec({dimension}) <=> %(vector)s::halfvec({dimension}) AS distance FROM {schema}.{table}
ORDER BY embedding::halfvec({dimension}) <=> %(vector)s::halfvec({dimension}) LIMIT %(most)s;

-- name: probes
-- Vectors of chunks that stand anywhere, by which filtered searches are asked.
SELECT embedding::text FROM {schema}.chunks ORDER BY md5(ctid::text || 'filtered') LIMIT %(most)s;

-- name: sources_by_size
-- The sources with the most and with the fewest documents.
SELECT array_agg(source ORDER BY count DESC, source) FROM (
    SELECT source, count(*) FROM {schema}.documents GROUP BY source
) AS counted;

-- name: middle_date
-- Half of the dated documents are of this day or later.
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY effective_date)::text FROM {schema}.documents;

-- name: groups
SELECT array_agg(DISTINCT name ORDER BY name) FROM {schema}.documents, unnest(groups) AS name;

-- name: some_paths
-- Paths of one document in so many, whatever they are.
SELECT array_agg(uri ORDER BY uri) FROM (
    SELECT uri, row_number() OVER (ORDER BY md5(uri)) AS place FROM (SELECT DISTINCT uri FROM {schema}.documents) AS paths
) AS placed
WHERE place %% %(share)s = 1 OR %(share)s = 1;

-- name: walks
-- How often this transaction has walked a vector index; nothing where the server does not count.
SELECT pg_stat_get_xact_numscans(c.oid)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema_name)s AND c.relname = %(index_name)s AND current_setting('track_counts')::boolean;
