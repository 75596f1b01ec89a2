"""The scalar expression graph that pointwise functions are made of: build, find equal values, print, evaluate."""
