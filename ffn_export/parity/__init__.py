"""Measure a runtime's error against the float64 oracle, and judge it by PyTorch's own error."""
