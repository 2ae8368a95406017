-- The first and the last number of a document's chunks are read off an index.
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN
        SELECT schemaname AS name FROM generations
        JOIN pg_indexes ON schemaname = 'g' || lpad(generation::text, 4, '0')
        WHERE tablename = 'chunks' AND indexname = 'chunks_doc_id_idx'
    LOOP
        EXECUTE format('CREATE INDEX IF NOT EXISTS chunks_doc_id_number_idx ON %I.chunks (doc_id, number)', made.name);
        EXECUTE format('DROP INDEX %I.chunks_doc_id_idx', made.name);
    END LOOP;
END $$;
