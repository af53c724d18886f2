"""Feed-forwards written anew as functions of rows: split hidden layers, and row chunks in a loop."""
