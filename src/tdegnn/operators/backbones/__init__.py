"""Layers of published networks whose rate `B(F) - F` is a spatial term, one per file."""
