"""Thresholds of a graph under test, and inputs with which each is met on both sides."""
