-- How summaries and contexts were come by, in the generations made before that was kept; and which documents
-- are restricted, so that a query need not look through all of them.
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN SELECT 'g' || lpad(generation::text, 4, '0') AS name FROM generations LOOP
        EXECUTE format(
            'ALTER TABLE %I.documents ADD COLUMN summary_method text NOT NULL DEFAULT ''extractive''', made.name);
        EXECUTE format(
            'ALTER TABLE %I.chunks ADD COLUMN context_method text NOT NULL DEFAULT ''extractive''', made.name);
        EXECUTE format('CREATE INDEX ON %I.documents (doc_id) WHERE groups <> ARRAY[]::text[]', made.name);
    END LOOP;
END $$;
