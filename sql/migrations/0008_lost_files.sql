-- Contents of files that are gone while their side-cars are left, by uri: what comes back under another name is known.
ALTER TABLE sources ADD COLUMN IF NOT EXISTS lost jsonb NOT NULL DEFAULT '{}';
