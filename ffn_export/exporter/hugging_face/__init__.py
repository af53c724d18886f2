"""Whole models from a local Hugging Face directory, by the conventions that Optimum's users know."""
