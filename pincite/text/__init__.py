"""Results as people read them: each function takes the JSON of a command and gives its text."""
