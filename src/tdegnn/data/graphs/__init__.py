"""Graphs from edge lists, adjacency matrices and coordinates."""
