-- Among how many shards the tables were parted, of how many buckets: where settings leave the number of shards open it is
-- the greatest of their buckets, and tables of another number are taken over. The sources were listed last by the one that
-- was settled on last.
CREATE TABLE IF NOT EXISTS layouts (
    buckets integer NOT NULL,
    shards integer NOT NULL,
    settled_at timestamptz,
    PRIMARY KEY (buckets, shards)
);
