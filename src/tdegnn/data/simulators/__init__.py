"""Simulated systems whose order in time is known."""
