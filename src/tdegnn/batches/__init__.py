"""Batches of a graph: which nodes a step of a training sees."""
