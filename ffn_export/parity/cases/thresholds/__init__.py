"""Thresholds of the graph under test, and inputs that reach both sides of each."""
