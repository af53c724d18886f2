"""What `scripts/gpu_suite.py` is made of."""
