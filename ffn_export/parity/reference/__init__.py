"""References that a model is verified against: a PyTorch module, another ONNX model, or test vectors."""
