"""Trace the constants of a graph to the parameters that they hold or come from, by their numbers alone."""
