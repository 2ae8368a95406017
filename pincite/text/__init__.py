"""The output of commands as text for people: each function takes the JSON of a command and returns its text."""
