"""Connectors for sources that are not folders: their listings, and the reading of their documents."""
