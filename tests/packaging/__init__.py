"""The package as it is distributed."""
