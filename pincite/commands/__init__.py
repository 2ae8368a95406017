"""The commands of `pincite`, one module for each group. A command reads options, calls `Index`, and prints the result
as text or JSON."""
