-- The settings of a generation held the address of the database, which may hold a password.
UPDATE generations SET settings = settings - 'database';
