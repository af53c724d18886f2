"""The corpus: real architectures that the fuser is tried on, and what is left of their sites in the fused file."""
