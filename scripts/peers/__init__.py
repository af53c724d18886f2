"""The comparison: this package beside PyTorch, ONNX Runtime, its optimisers and OpenVINO, in one process."""
