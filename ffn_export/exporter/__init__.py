"""Export a module to ONNX with symbolic axes, and check the result."""
