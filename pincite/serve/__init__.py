"""`pincite serve`: the page, HTTP and MCP over one index."""
