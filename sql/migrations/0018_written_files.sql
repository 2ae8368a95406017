-- Files of tables that pincite wrote into an object store, in which others may write too: no other is looked through for
-- vectors and replies. `blocks` are the hashes of a file's pieces of 64 KiB, 16 bytes each, so that a part of it can be read
-- and checked; empty where the file was there before the database knew of any.
CREATE TABLE IF NOT EXISTS written_files (
    name text PRIMARY KEY,
    size bigint NOT NULL,
    blocks bytea NOT NULL
);
