"""Paired measurement of PyTorch and runtimes, and its statistics."""
