"""Analyze coefficient vectors c and the order of data. Functions take plain arrays and return dataclasses."""
