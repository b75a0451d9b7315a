"""Spatial terms `s(F; G)`, one per file."""
