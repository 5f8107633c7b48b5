"""The text of notebooks: its cells, the names in them, answers found and carried over."""
