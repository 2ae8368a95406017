"""Sources that are no folder: what each lists, and how its documents are read."""
