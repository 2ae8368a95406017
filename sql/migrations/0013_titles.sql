-- Which documents have a title is asked with every answer.
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN SELECT 'g' || lpad(generation::text, 4, '0') AS name FROM generations LOOP
        IF to_regclass(format('%I.documents', made.name)) IS NOT NULL THEN
            EXECUTE format('CREATE INDEX IF NOT EXISTS documents_title_idx ON %I.documents (title)', made.name);
        END IF;
    END LOOP;
END $$;
