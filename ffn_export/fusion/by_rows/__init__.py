"""Feed-forwards computed on the rows of a matrix: biases within the products, chunks of rows in a loop."""
