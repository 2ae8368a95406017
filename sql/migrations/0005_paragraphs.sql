-- Where the paragraph of a sentence stands in its chunk and in the body; unknown in the generations made before that
-- was kept, whose sentences show their whole chunk.
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN SELECT 'g' || lpad(generation::text, 4, '0') AS name FROM generations LOOP
        EXECUTE format(
            'ALTER TABLE %I.sentences ADD COLUMN paragraph_start integer NOT NULL DEFAULT 0, '
            'ADD COLUMN paragraph_length integer NOT NULL DEFAULT 0, '
            'ADD COLUMN paragraph_span int4range NOT NULL DEFAULT ''empty''', made.name);
        EXECUTE format('DROP INDEX IF EXISTS %I.sentences_doc_id_idx', made.name);
        EXECUTE format('CREATE INDEX ON %I.sentences (doc_id, ordinal)', made.name);
        EXECUTE format('CREATE INDEX ON %I.sentences (paragraph_id)', made.name);
    END LOOP;
END $$;
