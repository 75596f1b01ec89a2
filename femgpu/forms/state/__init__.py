"""The cut of a Jacobian action between what depends on the state only, and may be stored, and the rest."""
