"""Runs the cases on every runtime, measures their errors, and judges them."""
