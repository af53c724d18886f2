"""Constants of a graph, traced to the parameters that they hold or were computed from, by their numbers alone."""
