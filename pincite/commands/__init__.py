"""The commands of `pincite`, a module each: options in, what `Index` gives out as text or JSON."""
