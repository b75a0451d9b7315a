"""Rivals: one published system a file."""
