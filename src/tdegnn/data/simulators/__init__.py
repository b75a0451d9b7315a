"""Simulated systems with a known order in time."""
