"""Shared basics: tensor specifications, drawn inputs, ONNX files, test vectors, plain text."""
