-- What stands above a sentence and must be read with it; empty in generations made before that was kept.
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN SELECT 'g' || lpad(generation::text, 4, '0') AS name FROM generations LOOP
        EXECUTE format('ALTER TABLE IF EXISTS %I.sentences ADD COLUMN IF NOT EXISTS lead text NOT NULL DEFAULT ''''',
            made.name);
    END LOOP;
END $$;
