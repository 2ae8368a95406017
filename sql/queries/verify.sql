-- What `verify` reads, in one transaction. Columns are in the order of resources/index_rows.py; a vector comes
-- as the bytes that it was sent as.

-- name: schemas
-- Schemas with tables of a generation in them, whether or not the catalog knows it.
SELECT n.nspname, array_agg(c.relname::text)
FROM pg_namespace AS n JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relkind = 'r'
WHERE n.nspname ~ '^g[0-9]{4,}$'
    AND c.relname = ANY (ARRAY['documents', 'chunks', 'sentences', 'sentence_links', 'postings', 'terms'])
GROUP BY n.nspname ORDER BY n.nspname;

-- name: dimensions
SELECT c.relname::text, a.atttypmod
FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = ANY (ARRAY['chunks', 'sentences']) AND a.attname = 'embedding'
ORDER BY c.relname;

-- name: files
SELECT DISTINCT file FROM pincite.manifest WHERE file <> '';

-- name: nameless_failures
SELECT doc_id, stage, source, uri, code FROM pincite.failures
WHERE '' IN (source, uri, stage, code, message) ORDER BY doc_id, stage;

-- name: buckets
SELECT bucket FROM {schema}.documents UNION SELECT bucket FROM {schema}.postings;

-- name: documents
SELECT doc_id, bucket, source, uri, title, family, language, effective_date, version, groups, metadata, pages,
    summary, content_hash, stale, row_hash, summary_method
FROM {schema}.documents WHERE bucket = %(bucket)s;

-- name: chunks
SELECT c.number, c.chunk_id, c.doc_id, c.ordinal, c.section_id, c.header_chain, c.block_types, c.text, c.overlap,
    c.context, c.page_start, c.page_end, c.boxes, c.spans, c.tokens, c.terms, c.metadata, c.previous_id, c.next_id,
    vector_send(c.embedding) AS embedding, c.context_method
FROM {schema}.chunks AS c JOIN {schema}.documents AS d USING (doc_id) WHERE d.bucket = %(bucket)s;

-- name: sentences
SELECT s.sentence_id, s.doc_id, s.ordinal, s.chunk_id, s.text, s.source, s.page, s.boxes, s.confidence, s.start,
    s.length, s.paragraph_id, s.section_id, s.section_path, s.previous_id, s.next_id,
    vector_send(s.embedding) AS embedding, s.paragraph_start, s.paragraph_length, s.paragraph_span
FROM {schema}.sentences AS s JOIN {schema}.documents AS d USING (doc_id) WHERE d.bucket = %(bucket)s;

-- name: postings
SELECT term, groups, chunks, weights FROM {schema}.postings WHERE bucket = %(bucket)s;

-- name: term_counts
SELECT count(*), coalesce(min(documents), 0), coalesce(max(documents), 0) FROM {schema}.terms;

-- name: links
SELECT source_id, target_id, similarity FROM {schema}.sentence_links
ORDER BY source_id COLLATE "C", target_id COLLATE "C";
