"""Formats without a reader of our own, by the library unstructured, and any other where the settings ask for it."""
