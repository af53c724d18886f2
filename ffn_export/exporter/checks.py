"""Checks of an exported model: opset, inputs, axes, inference mode, and the ONNX checker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
import torch
from onnx_ir.passes.common import CheckerPass

from ffn_export.core.drawing import numpy_dtype
from ffn_export.core.tensor_spec import Dim, TensorSpec
from ffn_export.errors import ExportError
from ffn_export.exporter.module_state import changed_buffer
from ffn_export.exporter.opset_hint import opset_hint
from ffn_export.exporter.traced import user_inputs, user_outputs

# Argument names of the switch between training and inference; attention has only a dropout rate.
_TRAINING_SWITCHES = ("train", "training")
_DROPOUT_RATE = "dropout_p"


def check_export(
    model: ir.Model, specs: Sequence[TensorSpec], program: torch.export.ExportedProgram, opset: int
) -> None:
    """Check opset, inputs and axes, and run the ONNX checker with shape inference.

    Raises:
        ExportError: On the first check that fails.
    """
    check_opset(model, opset)
    check_inputs(model, specs)
    check_output_axes(model, program)
    check_valid(model)


def check_opset(model: ir.Model, opset: int) -> None:
    """Check that the opset of the default domain is the requested one."""
    actual = model.opset_imports.get("")
    if actual != opset:
        raise ExportError(
            f"opset {opset} is not supported for this module, torch's exporter stayed at {actual}: use a lower --opset"
        )


def check_inputs(model: ir.Model, specs: Sequence[TensorSpec]) -> None:
    """Check that the graph has exactly these inputs, with their dtypes, ranks and symbolic axes."""
    actual = {value.name: value for value in model.graph.inputs}
    for spec in specs:
        value = actual.pop(spec.name, None)
        if value is None:
            raise ExportError(
                f"input {spec.name!r} does not reach any output and is not in the graph: leave it out of --input"
            )
        if value.dtype != ir.DataType.from_numpy(numpy_dtype(spec.dtype)):
            raise ExportError(f"input {spec.name!r} was asked for as {spec.dtype}, the graph has {value.dtype}")
        if value.shape is None or len(value.shape) != len(spec.dims):
            raise ExportError(f"input {spec.name!r} was asked for as {spec}, the graph has {value.shape}")
        for wanted, got in zip(spec.dims, value.shape, strict=True):
            if not isinstance(wanted, int) and not isinstance(got, ir.SymbolicDim):
                raise specialised(wanted.name, spec.name, got)
    if actual:
        raise ExportError(f"the graph has inputs that were not asked for: {', '.join(map(str, actual))}")


def check_ranges(program: torch.export.ExportedProgram, specs: Sequence[TensorSpec]) -> None:
    """Check that the trace accepts every requested size, and ties no two axes of different names.

    A branch on a size, or a table of positions, narrows the range for which the trace is valid.

    Raises:
        TracedSizeError: If the trace holds for one size of an axis.
        ExportError: If it holds for fewer sizes than were requested.
    """
    owners: dict[str, Dim] = {}
    for spec, value in zip(specs, user_inputs(program), strict=True):
        for axis, dim in spec.symbolic.items():
            size: Any = value.shape[axis]
            if isinstance(size, int):
                raise specialised(dim.name, spec.name, size)
            symbol = size.node.expr
            other = owners.setdefault(str(symbol), dim)
            if other.name != dim.name:
                raise ExportError(f"the module ties axis {dim.name!r} to {other.name!r}: give both one name in --input")
            bounds = program.range_constraints.get(symbol)
            if bounds is None:
                continue
            # torch records 2 as the lower bound of every axis that it traced with a size above 1.
            low = dim.minimum if bounds.lower <= 2 else max(dim.minimum, int(bounds.lower))
            high = dim.maximum if bounds.upper > sys.maxsize // 2 else int(bounds.upper)
            if (low, high) != (dim.minimum, dim.maximum):
                raise out_of_bounds(Dim(dim.name, low, high))


class TracedSizeError(ExportError):
    """The trace assumed something about a size that does not hold for all requested sizes.

    Attributes:
        axis: The axis, if the assumption is about one.
        takes: The size, or the bounds, that the assumption allows.
    """

    def __init__(self, message: str, axis: str | None = None, takes: int | Dim | None = None) -> None:
        super().__init__(message)
        self.axis = axis
        self.takes = takes


def specialised(axis: str, input_name: str, size: int | str) -> TracedSizeError:
    """Return the error for a symbolic axis that the module specialises to one size."""
    return TracedSizeError(
        f"axis {axis!r} of input {input_name!r} is specialised to {size} by the module: write {size} instead of the "
        "name in --input, or take the size from the input in forward",
        axis,
        size if isinstance(size, int) else None,
    )


def out_of_bounds(dim: Dim) -> TracedSizeError:
    """Return the error for an axis that the module bounds more narrowly than requested."""
    return TracedSizeError(
        f"the module, as torch.export traced it, bounds axis {dim.name!r}: write {dim} for it in --input, "
        "or take branches on the size out of forward",
        dim.name,
        dim,
    )


def check_output_axes(model: ir.Model, program: torch.export.ExportedProgram) -> None:
    """Check that an output axis that is symbolic in PyTorch is symbolic in the graph."""
    for value, tensor in zip(model.graph.outputs, user_outputs(program), strict=True):
        if value.shape is None:
            continue
        if len(tensor.shape) != len(value.shape):
            raise ExportError(f"output {value.name!r} has rank {tensor.ndim}, the graph gives it {len(value.shape)}")
        for axis, (size, got) in enumerate(zip(tensor.shape, value.shape, strict=True)):
            if not isinstance(size, int) and isinstance(got, int):
                raise TracedSizeError(f"axis {axis} of output {value.name!r} was specialised to {got} in the graph")


def check_kept_axes(
    traced: torch.export.ExportedProgram, program: torch.export.ExportedProgram, names: Sequence[str]
) -> None:
    """Check that the replacement of operators left each output axis symbolic: it takes a size of 1 for a fixed one."""
    for name, before, after in zip(names, user_outputs(traced), user_outputs(program), strict=True):
        for axis, (size, got) in enumerate(zip(before.shape, after.shape, strict=True)):
            if not isinstance(size, int) and isinstance(got, int):
                raise TracedSizeError(f"axis {axis} of output {name!r} was specialised to {got} in the trace")


def check_inference_only(program: torch.export.ExportedProgram) -> None:
    """Check that no operator runs in training mode, draws random numbers, or changes a buffer.

    This reads the program, not the graph: a translation may drop a training flag or fold a random
    number into a constant.
    """
    calls = _calls(program)
    if _may_change_buffers(program, calls):
        # Functionalise first, to know which writes reach a buffer. That takes minutes for a loop of many writes.
        changed = [*program.run_decompositions({}).graph_signature.buffers_to_mutate.values()]
        if changed:
            raise _changes(changed[0])
    for node in calls:
        operator = _operator(node)
        arguments = _arguments(node)
        switches = [bool(arguments[name]) for name in _TRAINING_SWITCHES if name in arguments]
        where = f"{operator.overloadpacket.__name__}{_scope(node)}"
        if any(switches):
            raise ExportError(
                f"{where} runs in training mode: pass training=self.training to it, so that .eval() turns it off"
            )
        is_off = bool(switches) or arguments.get(_DROPOUT_RATE) == 0
        if torch.Tag.nondeterministic_seeded in operator.tags and not is_off:
            raise ExportError(f"{where} draws random numbers, a graph must not: do it only if self.training")


def check_kept_buffers(
    program: torch.export.ExportedProgram, module: torch.nn.Module, run: Callable[[], object]
) -> None:
    """Check by a run that forward changes no buffer where the program does not show it.

    In evaluation ``dropout`` and a few other operators return their argument itself, and a write to it reaches a
    buffer. In the program, and when it is decomposed, they return a copy.

    Args:
        program: The exported program. A program without writes is not run.
        module: The module, which has run before.
        run: Calls the module once.
    """
    if program.graph_signature.buffers and any(_operator(node)._schema.is_mutable for node in _calls(program)):
        changed = changed_buffer(module, run)
        if changed is not None:
            raise _changes(changed)


def _changes(buffer: str) -> ExportError:
    return ExportError(
        f"forward changes buffer {buffer!r}, a graph keeps nothing for the next call: compute it anew in forward"
    )


def _calls(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    return [n for graph in graphs for n in graph.nodes if isinstance(n.target, torch._ops.OpOverload)]


def _may_change_buffers(program: torch.export.ExportedProgram, calls: Sequence[torch.fx.Node]) -> bool:
    """Whether a call may write into the memory of a buffer, as far as the schemas of operators tell.

    They do not tell of the writes that :func:`check_kept_buffers` finds.
    """
    writing = [node for node in calls if _operator(node)._schema.is_mutable]
    if not writing or any(node.graph is not program.graph for node in writing):
        return bool(writing and program.graph_signature.buffers)
    shared = {node for node in program.graph.nodes if node.name in program.graph_signature.inputs_to_buffers}
    for node in program.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            marks = {each.name: each.alias_info for each in node.target._schema.arguments}
            given = [marks[name] for name, value in _arguments(node).items() if not shared.isdisjoint(_nodes(value))]
            memory = [mark for mark in given if mark is not None]
            if any(mark.is_write for mark in memory):
                return True
            is_shared = bool(memory)
        else:  # such as an item of a list of views
            is_shared = not shared.isdisjoint(node.all_input_nodes)
        if is_shared:
            shared.add(node)
    return False


def _nodes(value: Any) -> list[torch.fx.Node]:
    found: list[torch.fx.Node] = []
    torch.fx.map_arg(value, found.append)
    return found


def _operator(node: torch.fx.Node) -> Any:
    return node.target


def _arguments(node: torch.fx.Node) -> dict[str, Any]:
    """Return the arguments of an operator call by name, defaults included."""
    schema = _operator(node)._schema.arguments
    defaults = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
    return {**defaults, **dict(zip((a.name for a in schema), node.args, strict=False)), **node.kwargs}


def _scope(node: torch.fx.Node) -> str:
    """Return `` in layers.0.dropout`` for a call in that submodule, else nothing."""
    paths = [path for path, _ in node.meta.get("nn_module_stack", {}).values()]
    return f" in {paths[-1]}" if paths and paths[-1] else ""


def check_valid(model: ir.Model) -> None:
    """Run the ONNX checker with full shape inference."""
    try:
        CheckerPass(full_check=True)(model)
    except Exception as error:
        lines = str(error.__cause__ or error).strip().splitlines()
        said = lines[0] if lines else error
        raise ExportError(f"the ONNX checker rejects the exported model: {said}{opset_hint(model)}") from error
