-- RELATED_TO as it stands, for `pincite links`.

-- name: counts
-- Sentences; links; sentences that a link begins at; links between documents; links between texts that are equal
-- but for case.
SELECT (SELECT count(*) FROM {schema}.sentences), count(*), count(DISTINCT l.source_id),
    count(*) FILTER (WHERE a.doc_id <> b.doc_id), count(*) FILTER (WHERE lower(a.text) = lower(b.text))
FROM {schema}.sentence_links AS l
JOIN {schema}.sentences AS a ON a.sentence_id = l.source_id
JOIN {schema}.sentences AS b ON b.sentence_id = l.target_id;

-- name: strongest
-- Between documents, and texts that differ; one of links that say the same.
WITH pair AS (
    SELECT DISTINCT ON (least(lower(a.text), lower(b.text)), greatest(lower(a.text), lower(b.text)))
        l.similarity, l.source_id, l.target_id
    FROM {schema}.sentence_links AS l
    JOIN {schema}.sentences AS a ON a.sentence_id = l.source_id
    JOIN {schema}.sentences AS b ON b.sentence_id = l.target_id
    WHERE a.doc_id <> b.doc_id AND lower(a.text) <> lower(b.text)
    ORDER BY least(lower(a.text), lower(b.text)), greatest(lower(a.text), lower(b.text)), l.similarity DESC, l.source_id, l.target_id
)
SELECT round(pair.similarity::numeric, 6)::double precision,
    a.sentence_id, a.chunk_id, a.text, a.page, da.source, da.uri,
    b.sentence_id, b.chunk_id, b.text, b.page, db.source, db.uri
FROM pair
JOIN {schema}.sentences AS a ON a.sentence_id = pair.source_id
JOIN {schema}.sentences AS b ON b.sentence_id = pair.target_id
JOIN {schema}.documents AS da ON da.doc_id = a.doc_id
JOIN {schema}.documents AS db ON db.doc_id = b.doc_id
ORDER BY pair.similarity DESC, pair.source_id, pair.target_id
LIMIT %(most)s;
