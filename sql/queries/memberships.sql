-- Who is behind the principals of sources.

-- name: clock
SELECT clock_timestamp();

-- name: take
-- Where what was read is newer than what is there: of two who read, the later reading holds. A time that has yet to come
-- is that of a clock which was set back.
UPDATE pincite.sources SET memberships_at = %(at)s
WHERE name = %(source)s AND coalesce(memberships_at < %(at)s OR memberships_at > clock_timestamp() + interval '1 hour', true);

-- name: stage
CREATE TEMPORARY TABLE told_memberships (principal text, "group" text) ON COMMIT DROP;

-- name: copy
COPY pg_temp.told_memberships FROM STDIN;

-- name: drop_gone
DELETE FROM pincite.memberships AS known WHERE source = %(source)s AND NOT EXISTS (
    SELECT FROM pg_temp.told_memberships AS told WHERE (told.principal, told."group") = (known.principal, known."group"));

-- name: add
INSERT INTO pincite.memberships (source, principal, "group")
SELECT %(source)s, principal, "group" FROM pg_temp.told_memberships ON CONFLICT DO NOTHING;

-- name: forget
WITH gone AS (DELETE FROM pincite.memberships WHERE source = ANY (%(sources)s::text[]))
UPDATE pincite.sources SET memberships_at = NULL WHERE name = ANY (%(sources)s::text[]) AND memberships_at IS NOT NULL;

-- name: told
-- How many a source has, when they were read, and how many hours ago.
SELECT s.name, count(m.principal), s.memberships_at,
    extract(epoch FROM now() - s.memberships_at)::float8 / 3600
FROM pincite.sources AS s LEFT JOIN pincite.memberships AS m ON m.source = s.name
WHERE s.memberships_at IS NOT NULL GROUP BY s.name;
