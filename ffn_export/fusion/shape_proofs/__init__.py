"""Shapes of values, proven from the inputs and weights of a graph."""
