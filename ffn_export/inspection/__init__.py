"""Inspect a model or compare two from their graphs. Nothing here runs a model."""
