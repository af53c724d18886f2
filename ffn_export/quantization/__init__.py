"""Weight-only quantisation to 8 or 4 bits, with ONNX Runtime's quantiser."""
