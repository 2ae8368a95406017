-- Documents of one generation as who asks may read them; read as the query role.

-- name: document
SELECT doc_id, source, uri, title, language, effective_date::text, version, pages, summary, metadata, content_hash,
       stale, row_hash
FROM {schema}.documents WHERE doc_id = %(doc_id)s;

-- name: summary_of
SELECT summary, summary_method FROM {schema}.documents WHERE doc_id = %(doc_id)s;

-- name: documents_after
-- In order of their ids, so that a list goes on where it ended.
SELECT doc_id, source, uri, title, language, effective_date::text, version, pages, summary, metadata, content_hash,
       stale, row_hash
FROM {schema}.documents WHERE doc_id > %(after)s ORDER BY doc_id LIMIT %(most)s;

-- name: documents_by_source
SELECT source, count(*)::integer, count(*) FILTER (WHERE stale)::integer FROM {schema}.documents
GROUP BY source ORDER BY source;

-- name: seen_documents
-- Of these documents, those that who asks may read.
SELECT doc_id FROM {schema}.documents WHERE doc_id = ANY (%(doc_ids)s::text[]);

-- name: all_seen
SELECT doc_id FROM {schema}.documents;

-- name: sentences_in_place
-- The sentences of chunks with their places; each begins at that offset of its chunk's own text.
SELECT s.chunk_id, s.sentence_id, s.text, s.start, s.page, s.boxes
FROM {schema}.sentences AS s JOIN {schema}.documents AS d USING (doc_id)
WHERE s.chunk_id = ANY (%(chunk_ids)s::text[])
ORDER BY s.doc_id, s.ordinal;
