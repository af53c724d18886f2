"""What `scripts/measure_kernels.py` is made of."""
