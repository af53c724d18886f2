"""The verbs of the Python API, a module each."""
