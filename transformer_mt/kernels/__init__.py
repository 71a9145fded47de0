"""Kernels for a GPU, in Triton: what a micro-batch does between its matrix products."""
