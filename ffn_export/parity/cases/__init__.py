"""The inputs that a model is verified on: sizes of the symbolic axes, kinds of values, masks."""
