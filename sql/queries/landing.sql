-- Statements to SQLite, in which a source that is no folder keeps what it listed and what was fetched of it.

-- name: landed_table
-- What was fetched: a row says that the file of this name in the source's folder has this content.
CREATE TABLE IF NOT EXISTS landed (
    uri TEXT PRIMARY KEY, revision TEXT NOT NULL, size INTEGER NOT NULL, content TEXT NOT NULL
) WITHOUT ROWID;

-- name: listed_table
-- The last complete listing.
CREATE TABLE IF NOT EXISTS listed (uri TEXT PRIMARY KEY, revision TEXT NOT NULL, size INTEGER) WITHOUT ROWID;

-- name: problems_table
-- Why entries of it are not there as they are listed.
CREATE TABLE IF NOT EXISTS problems (uri TEXT PRIMARY KEY, code TEXT NOT NULL, message TEXT NOT NULL) WITHOUT ROWID;

-- name: listing_table
CREATE TEMP TABLE listing (uri TEXT PRIMARY KEY, revision TEXT NOT NULL, size INTEGER) WITHOUT ROWID;

-- name: drop_listing
DROP TABLE IF EXISTS temp.listing;

-- name: add_listing
INSERT INTO temp.listing (uri, revision, size) VALUES (?, ?, ?);

-- name: forget_unlisted
DELETE FROM main.listed WHERE uri NOT IN (SELECT uri FROM temp.listing);

-- name: take_listing
INSERT OR REPLACE INTO main.listed
SELECT new.uri, new.revision, new.size FROM temp.listing AS new LEFT JOIN main.listed AS old USING (uri)
WHERE old.uri IS NULL OR old.revision <> new.revision OR old.size IS NOT new.size;

-- name: forget_problems
DELETE FROM problems;

-- name: due
-- What is listed and is not there, or not in this revision.
SELECT uri, revision, size FROM listed LEFT JOIN (SELECT uri, revision AS have FROM landed) USING (uri)
WHERE uri > :after AND (have IS NULL OR have <> revision) ORDER BY uri LIMIT :most;

-- name: listed
SELECT uri FROM listed ORDER BY uri;

-- name: is_listed
SELECT 1 FROM listed WHERE uri = ?;

-- name: landed
SELECT uri, size FROM landed;

-- name: gone
SELECT uri FROM landed WHERE uri NOT IN (SELECT uri FROM listed);

-- name: content
SELECT size, content FROM landed WHERE uri = ?;

-- name: problem
SELECT code, message FROM problems WHERE uri = ?;

-- name: add_problem
INSERT OR REPLACE INTO problems (uri, code, message) VALUES (?, ?, ?);

-- name: add_landed
INSERT OR REPLACE INTO landed (uri, revision, size, content) VALUES (?, ?, ?, ?);

-- name: forget_landed
DELETE FROM landed WHERE uri = ?;
