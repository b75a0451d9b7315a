"""Rivals for node classification, one per file."""
