"""Quantisation by the user's samples: statistics of activations, metrics, and the choice of products."""
