"""Checks of a graph as a whole: its interface, its constants, its function bodies, properties of its reference."""
