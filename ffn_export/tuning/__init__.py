"""Chooses the form of a model and its session options by measuring them here."""
