"""Finite elements for PETSc on GPUs."""
