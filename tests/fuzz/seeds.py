"""Sound models that a fuzzer changes: what sites are made of, in every kind of container that ONNX has."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from tests.fuzz.hostile import FLOAT, body, chain, function, loop, model_of, nested, number, sizes


def feed_forward() -> onnx.ModelProto:
    """Two products with GELU between them, a residual and a norm behind."""
    random = np.random.default_rng(0)
    weights = {"w1": (8, 16), "b1": (16,), "w2": (16, 8), "b2": (8,), "gain": (8,), "bias": (8,)}
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["p"], name="first"),
        helper.make_node("Add", ["p", "b1"], ["h"]),
        helper.make_node("Div", ["h", "root"], ["d"]),
        helper.make_node("Erf", ["d"], ["e"]),
        helper.make_node("Add", ["e", "one"], ["f"]),
        helper.make_node("Mul", ["h", "f"], ["g"]),
        helper.make_node("Mul", ["g", "half"], ["a"]),
        helper.make_node("MatMul", ["a", "w2"], ["q"], name="second"),
        helper.make_node("Add", ["q", "b2"], ["r"]),
        helper.make_node("Add", ["r", "x"], ["s"]),
        helper.make_node("LayerNormalization", ["s", "gain", "bias"], ["y"], axis=-1, epsilon=1e-5),
    ]
    held = [number(name, random.standard_normal(shape)) for name, shape in weights.items()]
    held += [number("root", 2**0.5), number("one", 1.0), number("half", 0.5)]
    return model_of(nodes, initializers=held, shape=["batch", "seq", 8])


def norm_in_pieces() -> onnx.ModelProto:
    """A norm as exporters write it out."""
    nodes = [
        helper.make_node("ReduceMean", ["x", "axis"], ["m"]),
        helper.make_node("Sub", ["x", "m"], ["c"]),
        helper.make_node("Pow", ["c", "two"], ["s"]),
        helper.make_node("ReduceMean", ["s", "axis"], ["v"]),
        helper.make_node("Add", ["v", "epsilon"], ["e"]),
        helper.make_node("Sqrt", ["e"], ["d"]),
        helper.make_node("Div", ["c", "d"], ["n"]),
        helper.make_node("Mul", ["n", "gain"], ["y"]),
    ]
    held = [sizes("axis", -1), number("two", 2.0), number("epsilon", 1e-5), number("gain", np.ones(8))]
    return model_of(nodes, initializers=held)


def in_a_function() -> onnx.ModelProto:
    """A gate in a function, which is called twice."""
    gate = function("gate", [helper.make_node("Sigmoid", ["a"], ["s"]), helper.make_node("Mul", ["a", "s"], ["b"])])
    nodes = [helper.make_node("gate", ["x"], ["m"], domain="own"), helper.make_node("gate", ["m"], ["y"], domain="own")]
    return model_of(nodes, functions=[gate])


def in_a_branch() -> onnx.ModelProto:
    """An ``If`` on the size of the input."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["rows"]),
        helper.make_node("Greater", ["rows", "zero"], ["any"]),
        helper.make_node(
            "If",
            ["any"],
            ["y"],
            then_branch=body([helper.make_node("Softmax", ["x"], ["t"])], "t"),
            else_branch=body([helper.make_node("Relu", ["x"], ["e"])], "e"),
        ),
    ]
    return model_of(nodes, initializers=[number("zero", 0, np.int64)])


def outside() -> onnx.ModelProto:
    """A weight in a file beside the model."""
    tensor = onnx.TensorProto(name="w", data_type=FLOAT, dims=[8, 8], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", "weights.bin"), ("offset", "0"), ("length", "256")):
        tensor.external_data.add(key=key, value=value)
    return model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], initializers=[tensor])


SEEDS = (
    feed_forward,
    norm_in_pieces,
    in_a_function,
    in_a_branch,
    outside,
    lambda: loop(3),
    lambda: loop(3, stacked=True),
    lambda: nested(3, both=True),
    lambda: chain(6, ["Relu", "Cast", "Identity", "Erf", "Transpose", "Reshape"]),
)
