"""Feed-forwards by rows: biases inside the products, row chunks in a loop, split hidden layers."""
