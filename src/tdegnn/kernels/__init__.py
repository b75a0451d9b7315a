"""Kernels for CUDA devices, written in Triton, for what takes torch several passes over memory or many small calls."""
