"""Model-local functions: a feed-forward as one node, bodies for vendor operators, and calls written out again."""
