"""Bundles: directories of a model, its manifest, test vectors and reports."""
