"""Checks of a whole graph: interface, constants, function bodies, and properties of the reference."""
