"""The front end: UFL forms and expressions to records. Names of the package `ufl` itself are imported absolutely."""
