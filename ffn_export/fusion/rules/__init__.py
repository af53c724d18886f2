"""Fused forms that a target asks for. One form a file."""
