-- One chunk as it is served, for `pincite explain`; read as the query role.

-- name: stored_chunk
SELECT c.number, c.text, c.terms, c.embedding::real[] AS vector, d.row_hash
FROM {schema}.chunks AS c JOIN {schema}.documents AS d USING (doc_id)
WHERE c.chunk_id = %(chunk_id)s;

-- name: links_from
-- RELATED_TO from a chunk's sentences.
SELECT l.source_id, l.target_id, target.chunk_id, l.similarity
FROM {schema}.sentence_links AS l
JOIN {schema}.sentences AS own ON own.sentence_id = l.source_id
JOIN {schema}.sentences AS target ON target.sentence_id = l.target_id
WHERE own.chunk_id = %(chunk_id)s
ORDER BY own.ordinal, l.similarity DESC, l.target_id;
