"""Module -> ONNX with dynamic axes, and the checks of what came out."""
