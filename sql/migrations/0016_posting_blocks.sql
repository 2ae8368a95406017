-- What is known of each block of a term's postings, so that blocks of common words which cannot bring a chunk among the
-- best are not read: how many it has, its first and its last number, and its greatest weight. Postings stand by rising
-- number; those of documents that were given other groups did not. Weights are above 0, so that they sort as their bytes.
CREATE OR REPLACE FUNCTION sorted_postings(numbers bytea, weights bytea, OUT numbers_sorted bytea, OUT weights_sorted bytea)
LANGUAGE sql IMMUTABLE AS $$
    WITH plain AS MATERIALIZED (SELECT numbers || ''::bytea AS n, weights || ''::bytea AS w)
    SELECT string_agg(one.n, ''::bytea ORDER BY one.n), string_agg(one.w, ''::bytea ORDER BY one.n)
    FROM (
        SELECT substr(plain.n, 4 * place + 1, 4) AS n, substr(plain.w, 4 * place + 1, 4) AS w
        FROM plain, generate_series(0, octet_length(plain.n) / 4 - 1) AS place
    ) AS one
$$;
CREATE OR REPLACE FUNCTION rising(numbers bytea) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    WITH plain AS MATERIALIZED (SELECT numbers || ''::bytea AS n)
    SELECT NOT EXISTS (
        SELECT FROM plain, generate_series(1, octet_length(plain.n) / 4 - 1) AS place
        WHERE substr(plain.n, 4 * place + 1, 4) < substr(plain.n, 4 * place - 3, 4)
    )
$$;
CREATE OR REPLACE FUNCTION posting_blocks(numbers bytea, weights bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    WITH plain AS MATERIALIZED (SELECT numbers || ''::bytea AS n, weights || ''::bytea AS w), block AS (
        SELECT place / 128 AS number, count(*)::integer AS size, max(place) AS last,
            max(encode(substr(plain.w, 4 * place + 1, 4), 'hex') COLLATE "C") AS greatest
        FROM plain, generate_series(0, octet_length(plain.n) / 4 - 1) AS place
        GROUP BY 1
    )
    SELECT coalesce(string_agg(int4send(size) || substr(n, 512 * number + 1, 4) || substr(n, 4 * last + 1, 4)
        || decode(greatest, 'hex'), ''::bytea ORDER BY number), ''::bytea)
    FROM block, plain
$$;
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN SELECT 'g' || lpad(generation::text, 4, '0') AS name FROM generations LOOP
        IF to_regclass(format('%I.postings', made.name)) IS NOT NULL THEN
            EXECUTE format('ALTER TABLE %I.postings ADD COLUMN IF NOT EXISTS blocks bytea', made.name);
            EXECUTE format('UPDATE %I.postings SET (chunks, weights) = (SELECT s.numbers_sorted, s.weights_sorted '
                'FROM sorted_postings(chunks, weights) AS s) WHERE blocks IS NULL AND NOT rising(chunks)', made.name);
            EXECUTE format('UPDATE %I.postings SET blocks = posting_blocks(chunks, weights) WHERE blocks IS NULL',
                made.name);
            EXECUTE format('ALTER TABLE %I.postings ALTER COLUMN blocks SET NOT NULL, '
                'ALTER COLUMN blocks SET STORAGE EXTERNAL', made.name);
        END IF;
    END LOOP;
END $$;
DROP FUNCTION sorted_postings(bytea, bytea), rising(bytea), posting_blocks(bytea, bytea);
