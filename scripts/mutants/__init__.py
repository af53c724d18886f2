"""What `scripts/mutation.py` is made of."""
