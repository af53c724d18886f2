"""What a model is compared with: a PyTorch module in float64, or another ONNX model."""
