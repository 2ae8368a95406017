-- Numbers and weights of postings packed one after the other, as their own send functions give them, instead of arrays,
-- which are sent element by element.
CREATE OR REPLACE FUNCTION packed_numbers(integer[]) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT coalesce(string_agg(int4send(one.value), ''::bytea ORDER BY one.place), ''::bytea)
   FROM unnest($1) WITH ORDINALITY AS one (value, place) $$;
CREATE OR REPLACE FUNCTION packed_weights(real[]) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT coalesce(string_agg(float4send(one.value), ''::bytea ORDER BY one.place), ''::bytea)
   FROM unnest($1) WITH ORDINALITY AS one (value, place) $$;
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN
        SELECT table_schema AS name FROM generations
        JOIN information_schema.columns ON table_schema = 'g' || lpad(generation::text, 4, '0')
        WHERE table_name = 'postings' AND column_name = 'chunks' AND data_type = 'ARRAY'
    LOOP
        EXECUTE format('ALTER TABLE %I.postings '
            'ALTER COLUMN chunks TYPE bytea USING packed_numbers(chunks), ALTER COLUMN chunks SET STORAGE EXTERNAL, '
            'ALTER COLUMN weights TYPE bytea USING packed_weights(weights), ALTER COLUMN weights SET STORAGE EXTERNAL',
            made.name);
    END LOOP;
END $$;
DROP FUNCTION packed_numbers(integer[]), packed_weights(real[]);
