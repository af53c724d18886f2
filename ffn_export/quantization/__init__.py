"""Weight-only quantisation: matrices stored in 8 or 4 bits, by ONNX Runtime's own quantiser."""
