"""Experiments: one file per table or figure, and what they share."""
