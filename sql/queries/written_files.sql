-- Files of tables that pincite wrote into an object store.

-- name: known
SELECT EXISTS (SELECT FROM pincite.written_files);

-- name: note
-- A file that another machine takes over, without looking into it, keeps the hashes that are known.
INSERT INTO pincite.written_files (name, size, blocks) VALUES (%(name)s, %(size)s, %(blocks)s)
ON CONFLICT (name) DO UPDATE SET size = EXCLUDED.size, blocks = EXCLUDED.blocks WHERE EXCLUDED.blocks <> '';

-- name: file
SELECT size, blocks FROM pincite.written_files WHERE name = %(name)s;

-- name: below
SELECT name, size, blocks FROM pincite.written_files WHERE starts_with(name, %(folder)s);

-- name: forget
DELETE FROM pincite.written_files WHERE name = ANY(%(names)s);
