"""The verbs of the Python API, one module each."""
