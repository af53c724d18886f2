"""What every part uses: tensor specs, drawn inputs, ONNX files, test vectors, plain text."""
