"""The PETSc way in: forms whose pointwise functions are C bodies of the user."""
