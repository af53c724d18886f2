"""Model-local functions."""
