"""Other inputs and outputs than were promised."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from tests.parity.faults.edit import Editor, behind, input_of, node_of, output_of
from tests.parity.faults.fault import Fault, bound, interface, shape


def renamed_output(model: ir.Model) -> None:
    """Give the output another name."""
    output_of(model).name = "something_else"


def _renamed_input(model: ir.Model) -> None:
    input_of(model).name = "something_else"


def _output_as(dtype: ir.DataType) -> Callable[[ir.Model], None]:
    def plant(model: ir.Model) -> None:
        behind(model, output_of(model), lambda edit, y: edit.Cast(y, to=dtype))
        output_of(model).type = ir.TensorType(dtype)

    return plant


def _input_as(dtype: ir.DataType) -> Callable[[ir.Model], None]:
    def plant(model: ir.Model) -> None:
        x = input_of(model)
        old = x.dtype
        behind(model, x, lambda edit, value: edit.Cast(value, to=old))
        x.type = ir.TensorType(dtype)

    return plant


def _outputs_swapped(model: ir.Model) -> None:
    """Exchange the names of the two outputs: each name has the other's values."""
    first, second = model.graph.outputs
    first.name, second.name = second.name, f"{first.name}_swapped"
    second.name = str(second.name).removesuffix("_swapped")


def _outputs_reordered(model: ir.Model) -> None:
    """Write the outputs in another order, each with its name."""
    first, second = model.graph.outputs
    model.graph.outputs[:] = [second, first]


def _output_missing(model: ir.Model) -> None:
    del model.graph.outputs[-1]


def _output_more(model: ir.Model) -> None:
    hidden = node_of(model, "Relu").outputs[0]
    hidden.name = "hidden"
    hidden.type = ir.TensorType(ir.DataType.FLOAT)
    hidden.shape = ir.Shape(["batch", "seq", 64])
    model.graph.outputs.append(hidden)


def _input_more(model: ir.Model) -> None:
    more = ir.Value(name="more", shape=ir.Shape([1]), type=ir.TensorType(ir.DataType.FLOAT))
    model.graph.inputs.append(more)
    behind(model, output_of(model), lambda edit, y: edit.Add(y, more))


def _input_baked(model: ir.Model) -> None:
    """Read the sublayer's output from a constant."""
    baked = model.graph.inputs[1]
    behind(model, baked, lambda edit, _: edit.weight(np.zeros((1, 3, 4), np.float32)))
    del model.graph.inputs[1]


def _transposed(model: ir.Model) -> None:
    behind(model, output_of(model), lambda edit, y: edit.Transpose(y, perm=[1, 0, 2]))
    output_of(model).shape = None


def _flattened(model: ir.Model) -> None:
    def flat(edit: Editor, y: ir.Value) -> ir.Value:
        return edit.Reshape(y, edit.whole(-1, 32))

    behind(model, output_of(model), flat)
    output_of(model).shape = None


def _axes_exchanged(model: ir.Model) -> None:
    """Call the first axis the sequence and the second the batch."""
    for value in (input_of(model), output_of(model)):
        value.shape = ir.Shape(["seq", "batch", 32])


def _one_symbol(model: ir.Model) -> None:
    """Declare that batch and sequence are always equal."""
    input_of(model).shape = ir.Shape(["n", "n", 32])


FAULTS = (
    Fault("output-renamed", "an output of another name", ("relu", "d2l-ffn"), (shape(),), renamed_output),
    Fault("input-renamed", "an input of another name", ("relu",), (interface(),), _renamed_input),
    Fault("output-float64", "an output in float64", ("relu",), (shape(),), _output_as(ir.DataType.DOUBLE)),
    Fault("output-float16", "an output in float16", ("relu",), (shape(),), _output_as(ir.DataType.FLOAT16)),
    Fault(
        "input-float16-declared", "an input in float16", ("pre_norm",), (interface(),), _input_as(ir.DataType.FLOAT16)
    ),
    Fault("ids-int32", "ids in int32", ("decoder",), (interface(),), _input_as(ir.DataType.INT32)),
    Fault(
        "outputs-swapped",
        "two outputs, each with the other's name",
        ("two_outputs",),
        (bound("normal"),),
        _outputs_swapped,
    ),
    Fault("outputs-reordered", "two outputs in another order", ("two_outputs",), (interface(),), _outputs_reordered),
    Fault("output-missing", "one output of two", ("two_outputs",), (shape(),), _output_missing),
    Fault("output-more", "an output that nobody asked for", ("relu",), (interface(),), _output_more),
    Fault("input-more", "an input that nobody promised", ("relu",), (interface(),), _input_more),
    Fault("input-baked", "an input that became a constant", ("d2l-addnorm",), (interface(),), _input_baked),
    Fault("output-transposed", "an output of [seq, batch, width]", ("relu",), (shape(),), _transposed),
    Fault("output-flattened", "an output of [tokens, width]", ("relu",), (shape(),), _flattened),
    Fault(
        "axes-exchanged",
        "an input whose first axis is called the sequence",
        ("relu",),
        (interface(),),
        _axes_exchanged,
        shown=False,
    ),
    Fault(
        "axes-of-one-symbol",
        "a batch and a sequence of one symbol",
        ("relu",),
        (interface(),),
        _one_symbol,
        shown=False,
    ),
)
