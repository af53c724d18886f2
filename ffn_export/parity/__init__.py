"""How far a runtime is from the float64 oracle, judged against how far PyTorch itself is."""
