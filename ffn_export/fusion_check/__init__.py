"""Runs a model and what fusing made of it, and undoes what differs."""
